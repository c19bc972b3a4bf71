import numpy as np
import wrong_small_box


class Fake(wrong_small_box.Fake):
    """One close pair is met twice, in any box."""

    def _visits(self, x):
        r = self._pairs(x)[1]
        i, j = np.argwhere((r > 0) & (r < 0.5 * self.problem.cutoff))[0]
        visits = super()._visits(x)
        visits[i, j] = visits[j, i] = 2
        return visits
