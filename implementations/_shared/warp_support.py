"""What Warp rows share besides kernels: device, checks of arrays, conversion, the status that every call reads back."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import warp as wp

from harness.contract.problem import FloatArray, Problem
from harness.contract.protocol import Counts, Device, Dtype, Implementation, UnavailableError
from implementations._shared.warp_cells import VEC2, CellList, Grid, count_pairs, gather_positions, sort_into_cells


def find_device(device: Device) -> wp.Device:
    """Warp's device of this kind.

    Raises:
        UnavailableError: Warp sees none.
    """
    if device == "cuda" and not wp.is_cuda_available():
        raise UnavailableError("no CUDA device for Warp")
    return wp.get_device(device)


class WarpImplementation(Implementation):
    """Glue common to Warp rows, which enqueue everything before the status is read.

    Attributes:
        grid: the problem, the number of particles and the dtype.
        device: the Warp device everything lies on.
        cell_list: the row's, filled by every call.
    """

    cell_list: CellList

    def __init__(self, problem: Problem, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        """Check positions and device; a row allocates its cell list. Raises as `Implementation` says."""
        problem.require_valid(positions.astype(dtype))
        self.device = find_device(device)
        self.grid = Grid(problem, len(positions), dtype)

    @abstractmethod
    def enqueue_loss(self, x: wp.array) -> wp.array:
        """Fill the cell list and launch the forward pass: (N,) vectors -> (1,) loss."""

    @abstractmethod
    def enqueue_gradient(self, x: wp.array) -> wp.array:
        """Fill the cell list and launch forward and reverse pass: (N,) vectors -> (N,) vectors."""

    def loss(self, x: wp.array) -> wp.array:
        """(1,) loss; see `Implementation.loss`."""
        self._require_match(x)
        loss = self.enqueue_loss(x)
        self._require_valid(x)
        return loss

    def grad(self, x: wp.array) -> wp.array:
        """(N,) vectors; see `Implementation.grad`."""
        self._require_match(x)
        gradient = self.enqueue_gradient(x)
        self._require_valid(x)
        return gradient

    def _require_match(self, x: wp.array) -> None:
        if not isinstance(x, wp.array):
            raise ValueError(f"positions are {type(x).__name__}; expected a Warp array on {self.device}")
        vector, shape = VEC2[self.grid.dtype], (self.grid.particles,)
        if x.dtype is not vector or x.shape != shape:
            raise ValueError(f"positions are {x.dtype.__name__}{x.shape}; built for {vector.__name__}{shape}")
        if x.device != self.device:
            raise ValueError(f"positions are on {x.device}; built for {self.device}")

    def _require_valid(self, x: wp.array) -> None:
        """Read the status: no kernel leaves its arrays for positions it refuses, so this may come last."""
        if self.cell_list.status.numpy()[0]:
            self.grid.problem.require_valid(self.to_numpy(x))

    def _count_pairs(self, x: wp.array) -> tuple[int, int]:
        self._require_match(x)
        sort_into_cells(self.grid, x, self.cell_list)
        gather_positions(self.grid, x, self.cell_list)
        self._require_valid(x)
        return count_pairs(self.grid, self.cell_list)

    def true_pairs(self, x: wp.array) -> int:
        """See `Implementation.true_pairs`."""
        return self._count_pairs(x)[1]

    def pair_slots(self, x: wp.array) -> int:
        """See `Implementation.pair_slots`."""
        return self._count_pairs(x)[0]

    def expected_pair_slots(self, counts: Counts) -> int:
        """Ordered pairs over the 3x3 cells, self included."""
        return counts.stencil_pairs

    def to_device(self, positions: FloatArray) -> wp.array:
        """(N,) vectors of the dtype on the device; a copy."""
        return wp.array(positions, dtype=VEC2[self.grid.dtype], device=self.device, copy=True)

    def to_numpy(self, array: wp.array) -> FloatArray:
        """A NumPy copy, since on the CPU Warp's is a view; a loss as a scalar."""
        copy = np.array(array.numpy())
        return copy if array.dtype is VEC2[self.grid.dtype] else copy.reshape(())

    def wait(self, *outputs: Any) -> None:
        """Return when the device has done what was launched."""
        wp.synchronize_device(self.device)

    def device_of(self, array: wp.array) -> Device:
        """The device the array lies on."""
        return "cuda" if wp.get_device(array.device).is_cuda else "cpu"

    def peak_device_bytes(self) -> int | None:
        """High-water mark of Warp's memory pool; None on CPU or without a pool."""
        return wp.get_mempool_used_mem_high(self.device) if self.device.is_mempool_enabled else None
