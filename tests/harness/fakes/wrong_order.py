import numpy as np
from right import Right


class Fake(Right):
    """Forgets to undo the sort into cells."""

    def grad(self, x):
        cells = self.problem.cell_coordinates(x, self.problem.cells_per_side(len(x)))
        return super().grad(x)[np.lexsort(cells.T)]
