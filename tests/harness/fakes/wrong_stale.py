import numpy as np
from right import Right


class Fake(Right):
    """Hands out the gradient of the call before."""

    previous = None

    def grad(self, x):
        new = super().grad(x)
        old, self.previous = self.previous, new
        return np.copy(new if old is None else old)
