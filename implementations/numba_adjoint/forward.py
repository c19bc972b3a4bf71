"""Cells, densities and loss in Numba: each unordered pair once, in SIMD loops, threads over rows of cells.

    q = |x_i - x_j| / h      t = max(2 - q, 0)      u = max(1 - q, 0)
    W = sigma w(q)           w = t^3 / 4 - u^3                               the cubic spline without a branch

    rho_i = m sigma (1 + sum_{j != i} w_ij)        residual_i = rho_i - rho_0        loss = sum_i residual_i^2

Particles are sorted by cell, row by row. Those of one cell meet whoever comes after them in their own cell, the cell to
the right, and the three adjacent cells of the next row: half of the 3x3 stencil, each unordered pair once. These
candidates lie in a few contiguous ranges, which are copied into a short buffer as coordinates relative to the cell:
periodic images are settled there, and the pair loop is one branch-free run over the buffer. What it adds to candidates
goes to a buffer beside it and from there back to the ranges.

A row of cells writes to itself and to the next one, so rows of one parity run in parallel without a conflict, and the
result does not depend on the number of threads.

What bounds it: two thirds of a gradient's time are the pair loops, at the throughput of the vector square root, in the
adjoint of square root and division, for 45 candidates a particle of which 16 are within reach. A quarter is copying to
and from the buffers, the rest the sort. Refining 1 / q from a float32 estimate in place of the division was slower.
"""

from __future__ import annotations

import math
import os
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit, prange

from harness.contract.problem import FloatArray

CACHED = "NUMBA_CACHE_DIR" in os.environ
"""Whether compiled kernels are kept: only where a folder is named, as the harness does for each state of the sources.
Numba itself does not see that a function called from another file has changed."""
FAST_MATH = {"reassoc", "contract", "nsz", "arcp"}
"""Sums may be reordered and fused; NaN and infinity keep their meaning."""

LANES = 8
"""Candidates are padded to a multiple of this: float64 lanes of the widest vectors."""

FAR = 1e6
"""Coordinate of the padding, and bound of relative coordinates, in units of h."""

COINCIDENT = 1e-36
"""Added to q^2, so that one may divide by q; lost in rounding beside any distance but zero."""

RANGES = 4
"""Contiguous ranges of the sorted order that make up half a stencil."""

IntArray = npt.NDArray[np.integer]
Real = np.floating


class Box(NamedTuple):
    """The periodic box and its cells, real numbers in the precision of the positions.

    Attributes:
        length: side L.
        inverse_h: 1 / h.
        cells_per_side: nc; 1 where fewer than 3 fit, all particles being candidates then.
        by_cell: whether relative coordinates are the same for a whole cell. Else, in boxes so short that the nearest
            image depends on the particle, or cells so wide that precision would be lost, each particle has its own.
    """

    length: Real
    inverse_h: Real
    cells_per_side: int
    by_cell: bool


class Cells(NamedTuple):
    """Particles in cell order.

    Attributes:
        x, y: (N,) wrapped coordinates in sorted order.
        start: (nc * nc + 1,) int32; cell row * nc + column holds start[cell] <= k < start[cell + 1].
        rank: (N,) int32; place of each particle in the sorted order.
    """

    x: FloatArray
    y: FloatArray
    start: IntArray
    rank: IntArray


@njit()
def wrap(coordinate: Real, length: Real) -> Real:
    """Exact remainder, in [0, L]."""
    return coordinate if 0.0 <= coordinate < length else coordinate % length


@njit()
def count_range(
    positions: FloatArray, first: int, last: int, box: Box, limit: Real, cell: IntArray, counts: IntArray
) -> bool:
    """Find the cells of particles first..last - 1 and count them; false if a coordinate is not below the limit."""
    nc = box.cells_per_side
    scale = positions.dtype.type(nc / np.float64(box.length))
    valid = True
    for i in range(first, last):
        x, y = positions[i, 0], positions[i, 1]
        cell[i] = 0
        if abs(x) < limit and abs(y) < limit:
            column = min(int(wrap(x, box.length) * scale), nc - 1)
            row = min(int(wrap(y, box.length) * scale), nc - 1)
            cell[i] = row * nc + column
        else:
            valid = False
        counts[cell[i]] += 1
    return valid


