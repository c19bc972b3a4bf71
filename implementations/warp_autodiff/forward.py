"""Forward pass for `wp.Tape`: positions in cell order, density, loss. Cells and spline are shared with warp_adjoint.

What reverse mode asks of these kernels:

- Density and loss are two kernels. A sum that a loop of unknown length built is not rebuilt on the way back: in one
  kernel, the square of the residual would be differentiated at the value the sum had before the loop. Nothing warns;
  the gradient is wrong by the factor (rho_before - rho_0) / (rho - rho_0).
- The loop is a `range`: `while` loops have no reverse.
- The self term stands before the loop, where the derivative of the root at r = 0 is not taken; between coincident
  particles the root is taken of the smallest normal number instead, through a maximum whose derivative is 0.
"""
# Kernels are written in Warp's language, which its stubs type only in part.
# mypy: disable-error-code="arg-type, index, operator, var-annotated"

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from harness.contract.protocol import Dtype
from implementations._shared.warp_cells import REAL, CellList, Grid, gather_positions, stencil_run, stencil_runs
from implementations._shared.warp_loss import compute_loss, partial_sum_count
from implementations._shared.warp_spline import spline, spline_scale

wp.set_module_options({"enable_backward": True})


@wp.kernel
def _residual(
    xs: wp.array[Any],
    ys: wp.array[Any],
    cells: wp.array[int],
    starts: wp.array[int],
    cells_per_side: int,
    length: Any,
    support: Any,
    scale: Any,
    rest_density: Any,
    smallest: Any,
    # outputs
    residual: wp.array[Any],
) -> None:
    """residual[k] = rho_k - rho_0 of the particle in slot k."""
    slot = wp.tid()
    cell = cells[slot]
    total = spline(type(length)(0.0), support)
    for run in range(stencil_runs(cell % cells_per_side, cells_per_side, xs.shape[0])):
        first, last, shift_x, shift_y = stencil_run(run, slot, cell, cells_per_side, length, xs, ys, starts)
        px = xs[slot] + shift_x  # read here, so that its gradient is summed in a register
        py = ys[slot] + shift_y
        for other in range(first, last):
            dx = px - xs[other]
            dy = py - ys[other]
            r2 = dx * dx + dy * dy
            if other != slot and r2 < support * support:
                total += spline(wp.sqrt(wp.max(r2, smallest)), support)
    residual[slot] = scale * total - rest_density


@functools.cache
def _kernel(dtype: Dtype) -> wp.Kernel:
    real, reals = REAL[dtype], wp.array(dtype=REAL[dtype])
    arrays = dict.fromkeys(("xs", "ys", "residual"), reals)
    scalars = dict.fromkeys(("length", "support", "scale", "rest_density", "smallest"), real)
    return wp.overload(_residual, {**arrays, **scalars})


@dataclass(slots=True)
class Intermediates:
    """What lies between positions and loss; all of it has gradients.

    Attributes:
        cell_list: particles in cell order.
        residual: (N,) density minus rest density in cell order.
        partial_sums: sums of its squares over tiles, float64.
    """

    cell_list: CellList
    residual: wp.array
    partial_sums: wp.array

    @classmethod
    def allocate(cls, grid: Grid, device: wp.Device) -> Intermediates:
        """Arrays for `launch_loss`."""
        n = grid.particles
        return cls(
            cell_list=CellList.allocate(grid, device, requires_grad=True),
            residual=wp.empty(n, dtype=REAL[grid.dtype], device=device, requires_grad=True),
            partial_sums=wp.empty(partial_sum_count(n), dtype=wp.float64, device=device, requires_grad=True),
        )


def launch_loss(grid: Grid, x: wp.array, between: Intermediates) -> wp.array:
    """The loss, a new array (1,), of positions x, (N,) vectors, that `sort_into_cells` has sorted.

    All that a tape records.
    """
    problem, cell_list = grid.problem, between.cell_list
    gather_positions(grid, x, cell_list)
    wp.launch(
        _kernel(grid.dtype),
        dim=grid.particles,
        inputs=[
            cell_list.xs,
            cell_list.ys,
            cell_list.cells,
            cell_list.starts,
            grid.cells_per_side,
            problem.box_length,
            problem.cutoff,
            spline_scale(problem),
            problem.rest_density,
            float(np.finfo(grid.dtype).tiny),
        ],
        outputs=[between.residual],
        device=x.device,
    )
    loss = wp.empty(1, dtype=REAL[grid.dtype], device=x.device, requires_grad=True)
    compute_loss(grid, between.residual, between.partial_sums, loss)
    return loss
