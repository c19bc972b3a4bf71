import numpy as np
from right import Right


class Fake(Right):
    """No periodic images."""

    def _pairs(self, x):
        d = x[:, None] - x
        return d, np.sqrt(np.sum(d**2, axis=-1))