@njit()
def place_range(
    positions: FloatArray, first: int, last: int, box: Box, cell: IntArray, place: IntArray, cells: Cells
) -> None:
    """Put particles first..last - 1 where `place` says their cells' next ones go."""
    for i in range(first, last):
        k = place[cell[i]]
        place[cell[i]] = k + 1
        cells.rank[i] = k
        cells.x[k] = wrap(positions[i, 0], box.length)
        cells.y[k] = wrap(positions[i, 1], box.length)


@njit()
def counts_to_places(counts: IntArray, start: IntArray) -> None:
    """Turn counts (threads, cells) into where each thread's first particle of each cell goes, and fill `start`."""
    total = 0
    for c in range(counts.shape[1]):
        start[c] = total
        for thread in range(counts.shape[0]):
            count = counts[thread, c]
            counts[thread, c] = total
            total += count
    start[counts.shape[1]] = total


@njit(parallel=True, cache=CACHED)
def sort_into_cells(positions: FloatArray, box: Box, limit: Real, threads: int) -> tuple[bool, Cells]:
    """Counting sort by cell, stable.

    Args:
        positions: (N, 2), anywhere in space.
        box: cells by the rule of `Problem.cell_coordinates`.
        limit: coordinates must be below this in magnitude.
        threads: parts to work in.

    Returns:
        Whether all positions are valid, and the cells, meaningless if they are not.
    """
    n = len(positions)
    cell = np.empty(n, np.int32)
    counts = np.zeros((threads, box.cells_per_side**2), np.int32)
    valid = np.empty(threads, np.bool_)
    for p in prange(threads):
        valid[p] = count_range(positions, n * p // threads, n * (p + 1) // threads, box, limit, cell, counts[p])
    x, y = np.empty(n, positions.dtype), np.empty(n, positions.dtype)
    cells = Cells(x, y, np.empty(counts.shape[1] + 1, np.int32), np.empty(n, np.int32))
    counts_to_places(counts, cells.start)
    for p in prange(threads):
        place_range(positions, n * p // threads, n * (p + 1) // threads, box, cell, counts[p], cells)
    return bool(valid.all()), cells


@njit()
def half_stencil(start: IntArray, nc: int, row: int, column: int, ranges: IntArray) -> None:
    """Candidates of a cell as ranges (RANGES, 2): own row, its part across the face, next row, its part across."""
    ranges[:] = 0
    this = row * nc
    ranges[0, 0], ranges[0, 1] = start[this + column], start[this + min(column + 2, nc)]
    if nc == 1:
        return
    above = (row + 1) % nc * nc
    ranges[2, 0], ranges[2, 1] = start[above + max(column - 1, 0)], start[above + min(column + 2, nc)]
    if column == nc - 1:
        ranges[1, 0], ranges[1, 1] = start[this], start[this + 1]
        ranges[3, 0], ranges[3, 1] = start[above], start[above + 1]
    elif column == 0:
        ranges[3, 0], ranges[3, 1] = start[above + nc - 1], start[above + nc]


@njit()
def row_capacity(start: IntArray, nc: int, row: int, ranges: IntArray) -> int:
    """Candidates of the most crowded half stencil of a row, padding included."""
    most = 0
    for column in range(nc):
        half_stencil(start, nc, row, column, ranges)
        most = max(most, (ranges[:, 1] - ranges[:, 0]).sum())
    return most + LANES


@njit()
def gather_relative(source: FloatArray, ranges: IntArray, origin: Real, box: Box, target: FloatArray) -> int:
    """Copy the ranges of a coordinate as nearest images relative to an origin, in units of h, and pad them.

    Returns:
        Entries of `target` filled, a multiple of LANES.
    """
    real = source.dtype.type
    half, far = real(0.5) * box.length, real(FAR)
    size = 0
    for r in range(RANGES):
        values = source[ranges[r, 0] : ranges[r, 1]]
        out = target[size : size + len(values)]
        for j in range(len(values)):
            d = values[j] - origin
            d = d - box.length if d > half else d
            d = d + box.length if d < -half else d
            out[j] = min(max(d * box.inverse_h, -far), far)
        size += len(values)
    padded = (size + LANES - 1) // LANES * LANES
    target[size:padded] = far
    return padded


@njit()
def scatter_add(source: FloatArray, ranges: IntArray, target: FloatArray) -> None:
    """Add what was gathered from ranges back to them."""
    size = 0
    for r in range(RANGES):
        out = target[ranges[r, 0] : ranges[r, 1]]
        values = source[size : size + len(out)]
        for j in range(len(out)):
            out[j] += values[j]
        size += len(out)


@njit(fastmath=FAST_MATH, error_model="numpy")
def pair_sums(x: FloatArray, y: FloatArray, k: int, size: int, sums: FloatArray) -> Real:
    """Add w of particle k with every later one of the buffer to the later one's sum; return their total."""
    real = x.dtype.type
    zero, one, two, quarter, coincident = real(0.0), real(1.0), real(2.0), real(0.25), real(COINCIDENT)
    xk, yk, total = x[k], y[k], zero
    for j in range(np.uint64((k + 1) & -LANES), np.uint64(size)):
        dx, dy = xk - x[j], yk - y[j]
        q = math.sqrt(dx * dx + dy * dy + coincident)
        t, u = max(two - q, zero), max(one - q, zero)
        w = quarter * t * t * t - u * u * u
        w = w if j > np.uint64(k) else zero
        sums[j] += w
        total += w
    return total


@njit()
def add_row_sums(row: int, cells: Cells, box: Box, sums: FloatArray) -> None:
    """Add w of all pairs that a row of cells has with itself and with the next row to both ends."""
    nc = box.cells_per_side
    ranges = np.empty((RANGES, 2), np.int64)
    buffers = np.empty((3, row_capacity(cells.start, nc, row, ranges)), sums.dtype)
    x, y, pending = buffers[0], buffers[1], buffers[2]
    for column in range(nc):
        half_stencil(cells.start, nc, row, column, ranges)
        end = cells.start[row * nc + column + 1]
        while ranges[0, 0] < end:
            first = ranges[0, 0]
            group = end - first if box.by_cell else 1
            size = gather_relative(cells.x, ranges, cells.x[first], box, x)
            gather_relative(cells.y, ranges, cells.y[first], box, y)
            pending[:size] = 0
            for k in range(group):
                sums[first + k] += pair_sums(x, y, k, size, pending)
            scatter_add(pending, ranges, sums)
            ranges[0, 0] += group


@njit()
def row_of(colour: int, p: int, nc: int) -> int:
    """Row number p of a colour: even rows, odd rows, and the last one where the number of rows is odd."""
    return 2 * p + colour if colour < 2 else nc - 1


@njit()
def rows_of(colour: int, nc: int) -> int:
    """How many rows of cells have a colour; no two of them are the same or adjacent."""
    return nc // 2 if colour < 2 else nc % 2


@njit(parallel=True, cache=CACHED)
def pair_sums_of_all(cells: Cells, box: Box) -> FloatArray:
    """sum_{j != i} w_ij, (N,), in sorted order."""
    sums = np.zeros_like(cells.x)
    for colour in range(3):
        for p in prange(rows_of(colour, box.cells_per_side)):
            add_row_sums(row_of(colour, p, box.cells_per_side), cells, box, sums)
    return sums


@njit(parallel=True, fastmath=FAST_MATH, cache=CACHED)
def sums_to_residuals(sums: FloatArray, scale: Real, rest_density: Real) -> float:
    """Turn pair sums into residuals, in place, and return the loss; scale is m sigma."""
    one = sums.dtype.type(1.0)
    loss = 0.0
    for k in prange(len(sums)):
        residual = scale * (one + sums[k]) - rest_density
        sums[k] = residual
        loss += np.float64(residual) * np.float64(residual)
    return loss
