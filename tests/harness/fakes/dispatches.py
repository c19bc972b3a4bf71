import time

import numpy as np
from right import Right


class Pending:
    def __init__(self, value):
        self.value, self.done = value, False

    def block_until_ready(self):
        if not self.done:
            time.sleep(0.05)
        self.done = True


class Fake(Right):
    """Returns at once; the second of its outputs takes 50 ms to be there."""

    def loss(self, x):
        value = super().loss(x)
        return value, {"aux": [Pending(value)]}

    def grad(self, x):
        return 0.0, Pending(super().grad(x))

    def to_numpy(self, array):
        if isinstance(array, np.ndarray):
            return np.array(array)
        first, second = array
        return np.array(second.value if isinstance(second, Pending) else first)
