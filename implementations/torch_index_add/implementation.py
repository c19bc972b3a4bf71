from __future__ import annotations

from typing import ClassVar

import psutil
import torch
from torch import Tensor
from typing_extensions import override

from harness.contract.problem import FloatArray
from harness.contract.protocol import (
    CapacityOverflowError,
    Counted,
    Counts,
    Description,
    Device,
    Dtype,
    Implementation,
    UnavailableError,
    leaves,
    mismatch,
)
from harness.problems.sph2d import Sph2d
from implementations.torch_index_add import forward

BYTES_PER_PAIR = 8  # two int32 indices


class TorchIndexAdd(Implementation):
    """Every unordered pair once, found from sorted cells, its density added to both ends by index_add.

    Besides the status Torch reads back the number of candidates, the bounds of the chunks, and for each chunk the
    numbers of its candidates and of its pairs: they are the shapes of what follows.
    """

    description: ClassVar[Description] = Description(
        title="Torch pairs from sorted cells (index_add)",
        framework="Torch",
        neighbours="sorted cells, half stencil; unordered pairs with r < 2h stored as indices, their numbers read back",
        adjoint="eager autograd through index_add; pair temporaries recomputed chunk by chunk (checkpoint)",
        pair_slots="true_pairs / 2: W on each unordered pair once",
        devices=("cpu", "cuda"),
        multithreaded=True,
        packages=("torch",),
    )

    @override
    def __init__(self, problem: Sph2d, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise UnavailableError("no CUDA device for Torch")
        problem.require_valid(positions.astype(dtype))
        self.problem = problem
        self.shape = positions.shape
        self.device = device
        self.dtype: torch.dtype = getattr(torch, dtype)

    @override
    def loss(self, x: Tensor) -> Tensor:
        self._require_valid(x)
        with torch.no_grad():
            return self._loss(x)

    @override
    def grad(self, x: Tensor) -> Tensor:
        self._require_valid(x)
        leaf = x.detach().requires_grad_()  # a fresh one: nothing is accumulated from one call to the next
        (gradient,) = torch.autograd.grad(self._loss(leaf), leaf)
        return gradient

    def _loss(self, x: Tensor) -> Tensor:
        cells = forward.sort_into_cells(x, self.problem)
        self._require_memory(forward.total_slots(cells))
        return forward.density_loss(cells, forward.search_pairs(cells, self.problem), self.problem)

    def _require_valid(self, x: Tensor) -> None:
        if not isinstance(x, Tensor):
            raise mismatch(f"a {type(x).__name__}", f"a Tensor on {self.device}")
        if x.dtype != self.dtype or x.shape != self.shape:
            raise mismatch(f"{x.dtype} {tuple(x.shape)}", f"{self.dtype} {self.shape}")
        if x.device.type != self.device:
            raise mismatch(f"on {x.device.type}", self.device)
        limit = self.problem.coordinate_limit(str(self.dtype).removeprefix("torch."))
        if not (x.abs() < limit).all():
            self.problem.require_valid(self.to_numpy(x))

    def _require_memory(self, slots: int) -> None:
        """Refuse before the search what could not be stored if every candidate were a pair."""
        free = psutil.virtual_memory().available if self.device == "cpu" else torch.cuda.mem_get_info()[0]
        if slots * BYTES_PER_PAIR > free:
            raise CapacityOverflowError(
                f"{slots} candidate pairs may need {slots * BYTES_PER_PAIR} bytes; {free} are free on {self.device}"
            )

    @override
    def counts(self, x: Tensor) -> Counted:
        self._require_valid(x)
        cells = forward.sort_into_cells(x, self.problem)
        pairs = sum(pairs.shape[1] for pairs in forward.search_pairs(cells, self.problem))
        return Counted(true_pairs=2 * pairs, pair_slots=pairs, search_slots=forward.total_slots(cells))

    @override
    def expected_pair_slots(self, counts: Counts) -> int:
        return counts.true_pairs // 2

    @override
    def to_device(self, positions: FloatArray) -> Tensor:
        return torch.tensor(positions, dtype=self.dtype, device=self.device)

    @override
    def to_numpy(self, array: Tensor) -> FloatArray:
        return array.detach().cpu().numpy().copy()

    @override
    def wait(self, *outputs: Tensor) -> None:
        if any(isinstance(leaf, Tensor) and leaf.is_cuda for leaf in leaves(outputs)):
            torch.cuda.synchronize()

    @override
    def device_of(self, array: Tensor) -> Device:
        return "cuda" if array.is_cuda else "cpu"

    @override
    def peak_device_bytes(self) -> int | None:
        return torch.cuda.max_memory_allocated() if self.device == "cuda" else None
