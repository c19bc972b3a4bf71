"""The padded cell list in JAX: particles sorted by cell, and every neighbour cell read through `capacity` masked slots.

XLA needs static shapes, so each particle visits slot k = 0 .. capacity - 1 of each stencil cell, whether or not a
particle is there; slots past the end of a cell are masked. A particle's candidate in slot k of a cell that starts at
`first` is simply sorted particle `first + k`. The slots are walked by a loop, so memory is O(N), not O(N capacity).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from harness.problem import FloatArray, Problem
from harness.protocol import Counts, Device, Dtype
from implementations._shared.jax_spline import distance, spline
from implementations._shared.jax_support import JaxImplementation, wrap


class CellList(NamedTuple):
    """Particles in cell order, and where each particle's stencil cells begin and end in that order.

    Attributes:
        order: (N,) int32, original index of each sorted particle.
        x, y: (N,) coordinates in [0, L), sorted.
        first, end: (S, N) int32, sorted particles first .. end - 1 are in the particle's s-th stencil cell; S = 9, or
            1 or 4 where the box is 1 or 2 cells wide.
        occupancy: int32 scalar, particles in the fullest cell.
    """

    order: jax.Array
    x: jax.Array
    y: jax.Array
    first: jax.Array
    end: jax.Array
    occupancy: jax.Array


def max_occupancy(problem: Problem, positions: FloatArray) -> int:
    """Particles in the fullest cell: the capacity that (N, 2) NumPy positions need."""
    nc = problem.cells_per_side(len(positions))
    cells = problem.cell_coordinates(positions, nc)
    return int(np.bincount(cells[:, 0] + nc * cells[:, 1]).max(initial=0))


def build_cells(problem: Problem, positions: jax.Array) -> CellList:
    """Sort particles by cell.

    Args:
        problem: the box and the support radius.
        positions: (N, 2), N > 0, any coordinates; NaN gives some list, with every index in bounds.
    """
    n = len(positions)
    nc = problem.cells_per_side(n)
    wrapped = wrap(problem, positions)
    column, row = jnp.clip(jnp.floor(wrapped * (nc / problem.box_length)).astype(jnp.int32), 0, nc - 1).T
    cell, order = sort_by(column + nc * row)
    start = jnp.searchsorted(cell, jnp.arange(nc * nc + 1, dtype=jnp.int32)).astype(jnp.int32)
    neighbours = jnp.stack([(cell % nc + dx) % nc + nc * ((cell // nc + dy) % nc) for dx, dy in stencil(nc)])
    x, y = wrapped[order].T
    return CellList(order, x, y, start[neighbours], start[neighbours + 1], jnp.max(jnp.diff(start)))


def stencil(nc: int) -> Iterator[tuple[int, int]]:
    """Offsets of the cells around a cell, each distinct cell once however small the box."""
    offsets = range(-1, 2) if nc >= 3 else range(nc)
    return ((dx, dy) for dy in offsets for dx in offsets)


def sort_by(keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Stable sort of (N,) non-negative int32 keys: the sorted keys and the (N,) int32 permutation that sorts them.

    Key and index share one 64-bit integer: XLA sorts a single operand several times faster than a pair.
    """
    index = jnp.arange(len(keys), dtype=jnp.int64)
    packed = jax.lax.sort((keys.astype(jnp.int64) << 32) | index, is_stable=False)
    return (packed >> 32).astype(jnp.int32), packed.astype(jnp.int32)


def gather(values: jax.Array, index: jax.Array) -> jax.Array:
    """values[index] with the index clamped into bounds, as a masked slot past the last particle needs."""
    return values.at[index].get(mode="clip")


def add_slot(cells: CellList, term: Callable[[jax.Array], jax.Array], k: jax.Array, total: jax.Array) -> jax.Array:
    """Add to every particle's total the sum of `term` over slot k of the cells around it.

    Args:
        cells: the sorted particles.
        term: candidate's sorted index, (N,) int32 -> (N,) contribution to each particle; finite in masked slots too.
        k: slot, a traced int32 scalar.
        total: (N,) in cell order, of the terms' dtype.
    """
    for first, end in zip(cells.first, cells.end, strict=True):
        j = first + k
        total += jnp.where(j < end, term(j), 0)
    return total


def sum_over_slots(cells: CellList, capacity: int, term: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """For every particle, the sum of `term` (see `add_slot`) over all slots k < capacity: (N,) in cell order.

    JAX's reverse mode recomputes each step of the loop instead of storing it. The caller makes sure that
    `cells.occupancy` does not exceed the capacity.
    """
    zeros = jnp.zeros_like(jax.eval_shape(term, cells.order))
    slot_sum = jax.checkpoint(lambda k: add_slot(cells, term, k, zeros))

    def step(total: jax.Array, k: jax.Array) -> tuple[jax.Array, None]:
        return total + slot_sum(k), None

    return jax.lax.scan(step, zeros, jnp.arange(capacity, dtype=jnp.int32))[0]


def residuals(problem: Problem, cells: CellList, capacity: int) -> jax.Array:
    """rho_i - rho_0 in cell order, (N,); the particle is one of its own candidates, which gives the self term."""
    return problem.mass * sum_over_slots(cells, capacity, partial(pair_kernel, problem, cells)) - problem.rest_density


def pair_kernel(problem: Problem, cells: CellList, j: jax.Array) -> jax.Array:
    """W of every particle and its candidate: j (N,) sorted indices -> (N,)."""
    return spline(problem, distance(*separation(problem, cells, j)))


def minimum_image(problem: Problem, d: jax.Array) -> jax.Array:
    """Nearest periodic image of differences of wrapped coordinates, |d| <= L; any shape."""
    length = problem.box_length
    return jnp.where(d > 0.5 * length, d - length, jnp.where(d < -0.5 * length, d + length, d))


def separation(problem: Problem, cells: CellList, j: jax.Array) -> tuple[jax.Array, jax.Array]:
    """x_i - x_j and y_i - y_j, minimum image: (N,) each, for candidates j (N,)."""
    return minimum_image(problem, cells.x - gather(cells.x, j)), minimum_image(problem, cells.y - gather(cells.y, j))


def true_pairs(problem: Problem, capacity: int, positions: jax.Array) -> jax.Array:
    """Ordered pairs i != j with r < 2h, counted through the slots: int64 scalar."""
    cells = build_cells(problem, positions)
    itself = jnp.arange(len(positions), dtype=jnp.int32)

    def near(j: jax.Array) -> jax.Array:
        return ((distance(*separation(problem, cells, j)) < problem.cutoff) & (j != itself)).astype(jnp.int32)

    return jnp.sum(sum_over_slots(cells, capacity, near), dtype=jnp.int64)


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
        return jax.jit(partial(build_cells, self.problem))(x).first.size * self.capacity if self.n else 0

    def search_slots(self, x: jax.Array) -> int:
        """None: the slots are walked directly."""
        return 0

    def expected_pair_slots(self, counts: Counts) -> int:
        """9 (4 or 1 in a box two cells or one cell wide) * fullest cell * N."""
        return min(3, counts.cells_per_side) ** 2 * counts.max_occupancy * counts.n
