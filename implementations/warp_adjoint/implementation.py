from __future__ import annotations

from typing import ClassVar

import warp as wp
from typing_extensions import override

from harness.contract.problem import FloatArray
from harness.contract.protocol import Description, Device, Dtype
from harness.problems.sph2d import Sph2d
from implementations._warp.launch import REAL, VEC2, CellList, compute_loss, partial_sum_count
from implementations._warp.row import WarpImplementation
from implementations.warp_adjoint.launch import compute_gradient, compute_residual


class WarpAdjoint(WarpImplementation):
    """Density and gradient as two walks over the same runs of sorted cells."""

    description: ClassVar[Description] = Description(
        title="Warp sorted cells, hand-written adjoint",
        framework="Warp",
        neighbours="cells sorted on the device (radix sort), data-dependent ranges walked directly",
        adjoint="hand-written kernel that gathers: no scatter, no atomics",
        pair_slots="ordered pairs over the 3x3 cells, self included",
        devices=("cpu", "cuda"),
        fast_math="CPU sums reassociated (-mreassociate -fno-signed-zeros)",
        packages=("warp-lang",),
        forward_sources=("_warp/cells.py", "_warp/spline.py", "warp_adjoint/forward.py", "_warp/loss.py"),
    )

    @override
    def __init__(self, problem: Sph2d, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        super().__init__(problem, positions, device, dtype)
        n = self.grid.particles
        self.cell_list = CellList.allocate(self.grid, self.device)
        self._residual = wp.empty(n, dtype=REAL[dtype], device=self.device)
        self._partial_sums = wp.empty(partial_sum_count(n), dtype=wp.float64, device=self.device)
        self._sorted_gradient = wp.empty(n, dtype=VEC2[dtype], device=self.device)

    @override
    def enqueue_loss(self, x: wp.array) -> wp.array:
        loss = wp.empty(1, dtype=REAL[self.grid.dtype], device=self.device)
        compute_residual(self.grid, x, self.cell_list, self._residual)
        compute_loss(self.grid, self._residual, self._partial_sums, loss)
        return loss

    @override
    def enqueue_gradient(self, x: wp.array) -> wp.array:
        gradient = wp.empty(self.grid.particles, dtype=VEC2[self.grid.dtype], device=self.device)
        compute_residual(self.grid, x, self.cell_list, self._residual)
        compute_gradient(self.grid, self.cell_list, self._residual, self._sorted_gradient, gradient)
        return gradient
