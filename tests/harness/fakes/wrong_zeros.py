import numpy as np
from right import Right


class Fake(Right):
    def grad(self, x):
        return np.zeros_like(super().grad(x))
