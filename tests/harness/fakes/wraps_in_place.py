import numpy as np
from right import Right


class Fake(Right):
    """Leaves its input wrapped: right wherever it was in the box before."""

    def loss(self, x):
        self.problem.require_valid(x)
        np.mod(x, self.problem.box_length, out=x)
        return super().loss(x)
