"""Warp row with a hand-written adjoint."""

from __future__ import annotations

from typing import ClassVar

import warp as wp

from harness.contract.problem import FloatArray, Problem
from harness.contract.protocol import Description, Device, Dtype
from implementations._shared.warp_cells import REAL, VEC2, CellList
from implementations._shared.warp_support import WarpImplementation
from implementations.warp_adjoint import adjoint, forward


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
        forward_sources=(
            "_shared/warp_cells.py",
            "_shared/warp_spline.py",
            "_shared/warp_density.py",
            "_shared/warp_loss.py",
            "warp_adjoint/forward.py",
        ),
        adjoint_sources=("_shared/warp_gather_adjoint.py", "warp_adjoint/adjoint.py"),
    )

    def __init__(self, problem: Problem, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        """Allocate what the passes hand on; see `Implementation`."""
        super().__init__(problem, positions, device, dtype)
        n = self.grid.particles
        self.cell_list = CellList.allocate(self.grid, self.device)
        self._residual = wp.empty(n, dtype=REAL[dtype], device=self.device)
        self._sorted_gradient = wp.empty(n, dtype=VEC2[dtype], device=self.device)

    def enqueue_loss(self, x: wp.array) -> wp.array:
        """See `WarpImplementation`."""
        forward.launch_residual(self.grid, x, self.cell_list, self._residual)
        return forward.launch_loss(self.grid, self._residual)

    def enqueue_gradient(self, x: wp.array) -> wp.array:
        """See `WarpImplementation`; the loss itself is not needed."""
        forward.launch_residual(self.grid, x, self.cell_list, self._residual)
        return adjoint.launch_gradient(self.grid, self.cell_list, self._residual, self._sorted_gradient)
