from right import Right


class Fake(Right):
    """The mean over the particles in place of the sum."""

    def loss(self, x):
        return super().loss(x) / len(x)

    def grad(self, x):
        return super().grad(x) / len(x)
