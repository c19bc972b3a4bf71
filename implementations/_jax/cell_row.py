"""A row over padded cells: the capacity, and the counts."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from typing_extensions import override

from harness.contract.problem import FloatArray
from harness.contract.protocol import Counted, Counts, Device, Dtype
from harness.problems.sph2d import Sph2d
from implementations._jax.box import distance
from implementations._jax.cells import build_cells, separation
from implementations._jax.memory import fullest_cell
from implementations._jax.row import JaxImplementation


class CellListImplementation(JaxImplementation):
    """Base of the rows that pad cells: the capacity is the occupancy of the fullest cell seen so far."""

    capacity: int

    @override
    def __init__(self, problem: Sph2d, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        super().__init__(problem, positions, device, dtype)
        self.capacity = fullest_cell(problem, positions.astype(dtype), problem.cells_per_side(self.n))

    @override
    def reallocate(self, x: jax.Array, needed: int) -> None:
        # the loop over slots allocates nothing that grows with the capacity: there is no limit to refuse
        self.capacity = needed

    @override
    def counts(self, x: jax.Array) -> Counted:
        self.loss(x)  # raises the capacity to what x needs
        if self.n == 0:
            return Counted(0, 0)
        true_pairs, stencil_cells = jax.jit(partial(count, self.problem, self.capacity))(x)
        return Counted(int(true_pairs), int(stencil_cells) * self.capacity)

    @override
    def expected_pair_slots(self, counts: Counts) -> int:
        return min(3, counts.cells_per_side) ** 2 * counts.max_occupancy * counts.n


def count(problem: Sph2d, capacity: int, positions: jax.Array) -> tuple[jax.Array, int]:
    """Ordered pairs i != j with r < 2h, counted through the slots, int64; and stencil cells of all particles together.

    Counting is not timed: one stencil cell at a time compiles faster than `sum_over_slots` and runs slower.
    """
    cells = build_cells(problem, positions)
    itself = jnp.arange(len(positions), dtype=jnp.int32)

    def count_in_cell(_: None, bounds: tuple[jax.Array, jax.Array]) -> tuple[None, jax.Array]:
        first, end = bounds

        def count_slot(k: jax.Array, count: jax.Array) -> jax.Array:
            j = first + k
            near = distance(*separation(problem, cells, j)) < problem.cutoff
            return count + jnp.count_nonzero(near & (j != itself) & (j < end))

        return None, jax.lax.fori_loop(0, capacity, count_slot, jnp.int64(0))

    return jnp.sum(jax.lax.scan(count_in_cell, None, (cells.first, cells.end))[1]), cells.first.size
