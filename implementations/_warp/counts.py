"""Counts over the very runs of slots that the kernels walk; not timed."""
# Kernels are written in Warp's language, which its stubs type only in part.
# mypy: disable-error-code="arg-type, index, operator"

from __future__ import annotations

from typing import Any

import warp as wp

from harness.contract.protocol import Counted
from implementations._warp.cells import stencil_run, stencil_runs
from implementations._warp.launch import CellList, Grid, specialised

wp.set_module_options({"enable_backward": False})


@wp.kernel
def count_kernel(
    xs: wp.array[Any],
    ys: wp.array[Any],
    cells: wp.array[int],
    starts: wp.array[int],
    cells_per_side: int,
    length: Any,
    support: Any,
    # outputs
    slots: wp.array[wp.int64],
    pairs: wp.array[wp.int64],
) -> None:
    """Slots in the stencil of each particle, and pairs i != j with r < 2h among them."""
    slot = wp.tid()
    cell = cells[slot]
    for run in range(stencil_runs(cell % cells_per_side, cells_per_side, xs.shape[0])):
        first, last, shift_x, shift_y = stencil_run(run, slot, cell, cells_per_side, length, xs, ys, starts)
        slots[slot] += wp.int64(last - first)
        for other in range(first, last):
            dx = xs[slot] + shift_x - xs[other]
            dy = ys[slot] + shift_y - ys[other]
            if other != slot and wp.sqrt(dx * dx + dy * dy) < support:
                pairs[slot] += wp.int64(1)


def count(grid: Grid, cell_list: CellList) -> Counted:
    """Walk the stencils of a filled cell list: all their slots, self included, and the pairs within reach."""
    device = cell_list.xs.device
    slots, pairs = (wp.zeros(grid.particles, dtype=wp.int64, device=device) for _ in range(2))
    kernel = specialised(count_kernel, grid.dtype)
    wp.launch(kernel, dim=grid.particles, inputs=cell_list.walk(grid), outputs=[slots, pairs], device=device)
    return Counted(true_pairs=int(pairs.numpy().sum()), pair_slots=int(slots.numpy().sum()))
