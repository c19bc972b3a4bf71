from right import Right


class Fake(Right):
    """Right until the check is over, then always the gradient of the first sample."""

    calls, kept = 0, None

    def grad(self, x):
        self.calls += 1
        if self.calls <= 4:
            return super().grad(x)
        if self.kept is None:
            self.kept = super().grad(x)
        return self.kept
