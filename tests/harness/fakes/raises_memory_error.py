import numpy as np
from right import Right


class Fake(Right):
    def loss(self, x):
        return np.ones(1 << 50).sum()
