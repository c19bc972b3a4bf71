"""Loss over the padded cell list; this function, sort and gathers included, is what gets differentiated.

rho_i = m sum_j W(|x_i - x_j|),  loss = sum_i (rho_i - rho_0)^2
"""

from __future__ import annotations

import jax

from harness.problems.sph2d import Sph2d
from implementations._jax.cells import build_cells, residuals
from implementations._jax.row import status_of
from implementations._jax.spline import sum_of_squares


def loss(problem: Sph2d, capacity: int, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Loss and status.

    Args:
        problem: parameters.
        capacity: slots per cell; the loss means nothing where the status exceeds it.
        x: (N, 2) positions, N > 0.

    Returns:
        Scalar loss of x's dtype, and the status (`status_of`) with the occupancy of the fullest cell.
    """
    cells = build_cells(problem, x)
    return sum_of_squares(residuals(problem, cells, capacity)), status_of(problem, x, cells.occupancy)
