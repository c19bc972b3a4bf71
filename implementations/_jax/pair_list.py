"""The padded pair list of jax-md, and the kernel W on its slots; what the rows over it differentiate.

The list holds ordered pairs i != j, sorted by i; padded slots hold i = j = N.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax_md import partition

from harness.problems.sph2d import Sph2d
from implementations._jax.box import distance, minimum_image, wrap
from implementations._jax.spline import spline


@contextmanager
def narrowing_ids_allowed() -> Iterator[None]:
    """Silence a warning: searching all pairs, jax-md scatters 64-bit ids into its 32-bit list."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "scatter inputs have incompatible types", FutureWarning)
        yield


def neighbor_list(problem: Sph2d, n: int, capacity_multiplier: float) -> partition.NeighborListFns:
    """jax-md's list of pairs closer than 2h, rebuilt at every update.

    Distances use compare-and-shift on wrapped positions: `jax_md.space.periodic` takes a remainder for each
    candidate, which is slower and rounds to the last place of L.

    Args:
        problem: parameters.
        n: number of particles.
        capacity_multiplier: slots allocated per pair, and per particle of the fullest search cell, found at allocation.
    """
    return partition.neighbor_list(
        lambda a, b, **_: minimum_image(problem, a - b),
        search_box(problem),
        problem.cutoff,
        dr_threshold=0.0,
        capacity_multiplier=capacity_multiplier,
        disable_cell_list=searches_all_pairs(problem, n),
        format=partition.Sparse,
    )


def search_box(problem: Sph2d) -> float:
    """L rounded down to float32, as which jax-md keeps it: rounded up, its last cell could be narrower than 2h."""
    box = np.float32(problem.box_length)
    return float(box if box <= problem.box_length else np.nextafter(box, np.float32(0.0)))


def searches_all_pairs(problem: Sph2d, n: int) -> bool:
    """Whether all pairs are searched: in boxes under three cells wide, as jax-md does; and where cells outnumber pairs.

    jax-md allocates (L / 2h)^2 cells however few the particles: gigabytes for two of them in a huge box.
    """
    cells_per_side = search_box(problem) / problem.cutoff
    return cells_per_side <= 3.0 or cells_per_side >= n


def pairs(problem: Sph2d, empty: partition.NeighborList, x: jax.Array) -> tuple[jax.Array, partition.NeighborList]:
    """Wrapped positions (N, 2), and the list rebuilt for them with the capacities of `empty`."""
    wrapped = wrap(problem, x)  # jax-md loses pairs of negative coordinates
    with narrowing_ids_allowed():
        return wrapped, empty.update(jax.lax.stop_gradient(wrapped))


class PairTerms(NamedTuple):
    """One slot for each entry of the list.

    Attributes:
        i: (slots,) ids of the particles the terms belong to, ascending; N where the slot is padding.
        w: (slots,) W(|x_i - x_j|); meaningless where the slot is padding.
        needed_capacity: int32 scalar, the slots needed as far as is known; for `status_of`.
    """

    i: jax.Array
    w: jax.Array
    needed_capacity: jax.Array


def pair_terms(problem: Sph2d, empty: partition.NeighborList, x: jax.Array) -> PairTerms:
    """Rebuild the list and evaluate W on its slots.

    Args:
        problem: parameters.
        empty: a list that gives the capacities.
        x: (N, 2) positions, N > 0.
    """
    wrapped, found = pairs(problem, empty, x)
    j, i = found.idx
    dx, dy = (minimum_image(problem, jnp.take(c, i, mode="clip") - jnp.take(c, j, mode="clip")) for c in wrapped.T)
    needed = jnp.where(found.did_buffer_overflow, empty.max_occupancy + 1, 0)
    return PairTerms(i, spline(problem, distance(dx, dy)), needed)
