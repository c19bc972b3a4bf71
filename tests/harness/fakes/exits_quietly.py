import os

from right import Right


class Fake(Right):
    def loss(self, x):
        os._exit(0)
