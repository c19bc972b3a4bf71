"""A row over jax-md's pair list: allocation, and the counts."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax_md import partition
from typing_extensions import override

from harness.contract.problem import FloatArray
from harness.contract.protocol import CapacityOverflowError, Counted, Counts, Device, Dtype
from harness.problems.sph2d import Sph2d
from implementations._jax.box import wrap
from implementations._jax.memory import fullest_cell, require_memory
from implementations._jax.pair_list import (
    narrowing_ids_allowed,
    neighbor_list,
    pairs,
    search_box,
    searches_all_pairs,
)
from implementations._jax.row import JaxImplementation

CELL_CANDIDATE_BYTES = 40
"""Held per candidate of the search through cells: ids, ranks and both ends of the pruned list; 44 were measured."""

PAIR_CANDIDATE_BYTES = 52
"""The same for the search over all pairs, whose ids are 64 bits wide; 56 to 59 were measured."""


class PairListImplementation(JaxImplementation):
    """Base of the rows over jax-md's padded pair list, with its overflow-and-reallocate protocol."""

    capacity: int

    def __init__(
        self, problem: Sph2d, positions: FloatArray, device: Device, dtype: Dtype, capacity_multiplier: float = 1.25
    ) -> None:
        """Raises as `Implementation` says; CapacityOverflowError where the search could not be held."""
        if not capacity_multiplier >= 1.0:
            raise ValueError(f"capacity_multiplier is {capacity_multiplier}; below 1 no list holds its own pairs")
        super().__init__(problem, positions, device, dtype)
        self._capacity_multiplier = capacity_multiplier
        self.capacity = 0
        if self.n:
            self._neighbor_list = neighbor_list(problem, self.n, capacity_multiplier)
            self._allocate(self.to_device(positions))

    @override
    def reallocate(self, x: jax.Array, needed: int) -> None:
        self._allocate(x)

    def _allocate(self, x: jax.Array) -> None:
        self._require_search_fits(self.to_numpy(x))
        with narrowing_ids_allowed():
            found = self._neighbor_list.allocate(wrap(self.problem, x))
        self.capacity = int(found.max_occupancy)
        no_error = partition.PartitionError(np.zeros((), np.uint8))
        self._empty = dataclasses.replace(found, idx=None, reference_position=None, error=no_error)

    def _require_search_fits(self, positions: FloatArray) -> None:
        if searches_all_pairs(self.problem, self.n):
            candidates, bytes_each = self.n**2, PAIR_CANDIDATE_BYTES
        else:
            cells_per_side = int(search_box(self.problem) / self.problem.cutoff)
            if cells_per_side**2 > np.iinfo(np.int32).max:
                raise CapacityOverflowError(f"{cells_per_side**2} search cells exceed jax-md's 32-bit cell index")
            fullest = fullest_cell(self.problem, positions, cells_per_side)
            candidates, bytes_each = 9 * int(fullest * self._capacity_multiplier) * self.n, CELL_CANDIDATE_BYTES
            require_memory(self.device, "search cells", cells_per_side**2, 3 * self.dtype.itemsize)
        require_memory(self.device, "candidates of the neighbour search", candidates, bytes_each)

    @override
    def counts(self, x: jax.Array) -> Counted:
        self.loss(x)  # reallocates where x needs more
        if self.n == 0:
            return Counted(0, 0)
        true_pairs, slots = jax.jit(partial(_count, self.problem, self._empty))(x)
        cell_capacity = self._empty.cell_list_capacity
        candidates = self.n if cell_capacity is None else 9 * int(cell_capacity)  # of each particle
        return Counted(int(true_pairs), int(slots), candidates * self.n)

    @override
    def expected_pair_slots(self, counts: Counts) -> int:
        return min(int(counts.true_pairs * self._capacity_multiplier), counts.n * (counts.n - 1))


def _count(problem: Sph2d, empty: partition.NeighborList, x: jax.Array) -> tuple[jax.Array, int]:
    """Pairs in the list, and its slots."""
    _, found = pairs(problem, empty, x)
    return jnp.sum(found.idx[0] < len(x)), found.idx.shape[1]
