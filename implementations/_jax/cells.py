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

from harness.problems.sph2d import Sph2d
from implementations._jax.box import distance, minimum_image, wrap
from implementations._jax.spline import spline


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


def build_cells(problem: Sph2d, positions: jax.Array) -> CellList:
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


def residuals(problem: Sph2d, cells: CellList, capacity: int) -> jax.Array:
    """rho_i - rho_0 in cell order, (N,); the particle is one of its own candidates, which gives the self term."""
    return problem.mass * sum_over_slots(cells, capacity, partial(pair_kernel, problem, cells)) - problem.rest_density


def pair_kernel(problem: Sph2d, cells: CellList, j: jax.Array) -> jax.Array:
    """W of every particle and its candidate: j (N,) sorted indices -> (N,)."""
    return spline(problem, distance(*separation(problem, cells, j)))


def separation(problem: Sph2d, cells: CellList, j: jax.Array) -> tuple[jax.Array, jax.Array]:
    """x_i - x_j and y_i - y_j, minimum image, (N,) each: of candidates j, (N,) sorted indices, clamped into range."""
    dx, dy = (c - jnp.take(c, j, mode="clip") for c in (cells.x, cells.y))
    return minimum_image(problem, dx), minimum_image(problem, dy)
