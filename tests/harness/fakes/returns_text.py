from right import Right


class Fake(Right):
    def loss(self, x):
        return "all is well"
