from right import Right


class Fake(Right):
    """The loss of the positions it was built for, whatever it is asked."""

    def __init__(self, problem, positions, device, dtype):
        super().__init__(problem, positions, device, dtype)
        self.captured = super().loss(positions)

    def loss(self, x):
        return self.captured
