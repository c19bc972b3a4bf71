import time

from right import Right


class Fake(Right):
    def loss(self, x):
        if len(x) >= 200:
            time.sleep(600)
        return super().loss(x)
