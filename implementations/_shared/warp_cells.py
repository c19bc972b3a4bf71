"""Cells of the Warp rows: particles sorted by cell on the device, and the stencil walked as runs of that order.

Three cells of one grid row are neighbours in the cell order, so the 3x3 stencil of a particle is three runs of slots;
on the left and right edge of the box each of the three falls into two. Every run comes with the shift to the image of
the particle that is nearest to all of it. In a box of fewer than three cells a side the nearest image is a matter of
each pair, and the stencil is the whole box: there a run is one slot.
"""
# Kernels are written in Warp's language, which its stubs type only in part.
# mypy: disable-error-code="arg-type, index, operator, var-annotated"

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import warp as wp

from harness.contract.problem import Problem
from harness.contract.protocol import Dtype

wp.config.log_level = wp.LOG_WARNING  # not a line for every module it loads
wp.set_module_options({"enable_backward": False})

REAL: dict[Dtype, Any] = {"float64": wp.float64, "float32": wp.float32}
VEC2: dict[Dtype, Any] = {"float64": wp.vec2d, "float32": wp.vec2f}


@wp.func
def wrap(coordinate: Any, length: Any) -> Any:
    """Coordinate mod L by the exact remainder, in [0, L]: of a tiny negative coordinate it may round up to L."""
    zero = type(length)(0.0)
    if coordinate >= zero and coordinate < length:
        return coordinate
    remainder = wp.mod(coordinate, length)  # has the coordinate's sign
    return wp.where(remainder < zero, remainder + length, remainder)


@wp.func
def nearest_image_shift(separation: Any, length: Any) -> Any:
    """What to add to p so that p - q = separation, in [-L, L], becomes the shortest of its images."""
    zero = type(length)(0.0)
    half = type(length)(0.5) * length
    return wp.where(separation > half, -length, wp.where(separation < -half, length, zero))


@wp.func
def stencil_runs(column: int, cells_per_side: int, particles: int) -> int:
    """Number of runs in the stencil of a cell in this column of the grid."""
    if cells_per_side < 3:
        return particles
    if column == 0 or column == cells_per_side - 1:
        return 6
    return 3


@wp.func
def stencil_run(
    run: int,
    slot: int,
    cell: int,
    cells_per_side: int,
    length: Any,
    xs: wp.array[Any],
    ys: wp.array[Any],
    starts: wp.array[int],
) -> Any:
    """One run of the stencil of the particle in `slot`, which lies in `cell`.

    Returns:
        first, last: slots [first, last) of the run.
        shift_x, shift_y: what to add to the particle's position.
    """
    shift_x = type(length)(0.0)
    shift_y = type(length)(0.0)
    first = run
    last = run + 1
    if cells_per_side < 3:
        shift_x = nearest_image_shift(xs[slot] - xs[run], length)
        shift_y = nearest_image_shift(ys[slot] - ys[run], length)
    else:
        column = cell % cells_per_side
        row = cell // cells_per_side + run % 3 - 1
        left = wp.max(column - 1, 0)
        right = wp.min(column + 1, cells_per_side - 1)
        if row < 0:
            row += cells_per_side
            shift_y = length
        elif row == cells_per_side:
            row = 0
            shift_y = -length
        if run >= 3:  # the part of the row beyond the box's edge
            if column == 0:
                left = cells_per_side - 1
                shift_x = length
            else:
                left = 0
                shift_x = -length
            right = left
        first = starts[row * cells_per_side + left]
        last = starts[row * cells_per_side + right + 1]
    return first, last, shift_x, shift_y


@wp.kernel
def _locate(
    x: wp.array[Any],
    length: Any,
    cells_per_length: Any,
    cells_per_side: int,
    limit: Any,
    # outputs
    cells: wp.array[int],
    order: wp.array[int],
    status: wp.array[int],
) -> None:
    """Cell of every particle by the rule of `Problem.cell_coordinates`; cell 0 and a status for what has no place."""
    i = wp.tid()
    position = x[i]
    cell = 0
    if wp.abs(position[0]) < limit and wp.abs(position[1]) < limit:  # false for NaN
        last = cells_per_side - 1
        column = wp.min(int(wrap(position[0], length) * cells_per_length), last)
        row = wp.min(int(wrap(position[1], length) * cells_per_length), last)
        cell = row * cells_per_side + column
    else:
        status[0] = 1
    cells[i] = cell
    order[i] = i


@wp.kernel
def _mark_starts(cells: wp.array[int], particles: int, starts: wp.array[int]) -> None:
    """starts[c] = first slot whose cell is c or more; one thread for each of the N + 1 places between slots."""
    slot = wp.tid()
    cell = starts.shape[0] - 1
    previous = -1
    if slot < particles:
        cell = cells[slot]
    if slot > 0:
        previous = cells[slot - 1]
    for c in range(previous + 1, cell + 1):
        starts[c] = slot


