"""Loss over the padded cell list, and the residuals the adjoint keeps.

rho_i = m sum_j W(|x_i - x_j|),  loss = sum_i (rho_i - rho_0)^2
"""

from __future__ import annotations

import jax

from harness.problems.sph2d import Sph2d
from implementations._jax.cells import CellList, build_cells, residuals
from implementations._jax.row import status_of
from implementations._jax.spline import sum_of_squares

Saved = tuple[CellList, jax.Array]


def loss(problem: Sph2d, capacity: int, x: jax.Array) -> tuple[tuple[jax.Array, jax.Array], Saved]:
    """Loss and status, and what the adjoint needs: O(N) memory.

    Args:
        problem: parameters.
        capacity: slots per cell; the loss means nothing where the status exceeds it.
        x: (N, 2) positions, N > 0.

    Returns:
        (scalar loss of x's dtype, status with the occupancy of the fullest cell), (the cells, residuals
        rho_i - rho_0 in cell order, (N,)).
    """
    cells = build_cells(problem, x)
    residual = residuals(problem, cells, capacity)
    return (sum_of_squares(residual), status_of(problem, x, cells.occupancy)), (cells, residual)
