"""Launches of the kernels of forward.py and adjoint.py."""

from __future__ import annotations

import numpy as np
import warp as wp

from implementations._warp.launch import CellList, Grid, gather_positions, sort_into_cells, specialised
from implementations._warp.spline import spline_scale
from implementations.warp_adjoint.adjoint import gather_gradient_kernel, unsort_kernel
from implementations.warp_adjoint.forward import residual_kernel


def compute_residual(grid: Grid, x: wp.array, cell_list: CellList, residual: wp.array) -> None:
    """Density minus rest density, (N,) in cell order, at positions x, (N,) vectors; fills the cell list."""
    sort_into_cells(grid, x, cell_list)
    gather_positions(grid, x, cell_list)
    wp.launch(
        specialised(residual_kernel, grid.dtype),
        dim=grid.particles,
        inputs=[*cell_list.walk(grid), spline_scale(grid.problem), grid.problem.rest_density],
        outputs=[residual],
        device=residual.device,
    )


def compute_gradient(
    grid: Grid, cell_list: CellList, residual: wp.array, sorted_gradient: wp.array, gradient: wp.array
) -> None:
    """dL/dx, (N,) vectors in the order of the positions, from the cell list and residual of a forward pass."""
    device, smallest = residual.device, float(np.finfo(grid.dtype).tiny)
    wp.launch(
        specialised(gather_gradient_kernel, grid.dtype),
        dim=grid.particles,
        inputs=[*cell_list.walk(grid), residual, 12.0 * spline_scale(grid.problem), smallest],
        outputs=[sorted_gradient],
        device=device,
    )
    wp.launch(
        specialised(unsort_kernel, grid.dtype),
        dim=grid.particles,
        inputs=[sorted_gradient, cell_list.order],
        outputs=[gradient],
        device=device,
    )