@wp.kernel(enable_backward=True)
def _gather(
    x: wp.array[Any],
    order: wp.array[int],
    length: Any,
    # outputs
    xs: wp.array[Any],
    ys: wp.array[Any],
) -> None:
    """Wrapped positions in cell order, a coordinate an array: neighbouring threads and vector lanes read neighbours."""
    slot = wp.tid()
    position = x[order[slot]]
    xs[slot] = wrap(position[0], length)
    ys[slot] = wrap(position[1], length)


@wp.kernel
def _count(
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


class _Kernels(NamedTuple):
    locate: wp.Kernel
    gather: wp.Kernel
    count: wp.Kernel


@functools.cache
def _kernels(dtype: Dtype) -> _Kernels:
    """The kernels in one precision: what is not asked for is not compiled."""
    real, reals, vectors = REAL[dtype], wp.array(dtype=REAL[dtype]), wp.array(dtype=VEC2[dtype])
    return _Kernels(
        locate=wp.overload(_locate, {"x": vectors, "length": real, "cells_per_length": real, "limit": real}),
        gather=wp.overload(_gather, {"x": vectors, "length": real, "xs": reals, "ys": reals}),
        count=wp.overload(_count, {"xs": reals, "ys": reals, "length": real, "support": real}),
    )


@dataclass(frozen=True, slots=True)
class Grid:
    """What the cells of N particles depend on besides the positions.

    Attributes:
        problem: the box.
        particles: N.
        dtype: precision of positions and of all arithmetic.
    """

    problem: Problem
    particles: int
    dtype: Dtype

    @property
    def cells_per_side(self) -> int:
        """nc."""
        return self.problem.cells_per_side(self.particles)


@dataclass(slots=True)
class CellList:
    """Particles in cell order, all arrays on one device.

    Attributes:
        cells: (2N,) int32; the first N are the cells of the slots, ascending; the rest is room for the sort.
        order: (2N,) int32; the first N are the particles in the slots, likewise.
        starts: (nc^2 + 1,) int32; cell c holds slots [starts[c], starts[c + 1]).
        xs, ys: (N,) wrapped coordinates in cell order.
        status: (1,) int32; not 0 if a position has no place in the box.
    """

    cells: wp.array
    order: wp.array
    starts: wp.array
    xs: wp.array
    ys: wp.array
    status: wp.array

    @classmethod
    def allocate(cls, grid: Grid, device: wp.Device, requires_grad: bool = False) -> CellList:
        """Arrays for `sort_into_cells`; with `requires_grad`, the coordinates have gradients."""
        n, real = grid.particles, REAL[grid.dtype]
        return cls(
            cells=wp.empty(2 * n, dtype=int, device=device),
            order=wp.empty(2 * n, dtype=int, device=device),
            starts=wp.empty(grid.cells_per_side**2 + 1, dtype=int, device=device),
            xs=wp.empty(n, dtype=real, device=device, requires_grad=requires_grad),
            ys=wp.empty(n, dtype=real, device=device, requires_grad=requires_grad),
            status=wp.empty(1, dtype=int, device=device),
        )


def sort_into_cells(grid: Grid, x: wp.array, cell_list: CellList) -> None:
    """Fill everything but the coordinates: cells, order, starts and status of positions x, (N,) vectors.

    The radix sort is stable, so the order within a cell, and with it every sum, is the same in every call.
    """
    n, nc, problem = grid.particles, grid.cells_per_side, grid.problem
    cell_list.status.zero_()
    wp.launch(
        _kernels(grid.dtype).locate,
        dim=n,
        inputs=[x, problem.box_length, nc / problem.box_length, nc, problem.coordinate_limit(grid.dtype)],
        outputs=[cell_list.cells, cell_list.order, cell_list.status],
        device=x.device,
    )
    wp.utils.radix_sort_pairs(cell_list.cells, cell_list.order, n, end_bit=(nc * nc - 1).bit_length())
    wp.launch(_mark_starts, dim=n + 1, inputs=[cell_list.cells, n], outputs=[cell_list.starts], device=x.device)


def gather_positions(grid: Grid, x: wp.array, cell_list: CellList) -> None:
    """Fill the coordinates of cells that `sort_into_cells` has sorted; a `wp.Tape` can record it."""
    wp.launch(
        _kernels(grid.dtype).gather,
        dim=grid.particles,
        inputs=[x, cell_list.order, grid.problem.box_length],
        outputs=[cell_list.xs, cell_list.ys],
        device=x.device,
    )


def count_pairs(grid: Grid, cell_list: CellList) -> tuple[int, int]:
    """Walk the stencils of a filled cell list.

    Returns:
        slots: candidates in all stencils, self included.
        pairs: ordered pairs i != j with r < 2h among them.
    """
    device = cell_list.xs.device
    slots, pairs = (wp.zeros(grid.particles, dtype=wp.int64, device=device) for _ in range(2))
    wp.launch(
        _kernels(grid.dtype).count,
        dim=grid.particles,
        inputs=[cell_list.xs, cell_list.ys, cell_list.cells, cell_list.starts],
        outputs=[grid.cells_per_side, grid.problem.box_length, grid.problem.cutoff, slots, pairs],
        device=device,
    )
    return int(slots.numpy().sum()), int(pairs.numpy().sum())
