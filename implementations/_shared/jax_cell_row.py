"""What the rows over padded cells share besides the cells: sizing the capacity, and the counts."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from harness.contract.problem import FloatArray, Problem
from harness.contract.protocol import Counts, Device, Dtype
from implementations._shared.jax_cells import build_cells, separation
from implementations._shared.jax_spline import distance
from implementations._shared.jax_support import JaxImplementation


class CellListImplementation(JaxImplementation):
    """Glue common to the rows that pad cells: the capacity is the occupancy of the fullest cell seen so far."""

    capacity: int

    def __init__(self, problem: Problem, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        """Raises as `Implementation` says."""
        super().__init__(problem, positions, device, dtype)
        self.capacity = max_occupancy(problem, positions.astype(dtype))

    def reallocate(self, x: jax.Array, needed: int) -> None:
        """The loop over slots allocates nothing that grows with the capacity: there is no limit to refuse."""
        self.capacity = needed

    def true_pairs(self, x: jax.Array) -> int:
        """Ordered pairs closer than 2h, counted through the slots."""
        self.loss(x)  # raises the capacity to what x needs
        return int(jax.jit(partial(true_pairs, self.problem, self.capacity))(x)) if self.n else 0

    def pair_slots(self, x: jax.Array) -> int:
        """Slots of every particle's stencil cells."""
        self.loss(x)
        return jax.eval_shape(partial(build_cells, self.problem), x).first.size * self.capacity if self.n else 0

    def expected_pair_slots(self, counts: Counts) -> int:
        """9 (4 or 1 in a box two cells or one cell wide) * fullest cell * N."""
        return min(3, counts.cells_per_side) ** 2 * counts.max_occupancy * counts.n


def max_occupancy(problem: Problem, positions: FloatArray) -> int:
    """Particles in the fullest cell: the capacity that (N, 2) NumPy positions need."""
    nc = problem.cells_per_side(len(positions))
    cells = problem.cell_coordinates(positions, nc)
    return int(np.bincount(cells[:, 0] + nc * cells[:, 1]).max(initial=0))


def true_pairs(problem: Problem, capacity: int, positions: jax.Array) -> jax.Array:
    """Ordered pairs i != j with r < 2h, counted through the slots: int64 scalar.

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

    return jnp.sum(jax.lax.scan(count_in_cell, None, (cells.first, cells.end))[1])
