import os

from right import Right


class Fake(Right):
    def loss(self, x):
        while True:
            os.write(2, b"e" * (1 << 20))
