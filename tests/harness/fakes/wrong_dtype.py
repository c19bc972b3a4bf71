import numpy as np
from right import Right


class Fake(Right):
    def grad(self, x):
        return super().grad(x).astype(np.float32)
