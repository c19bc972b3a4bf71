"""Warp row with Warp's own reverse mode."""

from __future__ import annotations

from typing import ClassVar

import warp as wp

from harness.contract.problem import FloatArray, Problem
from harness.contract.protocol import Description, Device, Dtype
from implementations._shared.warp_cells import sort_into_cells
from implementations._shared.warp_support import WarpImplementation
from implementations.warp_autodiff import adjoint, forward


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
        forward_sources=(
            "_shared/warp_cells.py",
            "_shared/warp_spline.py",
            "_shared/warp_loss.py",
            "warp_autodiff/forward.py",
        ),
        adjoint_sources=("warp_autodiff/adjoint.py",),
    )

    def __init__(self, problem: Problem, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        """Allocate what lies between positions and loss; see `Implementation`."""
        super().__init__(problem, positions, device, dtype)
        self._between = forward.Intermediates.allocate(self.grid, self.device)
        self.cell_list = self._between.cell_list

    def enqueue_loss(self, x: wp.array) -> wp.array:
        """See `WarpImplementation`."""
        sort_into_cells(self.grid, x, self.cell_list)
        return forward.launch_loss(self.grid, x, self._between)

    def enqueue_gradient(self, x: wp.array) -> wp.array:
        """See `WarpImplementation`."""
        return adjoint.launch_gradient(self.grid, x, self._between)
