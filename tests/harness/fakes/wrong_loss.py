from right import Right


class Fake(Right):
    def loss(self, x):
        return super().loss(x) * (1 + 1e-9)
