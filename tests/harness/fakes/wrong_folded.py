from right import Right


class Fake(Right):
    """The positions it was built for are captured: later ones are ignored."""

    def __init__(self, problem, positions, device, dtype):
        super().__init__(problem, positions, device, dtype)
        self.captured = super().grad(positions)

    def grad(self, x):
        return self.captured.copy()
