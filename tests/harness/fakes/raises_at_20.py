from right import Right


class Fake(Right):
    def loss(self, x):
        if len(x) == 20:
            raise RuntimeError("not with twenty")
        return super().loss(x)
