"""Reverse pass: the hand-written adjoint kernel, in `_shared/warp_gather_adjoint.py`."""

from __future__ import annotations

import warp as wp

from implementations._shared.warp_cells import VEC2, CellList, Grid
from implementations._shared.warp_gather_adjoint import compute_gradient


def launch_gradient(grid: Grid, cell_list: CellList, residual: wp.array, sorted_gradient: wp.array) -> wp.array:
    """dL/dx, a new array of (N,) vectors in the order of the positions."""
    gradient = wp.empty(grid.particles, dtype=VEC2[grid.dtype], device=residual.device)
    compute_gradient(grid, cell_list, residual, sorted_gradient, gradient)
    return gradient
