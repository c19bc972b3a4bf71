import numpy as np
from right import Right


class Fake(Right):
    """Every gradient lives in one buffer, and its NumPy form is a view."""

    buffer = None

    def grad(self, x):
        if self.buffer is None:
            self.buffer = np.empty_like(x)
        self.buffer[:] = super().grad(x)
        return self.buffer

    def to_numpy(self, array):
        return np.asarray(array)
