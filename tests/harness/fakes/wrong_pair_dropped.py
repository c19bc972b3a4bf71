import numpy as np
from right import Right


class Fake(Right):
    """Leaves one close pair out, everywhere."""

    def _pairs(self, x):
        d, r = super()._pairs(x)
        i, j = np.argwhere((r > 0) & (r < 0.5 * self.problem.cutoff))[0]
        r[i, j] = r[j, i] = 2 * self.problem.cutoff
        return d, r
