"""Forward pass: cells, density, loss; kernels in `_shared`: warp_cells, warp_spline, warp_density, warp_loss."""

from __future__ import annotations

import warp as wp

from implementations._shared.warp_cells import REAL, CellList, Grid, gather_positions, sort_into_cells
from implementations._shared.warp_density import compute_residual
from implementations._shared.warp_loss import compute_loss, partial_sum_count


def launch_residual(grid: Grid, x: wp.array, cell_list: CellList, residual: wp.array) -> None:
    """Density minus rest density, (N,) in cell order, at positions x, (N,) vectors; fills the cell list."""
    sort_into_cells(grid, x, cell_list)
    gather_positions(grid, x, cell_list)
    compute_residual(grid, cell_list, residual)


def launch_loss(grid: Grid, residual: wp.array) -> wp.array:
    """The loss, a new array (1,)."""
    partial_sums = wp.empty(partial_sum_count(grid.particles), dtype=wp.float64, device=residual.device)
    loss = wp.empty(1, dtype=REAL[grid.dtype], device=residual.device)
    compute_loss(grid, residual, partial_sums, loss)
    return loss
