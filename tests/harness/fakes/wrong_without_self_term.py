from right import Right


class Fake(Right):
    """A particle is no neighbour of its own."""

    def _residual(self, r):
        return super()._residual(r) - self.problem.mass * self.problem.kernel_normalisation
