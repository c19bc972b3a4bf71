import numpy as np
from right import Right


class Fake(Right):
    """Leaves one close pair out of the gradient only: loss and counts are right."""

    dropping = False

    def grad(self, x):
        self.dropping = True
        try:
            return super().grad(x)
        finally:
            self.dropping = False

    def _pairs(self, x):
        d, r = super()._pairs(x)
        if self.dropping:
            i, j = np.argwhere((r > 0) & (r < 0.5 * self.problem.cutoff))[0]
            d[i, j] = d[j, i] = 0
        return d, r
