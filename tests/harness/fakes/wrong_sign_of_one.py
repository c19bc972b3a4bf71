from right import Right


class Fake(Right):
    def grad(self, x):
        g = super().grad(x)
        g[0] = -g[0]
        return g
