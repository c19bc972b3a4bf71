"""Loss over the padded cell list, traced once for Enzyme: a plain loop, no hint of a derivative.

rho_i = m sum_j W(|x_i - x_j|),  loss = sum_i (rho_i - rho_0)^2
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from harness.problems.sph2d import Sph2d
from implementations._jax.cells import add_slot, build_cells, pair_kernel
from implementations._jax.spline import sum_of_squares


def loss(problem: Sph2d, capacity: int, x: jax.Array) -> jax.Array:
    """Scalar loss of x's dtype; it means nothing where a cell holds more than `capacity`.

    Args:
        problem: parameters.
        capacity: slots per cell.
        x: (N, 2) positions, N > 0.
    """
    cells = build_cells(problem, x)
    step = partial(add_slot, cells, partial(pair_kernel, problem, cells))
    # add term by term to what the loop carries: given one sum per step, Enzyme holds all steps at once, 13 GB for 1e6
    kernel_sum = jax.lax.fori_loop(0, capacity, step, jnp.zeros_like(cells.x))
    return sum_of_squares(problem.mass * kernel_sum - problem.rest_density)
