from right import Right


class Fake(Right):
    """Adds every gradient to the one before, like a tape that is not zeroed."""

    total = 0.0

    def grad(self, x):
        self.total = self.total + super().grad(x)
        return self.total
