import time

from right import Right


class Fake(Right):
    calls = 0

    def grad(self, x):
        self.calls += 1
        time.sleep(0.02 if self.calls % 2 else 0.04)
        return super().grad(x)
