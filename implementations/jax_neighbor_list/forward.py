"""Density and loss over a padded pair list of jax-md; this function is what gets differentiated.

rho_i = m W(0) + m sum_(i, j) W(|x_i - x_j|),  loss = sum_i (rho_i - rho_0)^2
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax_md import partition

from harness.problems.sph2d import Sph2d
from implementations._jax.pair_list import pair_terms
from implementations._jax.row import status_of
from implementations._jax.spline import spline, sum_of_squares


def loss(problem: Sph2d, empty: partition.NeighborList, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Loss and status.

    Args:
        problem: parameters.
        empty: a list that gives the capacities.
        x: (N, 2) positions, N > 0.

    Returns:
        Scalar loss of x's dtype; the status (`status_of`) is beyond the capacity where cells or list overflowed.
    """
    n = len(x)
    i, w, needed = pair_terms(problem, empty, x)
    w = jnp.where(i < n, w, 0)
    kernel_sum = spline(problem, jnp.zeros((), x.dtype)) + jax.ops.segment_sum(w, i, num_segments=n)
    return sum_of_squares(problem.mass * kernel_sum - problem.rest_density), status_of(problem, x, needed)
