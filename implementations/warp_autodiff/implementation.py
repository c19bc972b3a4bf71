from __future__ import annotations

from typing import ClassVar

import numpy as np
import warp as wp
from typing_extensions import override

from harness.contract.problem import FloatArray
from harness.contract.protocol import Description, Device, Dtype
from harness.problems.sph2d import Sph2d
from implementations._warp.launch import (
    REAL,
    CellList,
    compute_loss,
    gather_positions,
    partial_sum_count,
    sort_into_cells,
    specialised,
)
from implementations._warp.row import WarpImplementation
from implementations._warp.spline import spline_scale
from implementations.warp_autodiff.forward import residual_kernel


class WarpAutodiff(WarpImplementation):
    """Density and loss in separate kernels, recorded and reversed by wp.Tape."""

    description: ClassVar[Description] = Description(
        title="Warp sorted cells, wp.Tape",
        framework="Warp",
        neighbours="cells sorted on the device (radix sort), data-dependent ranges walked directly",
        adjoint="Warp reverse mode over gather, density and loss kernels; atomics where a transposed read scatters",
        pair_slots="ordered pairs over the 3x3 cells, self included",
        devices=("cpu", "cuda"),
        packages=("warp-lang",),
        forward_sources=("_warp/cells.py", "_warp/spline.py", "warp_autodiff/forward.py", "_warp/loss.py"),
    )

    @override
    def __init__(self, problem: Sph2d, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        super().__init__(problem, positions, device, dtype)
        n = self.grid.particles
        self.cell_list = CellList.allocate(self.grid, self.device, requires_grad=True)
        self._residual = wp.empty(n, dtype=REAL[dtype], device=self.device, requires_grad=True)
        sums = partial_sum_count(n)
        self._partial_sums = wp.empty(sums, dtype=wp.float64, device=self.device, requires_grad=True)

    @override
    def enqueue_loss(self, x: wp.array) -> wp.array:
        sort_into_cells(self.grid, x, self.cell_list)
        return self._recordable_loss(x)

    @override
    def enqueue_gradient(self, x: wp.array) -> wp.array:
        # A backward pass adds to the gradients it finds, so they start from zero: of the positions in a copy made for
        # this call, which also leaves the caller's array as it is, of what lies between by clearing them.
        leaf = wp.clone(x, requires_grad=True)
        for array in (self.cell_list.xs, self.cell_list.ys, self._residual, self._partial_sums):
            array.grad.zero_()
        sort_into_cells(self.grid, leaf, self.cell_list)  # integers: outside the tape
        with wp.Tape() as tape:
            loss = self._recordable_loss(leaf)
        tape.backward(loss)
        return leaf.grad

    def _recordable_loss(self, x: wp.array) -> wp.array:
        """The loss, a new array (1,), of sorted positions x, (N,) vectors: all that a tape records."""
        grid = self.grid
        gather_positions(grid, x, self.cell_list)
        smallest = float(np.finfo(grid.dtype).tiny)
        wp.launch(
            specialised(residual_kernel, grid.dtype),
            dim=grid.particles,
            inputs=[*self.cell_list.walk(grid), spline_scale(grid.problem), grid.problem.rest_density, smallest],
            outputs=[self._residual],
            device=x.device,
        )
        loss = wp.empty(1, dtype=REAL[grid.dtype], device=x.device, requires_grad=True)
        compute_loss(grid, self._residual, self._partial_sums, loss)
        return loss
