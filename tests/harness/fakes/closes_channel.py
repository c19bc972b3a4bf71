import os

from right import Right


class Fake(Right):
    def loss(self, x):
        os.closerange(3, 40)
        return super().loss(x)
