"""Density over sorted cells; cells, W and the sum of squares are `_warp`'s.

    rho_k = sum_l m W(|x_k - x_l|)        self term included

The CPU compiler may reassociate sums here (no other fast-math flag: NaN stays NaN), which lets it use vector registers
for the loop over a run. For that the loop is a counted `while`: Warp's `range` keeps its state in a struct that the
compiler does not see through.
"""
# Kernels are written in Warp's language, which its stubs type only in part.
# mypy: disable-error-code="arg-type, index, var-annotated"

from __future__ import annotations

from typing import Any

import warp as wp

from implementations._warp.cells import stencil_run, stencil_runs
from implementations._warp.spline import spline

REASSOCIATE = f"{wp.config.cpu_compiler_flags or '-march=native'} -mreassociate -fno-signed-zeros"
"""Clang's flags: Warp's own, and sums in any order."""

wp.set_module_options({"enable_backward": False, "cpu_compiler_flags": REASSOCIATE})


@wp.func
def _sum_of_run(px: Any, py: Any, first: int, last: int, xs: wp.array[Any], ys: wp.array[Any], support: Any) -> Any:
    """Sum of W / C over slots [first, last) around (px, py)."""
    total = type(px)(0.0)
    slot = wp.max(first, 0)  # tells the compiler that no index is negative
    while slot < last:
        dx = px - xs[slot]
        dy = py - ys[slot]
        total += spline(wp.sqrt(dx * dx + dy * dy), support)
        slot += 1
    return total


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
    # outputs
    residual: wp.array[Any],
) -> None:
    """residual[k] = rho_k - rho_0 of the particle in slot k."""
    slot = wp.tid()
    cell = cells[slot]
    total = type(length)(0.0)
    for run in range(stencil_runs(cell % cells_per_side, cells_per_side, xs.shape[0])):
        first, last, shift_x, shift_y = stencil_run(run, slot, cell, cells_per_side, length, xs, ys, starts)
        total += _sum_of_run(xs[slot] + shift_x, ys[slot] + shift_y, first, last, xs, ys, support)
    residual[slot] = scale * total - rest_density
