from right import Right


class Fake(Right):
    def loss(self, x):
        return super().loss(x).reshape(1)
