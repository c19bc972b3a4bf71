from __future__ import annotations

import os
from typing import ClassVar

import numba
import numpy as np
from numba import njit
from typing_extensions import override

from harness.contract.problem import FloatArray
from harness.contract.protocol import (
    Counted,
    Counts,
    Description,
    Device,
    Dtype,
    Implementation,
    UnavailableError,
    mismatch,
)
from harness.problems.sph2d import Sph2d
from implementations.numba_adjoint import adjoint, forward


@njit(cache=forward.CACHED)
def count_pairs(cells: forward.Cells, box: forward.Box) -> tuple[int, int]:
    """Unordered candidate pairs, and those of them with r < 2h, of the half stencils that the kernels walk."""
    nc = box.cells_per_side
    ranges = np.empty((forward.RANGES, 2), np.int64)
    slots = pairs = 0
    for cell in range(nc * nc):
        forward.half_stencil(cells.start, nc, cell // nc, cell % nc, ranges)
        size = (ranges[:, 1] - ranges[:, 0]).sum()
        x, y = np.empty((2, size + forward.LANES), cells.x.dtype)
        for k in range(cells.start[cell], cells.start[cell + 1]):
            ranges[0, 0] = k
            forward.gather_relative(cells.x, ranges, cells.x[k], box, x)
            forward.gather_relative(cells.y, ranges, cells.y[k], box, y)
            later = (ranges[:, 1] - ranges[:, 0]).sum() - 1
            slots += later
            for j in range(1, later + 1):
                pairs += x[j] * x[j] + y[j] * y[j] < 4.0
    return slots, pairs


class NumbaAdjoint(Implementation):
    """Half stencils in SIMD loops, threads over rows of cells: the best this project gets out of a CPU."""

    description: ClassVar[Description] = Description(
        title="Numba SIMD cells, hand-written adjoint",
        framework="Numba",
        neighbours="sorted cells, half stencil: contiguous ranges, each unordered pair once",
        adjoint="hand-written, second pass over the same ranges",
        pair_slots="(pairs of the 3x3 stencil - N) / 2: each unordered pair once, lanes that fill up vectors aside",
        multithreaded=True,
        fast_math="reassociation and contraction of sums; NaN and infinity honoured",
        packages=("numba", "llvmlite"),
    )

    @override
    def __init__(self, problem: Sph2d, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        if device != "cpu":
            raise UnavailableError(f"no {device} device for Numba: this implementation runs on the CPU only")
        problem.require_valid(positions.astype(dtype))
        self.problem = problem
        self.shape = positions.shape
        self.dtype = np.dtype(dtype)
        self.threads = min(len(os.sched_getaffinity(0)), numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
        numba.set_num_threads(self.threads)
        self.box = self._box()

    def _box(self) -> forward.Box:
        p, real = self.problem, self.dtype.type
        cells_per_side = p.cells_per_side(self.shape[0])
        return forward.Box(
            length=real(p.box_length),
            inverse_h=real(1.0 / p.smoothing_length),
            cells_per_side=cells_per_side if cells_per_side >= 3 else 1,
            by_cell=cells_per_side >= 4 and p.box_length / cells_per_side < 2.0 * p.cutoff,
        )

    @override
    def loss(self, x: FloatArray) -> FloatArray:
        return self._forward(x)[2]

    @override
    def grad(self, x: FloatArray) -> FloatArray:
        cells, residual, _ = self._forward(x)
        p = self.problem
        scale = -1.5 * p.mass * p.kernel_normalisation / p.smoothing_length
        return adjoint.gradient(cells, self.box, residual, self.dtype.type(scale))

    def _forward(self, x: FloatArray) -> tuple[forward.Cells, FloatArray, FloatArray]:
        """Cells, residuals in sorted order, loss."""
        cells = self._cells(x)
        p, real = self.problem, self.dtype.type
        residual = forward.pair_sums_of_all(cells, self.box)
        loss = forward.sums_to_residuals(residual, real(p.mass * p.kernel_normalisation), real(p.rest_density))
        return cells, residual, np.asarray(loss, self.dtype)

    def _cells(self, x: FloatArray) -> forward.Cells:
        if not isinstance(x, np.ndarray):
            raise mismatch(f"a {type(x).__name__}", "a NumPy array")
        if x.shape != self.shape or x.dtype != self.dtype:
            raise mismatch(f"{x.dtype} {x.shape}", f"{self.dtype} {self.shape}")
        limit = self.dtype.type(self.problem.coordinate_limit(self.dtype))
        valid, cells = forward.sort_into_cells(x, self.box, limit, self.threads)
        if not valid:
            self.problem.require_valid(x)
        return cells

    @override
    def counts(self, x: FloatArray) -> Counted:
        slots, pairs = count_pairs(self._cells(x), self.box)
        return Counted(true_pairs=2 * int(pairs), pair_slots=int(slots))

    @override
    def expected_pair_slots(self, counts: Counts) -> int:
        return (counts.stencil_pairs - counts.n) // 2

    @override
    def to_device(self, positions: FloatArray) -> FloatArray:
        return np.array(positions, self.dtype, order="C")
