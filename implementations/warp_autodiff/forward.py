"""Density for `wp.Tape`, over sorted cells; cells, W and the sum of squares are `_warp`'s.

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

from typing import Any

import warp as wp

from implementations._warp.cells import stencil_run, stencil_runs
from implementations._warp.spline import spline

wp.set_module_options({"enable_backward": True})


@wp.kernel
def residual_kernel(
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
