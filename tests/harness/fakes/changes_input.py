from right import Right


class Fake(Right):
    def grad(self, x):
        gradient = super().grad(x)
        x += 0.1
        return gradient
