"""The adjoint by hand: a second pass over the same half stencils.

    dL/dx_i = sum_j 2 m (residual_i + residual_j) W'(r)/r (x_i - x_j)

    W'(r)/r (x_i - x_j) = sigma/h w'(q)/q d        d = (x_i - x_j) / h        w'(q) = -3/4 (t^2 - 4 u^2)

The term of (j, i) is that of (i, j) with the opposite sign: one evaluation serves both ends.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from harness.contract.problem import FloatArray
from implementations.numba_adjoint.forward import (
    CACHED,
    COINCIDENT,
    FAST_MATH,
    LANES,
    RANGES,
    Box,
    Cells,
    IntArray,
    Real,
    gather_relative,
    half_stencil,
    row_capacity,
    row_of,
    rows_of,
    scatter_add,
)


@njit()
def gather(source: FloatArray, ranges: IntArray, target: FloatArray) -> None:
    """Copy the ranges into one buffer."""
    size = 0
    for r in range(RANGES):
        values = source[ranges[r, 0] : ranges[r, 1]]
        target[size : size + len(values)] = values
        size += len(values)


@njit(fastmath=FAST_MATH, error_model="numpy")
def pair_forces(
    x: FloatArray, y: FloatArray, residual: FloatArray, k: int, size: int, force_x: FloatArray, force_y: FloatArray
) -> tuple[Real, Real]:
    """Forces between particle k and every later one of the buffer: subtract them there, return their total."""
    real = x.dtype.type
    zero, one, two, four, coincident = real(0.0), real(1.0), real(2.0), real(4.0), real(COINCIDENT)
    xk, yk, residual_k, total_x, total_y = x[k], y[k], residual[k], zero, zero
    for j in range(np.uint64((k + 1) & -LANES), np.uint64(size)):
        dx, dy = xk - x[j], yk - y[j]
        q = math.sqrt(dx * dx + dy * dy + coincident)
        t, u = max(two - q, zero), max(one - q, zero)
        f = (residual_k + residual[j]) * (t * t - four * u * u) / q
        f = f if j > np.uint64(k) else zero
        force_x[j] -= f * dx
        force_y[j] -= f * dy
        total_x += f * dx
        total_y += f * dy
    return total_x, total_y


@njit()
def add_row_forces(
    row: int, cells: Cells, box: Box, residual: FloatArray, force_x: FloatArray, force_y: FloatArray
) -> None:
    """Add the forces of all pairs that a row of cells has with itself and with the next row to both ends."""
    nc = box.cells_per_side
    ranges = np.empty((RANGES, 2), np.int64)
    buffers = np.zeros((5, row_capacity(cells.start, nc, row, ranges)), residual.dtype)
    x, y, near, pending_x, pending_y = buffers[0], buffers[1], buffers[2], buffers[3], buffers[4]
    for column in range(nc):
        half_stencil(cells.start, nc, row, column, ranges)
        end = cells.start[row * nc + column + 1]
        while ranges[0, 0] < end:
            first = ranges[0, 0]
            group = end - first if box.by_cell else 1
            size = gather_relative(cells.x, ranges, cells.x[first], box, x)
            gather_relative(cells.y, ranges, cells.y[first], box, y)
            gather(residual, ranges, near)
            pending_x[:size] = 0
            pending_y[:size] = 0
            for k in range(group):
                total_x, total_y = pair_forces(x, y, near, k, size, pending_x, pending_y)
                force_x[first + k] += total_x
                force_y[first + k] += total_y
            scatter_add(pending_x, ranges, force_x)
            scatter_add(pending_y, ranges, force_y)
            ranges[0, 0] += group


@njit(parallel=True, cache=CACHED)
def gradient(cells: Cells, box: Box, residual: FloatArray, scale: Real) -> FloatArray:
    """dL/dx, (N, 2), in the order of the particles; scale is -3/2 m sigma / h."""
    force_x, force_y = np.zeros_like(residual), np.zeros_like(residual)
    for colour in range(3):
        for p in prange(rows_of(colour, box.cells_per_side)):
            add_row_forces(row_of(colour, p, box.cells_per_side), cells, box, residual, force_x, force_y)
    result = np.empty((len(residual), 2), residual.dtype)
    for i in prange(len(residual)):
        result[i, 0] = scale * force_x[cells.rank[i]]
        result[i, 1] = scale * force_y[cells.rank[i]]
    return result
