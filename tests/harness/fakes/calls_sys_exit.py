import sys

from right import Right


class Fake(Right):
    def loss(self, x):
        sys.exit(0)
