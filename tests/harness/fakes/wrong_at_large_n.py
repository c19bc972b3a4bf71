from right import Right


class Fake(Right):
    """Right on small inputs only."""

    def grad(self, x):
        g = super().grad(x)
        return g if len(x) < 500 else g + 1e-6
