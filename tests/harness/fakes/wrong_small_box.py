import numpy as np
from right import Right


class Fake(Right):
    """The loss walks a 3x3 stencil however few cells there are."""

    def loss(self, x):
        r = self._pairs(x)[1]
        density = self.problem.mass * np.sum(self._visits(x) * self._spline(r), axis=1)
        return np.sum((density - self.problem.rest_density) ** 2).astype(self.dtype)

    def counts(self, x):
        near = self._pairs(x)[1] < self.problem.cutoff
        return super().counts(x)._replace(true_pairs=int(np.sum(self._visits(x) * near)) - len(x))

    def _visits(self, x):
        """How often every particle meets every other."""
        nc = self.problem.cells_per_side(len(x))
        cells = self.problem.cell_coordinates(x, nc)
        apart = (cells[:, None] - cells) % nc
        return np.sum(apart[..., None] == np.arange(-1, 2) % nc, axis=-1).prod(axis=-1)
