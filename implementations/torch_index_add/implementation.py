"""Torch row: sorted cells, stored pairs, autograd through index_add."""

from __future__ import annotations

from typing import ClassVar

import psutil
import torch
from torch import Tensor

from harness.contract.problem import FloatArray, Problem
from harness.contract.protocol import (
    CapacityOverflowError,
    Counts,
    Description,
    Device,
    Dtype,
    Implementation,
    UnavailableError,
    leaves,
)
from implementations.torch_index_add import adjoint, forward

BYTES_PER_PAIR = 8  # two int32 indices


class TorchIndexAdd(Implementation):
    """Every unordered pair once, found from sorted cells, its density added to both ends by index_add."""

    description: ClassVar[Description] = Description(
        title="Torch pairs from sorted cells (index_add)",
        framework="Torch, eager",
        neighbours="sorted cells, half stencil; unordered pairs with r < 2h stored as indices",
        adjoint="Torch autograd through index_add; pair temporaries recomputed chunk by chunk (checkpoint)",
        pair_slots="true_pairs / 2: W on each unordered pair once",
        devices=("cpu", "cuda"),
        multithreaded=True,
        read_backs="status, candidates in all, chunk bounds; for each chunk its candidates and its pairs",
        packages=("torch",),
    )

    def __init__(self, problem: Problem, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        """See `Implementation`; the positions are only checked."""
        if device == "cuda" and not torch.cuda.is_available():
            raise UnavailableError("no CUDA device for Torch")
        problem.require_valid(positions.astype(dtype))
        self.problem = problem
        self.device = device
        self.dtype: torch.dtype = getattr(torch, dtype)

    def loss(self, x: Tensor) -> Tensor:
        """See `Implementation`."""
        self._require_valid(x)
        with torch.no_grad():
            return self._loss(x)

    def grad(self, x: Tensor) -> Tensor:
        """See `Implementation`."""
        self._require_valid(x)
        return adjoint.gradient(self._loss, x)

    def _loss(self, x: Tensor) -> Tensor:
        cells = forward.sort_into_cells(x, self.problem)
        self._require_memory(forward.total_slots(cells))
        return forward.density_loss(cells, forward.search_pairs(cells, self.problem), self.problem)

    def _require_valid(self, x: Tensor) -> None:
        if x.device.type != self.device:
            raise ValueError(f"positions are on {x.device.type}; this implementation was built for {self.device}")
        if x.dtype != self.dtype:
            raise ValueError(f"positions are {x.dtype}; this implementation was built for {self.dtype}")
        limit = self.problem.coordinate_limit(str(self.dtype).removeprefix("torch."))
        if x.ndim != 2 or x.shape[1] != 2 or not (x.abs() < limit).all():
            self.problem.require_valid(self.to_numpy(x))

    def _require_memory(self, slots: int) -> None:
        """Refuse before the search what could not be stored if every candidate were a pair."""
        free = psutil.virtual_memory().available if self.device == "cpu" else torch.cuda.mem_get_info()[0]
        if slots * BYTES_PER_PAIR > free:
            raise CapacityOverflowError(
                f"{slots} candidate pairs may need {slots * BYTES_PER_PAIR} bytes; {free} are free on {self.device}"
            )

    def true_pairs(self, x: Tensor) -> int:
        """See `Implementation`."""
        return 2 * self.pair_slots(x)

    def pair_slots(self, x: Tensor) -> int:
        """See `Implementation`."""
        cells = forward.sort_into_cells(x, self.problem)
        return sum(pairs.shape[1] for pairs in forward.search_pairs(cells, self.problem))

    def search_slots(self, x: Tensor) -> int:
        """See `Implementation`: candidates of the half stencil, (stencil_pairs - N) / 2."""
        return forward.total_slots(forward.sort_into_cells(x, self.problem))

    def expected_pair_slots(self, counts: Counts) -> int:
        """See `Implementation`."""
        return counts.true_pairs // 2

    def to_device(self, positions: FloatArray) -> Tensor:
        """See `Implementation`."""
        return torch.tensor(positions, dtype=self.dtype, device=self.device)

    def to_numpy(self, array: Tensor) -> FloatArray:
        """See `Implementation`."""
        return array.detach().cpu().numpy().copy()

    def wait(self, *outputs: Tensor) -> None:
        """See `Implementation`."""
        if any(isinstance(leaf, Tensor) and leaf.is_cuda for leaf in leaves(outputs)):
            torch.cuda.synchronize()

    def device_of(self, array: Tensor) -> Device:
        """See `Implementation`."""
        return "cuda" if array.is_cuda else "cpu"

    def peak_device_bytes(self) -> int | None:
        """See `Implementation`."""
        return torch.cuda.max_memory_allocated() if self.device == "cuda" else None
