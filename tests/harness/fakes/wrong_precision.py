import numpy as np
from right import Right


class Fake(Right):
    """Says float64 and computes in float32."""

    def grad(self, x):
        return super().grad(x).astype(np.float32).astype(np.float64)
