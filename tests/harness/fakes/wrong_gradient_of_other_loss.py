from right import Right


class Fake(Right):
    """Loss right; gradient that of sum rho^2, whose residual lacks rho_0."""

    def grad(self, x):
        rest = self.problem
        self.problem = type(rest)(rest.box_length, rest.smoothing_length, rest.mass, rest_density=0.0)
        try:
            return super().grad(x)
        finally:
            self.problem = rest
