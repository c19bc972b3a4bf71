import os

from right import Right


class Fake(Right):
    def loss(self, x):
        if len(x) == 20:
            os.abort()
        return super().loss(x)
