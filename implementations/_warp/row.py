"""A row in Warp: device, checks of arrays, conversion, the status that every call reads back."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import warp as wp
from typing_extensions import override

from harness.contract.problem import FloatArray
from harness.contract.protocol import Counted, Counts, Device, Dtype, Implementation, UnavailableError, mismatch
from harness.problems.sph2d import Sph2d
from implementations._warp.counts import count
from implementations._warp.launch import VEC2, CellList, Grid, gather_positions, sort_into_cells


def find_device(device: Device) -> wp.Device:
    """Warp's device of this kind.

    Raises:
        UnavailableError: Warp sees none.
    """
    if device == "cuda" and not wp.is_cuda_available():
        raise UnavailableError("no CUDA device for Warp")
    return wp.get_device(device)


class WarpImplementation(Implementation):
    """Base of the rows in Warp, which enqueue everything before the status is read.

    Attributes:
        grid: the problem, the number of particles and the dtype.
        device: the Warp device everything lies on.
        cell_list: the row's, filled by every call.
    """

    cell_list: CellList

    @override
    def __init__(self, problem: Sph2d, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        """A row allocates its cell list after this."""
        problem.require_valid(positions.astype(dtype))
        self.device = find_device(device)
        self.grid = Grid(problem, len(positions), dtype)

    @abstractmethod
    def enqueue_loss(self, x: wp.array) -> wp.array:
        """Fill the cell list and launch the forward pass: (N,) vectors -> (1,) loss."""

    @abstractmethod
    def enqueue_gradient(self, x: wp.array) -> wp.array:
        """Fill the cell list and launch forward and reverse pass: (N,) vectors -> (N,) vectors."""

    @override
    def loss(self, x: wp.array) -> wp.array:
        self._require_match(x)
        loss = self.enqueue_loss(x)
        self._require_valid(x)
        return loss

    @override
    def grad(self, x: wp.array) -> wp.array:
        self._require_match(x)
        gradient = self.enqueue_gradient(x)
        self._require_valid(x)
        return gradient

    def _require_match(self, x: wp.array) -> None:
        if not isinstance(x, wp.array):
            raise mismatch(f"a {type(x).__name__}", f"a Warp array on {self.device}")
        vector, shape = VEC2[self.grid.dtype], (self.grid.particles,)
        if x.dtype is not vector or x.shape != shape:
            raise mismatch(f"{x.dtype.__name__} {x.shape}", f"{vector.__name__} {shape}")
        if x.device != self.device:
            raise mismatch(f"on {x.device}", str(self.device))

    def _require_valid(self, x: wp.array) -> None:
        """Read the status: no kernel leaves its arrays for positions it refuses, so this may come last."""
        if self.cell_list.status.numpy()[0]:
            self.grid.problem.require_valid(self.to_numpy(x))

    @override
    def counts(self, x: wp.array) -> Counted:
        self._require_match(x)
        sort_into_cells(self.grid, x, self.cell_list)
        gather_positions(self.grid, x, self.cell_list)
        self._require_valid(x)
        return count(self.grid, self.cell_list)

    @override
    def expected_pair_slots(self, counts: Counts) -> int:
        return counts.stencil_pairs

    @override
    def to_device(self, positions: FloatArray) -> wp.array:
        return wp.array(positions, dtype=VEC2[self.grid.dtype], device=self.device, copy=True)

    @override
    def to_numpy(self, array: wp.array) -> FloatArray:
        copy = np.array(array.numpy())  # on the CPU Warp's own is a view
        return copy if array.dtype is VEC2[self.grid.dtype] else copy.reshape(())

    @override
    def wait(self, *outputs: Any) -> None:
        wp.synchronize_device(self.device)

    @override
    def device_of(self, array: wp.array) -> Device:
        return "cuda" if wp.get_device(array.device).is_cuda else "cpu"

    @override
    def peak_device_bytes(self) -> int | None:
        return wp.get_mempool_used_mem_high(self.device) if self.device.is_mempool_enabled else None
