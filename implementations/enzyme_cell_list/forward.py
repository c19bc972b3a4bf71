"""Loss over the padded cell list, traced once for Enzyme: a plain loop, no hint of a derivative.

rho_i = m sum_j W(|x_i - x_j|),  loss = sum_i (rho_i - rho_0)^2
"""

from __future__ import annotations

from functools import partial

import jax

from harness.problem import Problem
from implementations._shared.jax_cells import build_cells, pair_kernel, slot_sum, zeros
from implementations._shared.jax_spline import sum_of_squares


def loss(problem: Problem, capacity: int, x: jax.Array) -> jax.Array:
    """Scalar loss of x's dtype; it means nothing where a cell holds more than `capacity`.

    Args:
        problem: parameters.
        capacity: slots per cell.
        x: (N, 2) positions, N > 0.
    """
    cells = build_cells(problem, x)
    kernel = partial(pair_kernel, problem, cells)
    kernel_sum = jax.lax.fori_loop(
        0, capacity, lambda k, total: total + slot_sum(cells, kernel, k), zeros(cells, kernel)
    )
    return sum_of_squares(problem.mass * kernel_sum - problem.rest_density)
