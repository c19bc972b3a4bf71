from right import Right


class Fake(Right):
    def grad(self, x):
        return super().grad(x).tolist()
