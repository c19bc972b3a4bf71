import numpy as np
from right import Right


class Fake(Right):
    def grad(self, x):
        g = super().grad(x)
        g[len(g) // 2, 1] = np.nan
        return g
