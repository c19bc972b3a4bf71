import numpy as np
from right import Right


class Fake(Right):
    def loss(self, x):
        return np.max(x[:0])
