from right import Right


class Fake(Right):
    def _residual(self, r):
        return 2 * super()._residual(r) + self.problem.rest_density
