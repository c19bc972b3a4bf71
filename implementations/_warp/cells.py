"""Cells of the Warp rows: particles sorted by cell on the device, and the stencil walked as runs of that order.

Three cells of one grid row are neighbours in the cell order, so the 3x3 stencil of a particle is three runs of slots;
on the left and right edge of the box each of the three falls into two. Every run comes with the shift to the image of
the particle that is nearest to all of it. In a box of fewer than three cells a side the nearest image is a matter of
each pair, and the stencil is the whole box: there a run is one slot.
"""
# Kernels are written in Warp's language, which its stubs type only in part.
# mypy: disable-error-code="arg-type, index, operator, var-annotated"

from __future__ import annotations

from typing import Any

import warp as wp

wp.set_module_options({"enable_backward": False})


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
def locate_kernel(
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
def mark_starts_kernel(cells: wp.array[int], particles: int, starts: wp.array[int]) -> None:
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
def gather_kernel(
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
