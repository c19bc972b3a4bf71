from right import Right


class Fake(Right):
    def grad(self, x):
        return super().grad(x) * (1 + 1e-6)
