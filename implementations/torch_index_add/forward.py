"""SPH density loss in eager Torch: pairs from sorted cells, one index_add for each end of a pair.

    rho_i = m W(0) + sum over pairs (i, j), r_ij < 2h, of m W(r_ij)        added to both ends
    loss  = sum_i (rho_i - rho_0)^2

With the particles in cell order, neighbouring cells of a row are one contiguous range of particles. Half of the 3x3
stencil meets every unordered pair once: in a particle's own row, whoever comes after it in its cell and the cell to the
right; in the next row, the cell above and that cell's two neighbours.

The search (outside autograd) finds the pairs as indices into the sorted order; W, density and loss are differentiable
functions of the positions there. Both go chunk by chunk, which bounds the temporaries: autograd recomputes what it
needs of a chunk from the chunk's pairs (`checkpoint`), so only these are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from harness.problems.sph2d import Sph2d

CHUNK_SLOTS = {"cpu": 1 << 20, "cuda": 1 << 26}
"""Candidates searched at once: few enough for a CPU's cache, many enough to fill a GPU."""

RANGES = 4
"""Contiguous ranges of the sorted order that hold the candidates of one particle."""


class SortedCells(NamedTuple):
    """Particles in cell order, with the candidates of each.

    Attributes:
        x, y: (N,) coordinates in sorted order, in [0, L]; differentiable in the positions they were sorted from.
        first, last: (N, RANGES) int32; particle k's candidates are the four ranges [first, last) of the sorted order.
        slots: (N,) int64; candidates of the particles up to and including k.
    """

    x: Tensor
    y: Tensor
    first: Tensor
    last: Tensor
    slots: Tensor


def sort_into_cells(positions: Tensor, problem: Sph2d) -> SortedCells:
    """Sort (N, 2) finite positions by cell, row by row.

    Cells follow `Problem.cell_coordinates`: `torch.remainder` is exact.
    """
    cells_per_side = problem.cells_per_side(len(positions))
    wrapped = torch.remainder(positions, problem.box_length)
    scale = cells_per_side / problem.box_length
    cell_x, cell_y = (wrapped.detach() * scale).to(torch.int32).clamp(max=cells_per_side - 1).unbind(1)
    cell, order = torch.sort(cell_y * cells_per_side + cell_x)
    x, y = (column.index_select(0, order) for column in wrapped.unbind(1))
    first, last = half_stencil(cell, cells_per_side)
    return SortedCells(x, y, first, last, (last - first).sum(1).cumsum(0))


def half_stencil(cell: Tensor, cells_per_side: int) -> tuple[Tensor, Tensor]:
    """Candidate ranges through which every unordered pair of particles in adjacent cells meets once.

    Args:
        cell: (N,) int32, the cell of each particle in sorted order: row * cells_per_side + column.
        cells_per_side: with fewer than 3 all cells are adjacent, and the candidates are simply all later particles.

    Returns:
        first, last: (N, RANGES) int32: own row, its part across the box's face, next row, its part across the face.
    """
    n, nc = len(cell), cells_per_side
    later = torch.arange(1, n + 1, dtype=torch.int32, device=cell.device)
    if nc < 3:
        first, last = torch.zeros((2, n, RANGES), dtype=torch.int32, device=cell.device)
        first[:, 0], last[:, 0] = later, n
        return first, last
    start = torch.zeros(nc * nc + 1, dtype=torch.int32, device=cell.device)
    start[1:] = torch.bincount(cell, minlength=nc * nc).cumsum(0)
    column = cell % nc
    row = cell - column
    next_row = (row + nc) % (nc * nc)
    left, right = (column - 1).clamp(min=0), (column + 1).clamp(max=nc - 1)
    at_left, at_right = column == 0, column == nc - 1
    opposite = torch.where(at_left, nc - 1, 0)
    first = [later, start[row], start[next_row + left], start[next_row + opposite]]
    last = [
        start[row + right + 1],
        start[row + at_right],
        start[next_row + right + 1],
        start[next_row + opposite + (at_left | at_right)],
    ]
    return torch.stack(first, 1), torch.stack(last, 1)


def search_pairs(cells: SortedCells, problem: Sph2d) -> Iterator[Tensor]:
    """Unordered pairs with r < 2h in chunks of particles: (2, P) int32 indices into the sorted order.

    There is at least one chunk, if an empty one, so that the loss depends on the positions however few they are.
    """
    chunk = CHUNK_SLOTS[cells.slots.device.type]
    full = chunk * torch.arange(1, total_slots(cells) // chunk + 1, device=cells.slots.device)
    bounds = [0, *torch.searchsorted(cells.slots, full).tolist(), len(cells.slots)]
    for begin, end in pairwise(bounds):
        yield pairs_of_range(cells, begin, end, problem)


def total_slots(cells: SortedCells) -> int:
    """Candidates of all particles together, read back from the device."""
    return int(cells.slots[-1]) if len(cells.slots) else 0


@torch.no_grad()
def pairs_of_range(cells: SortedCells, begin: int, end: int, problem: Sph2d) -> Tensor:
    """The pairs that the sorted particles begin <= k < end form with their candidates."""
    first, last = cells.first[begin:end].flatten(), cells.last[begin:end].flatten()
    length = last - first
    owner = torch.arange(begin, end, dtype=torch.int32, device=first.device).repeat_interleave(RANGES)
    gap = first - (length.cumsum(0, dtype=torch.int32) - length)  # what to add to a slot's number for its candidate
    at = torch.repeat_interleave(length)
    i = owner.index_select(0, at)
    j = torch.arange(len(at), dtype=torch.int32, device=at.device) + gap.index_select(0, at)
    near = torch.nonzero(squared_distance(cells.x, cells.y, i, j, problem.box_length) < problem.cutoff**2).squeeze(1)
    return torch.stack([i.index_select(0, near), j.index_select(0, near)])


def squared_distance(x: Tensor, y: Tensor, i: Tensor, j: Tensor, box_length: float) -> Tensor:
    """(P,) squared minimum-image distances of the pairs (i, j) of wrapped positions."""
    dx = minimum_image(x.index_select(0, i) - x.index_select(0, j), box_length)
    dy = minimum_image(y.index_select(0, i) - y.index_select(0, j), box_length)
    return dx * dx + dy * dy


def minimum_image(displacement: Tensor, box_length: float) -> Tensor:
    """Displacement of two wrapped coordinates, |d| <= L, to the nearest image."""
    return displacement - (displacement.detach() / box_length).round() * box_length


def kernel(q: Tensor, problem: Sph2d) -> Tensor:
    """W(q h) for 0 <= q <= 2: sigma [(2 - q)^3 / 4 - max(1 - q, 0)^3], the cubic spline without a branch."""
    outer, inner = 2.0 - q, (1.0 - q).clamp(min=0.0)
    return problem.kernel_normalisation * (0.25 * outer * outer * outer - inner * inner * inner)


def pair_densities(x: Tensor, y: Tensor, pairs: Tensor, problem: Sph2d) -> Tensor:
    """m W(r) of a chunk of pairs, (P,). The clamp keeps coincident particles clear of the square root's pole."""
    i, j = pairs
    r2 = squared_distance(x, y, i, j, problem.box_length).clamp(min=torch.finfo(x.dtype).tiny)
    return problem.mass * kernel(r2.sqrt() / problem.smoothing_length, problem)


def density_loss(cells: SortedCells, chunks: Iterable[Tensor], problem: Sph2d) -> Tensor:
    """Loss, a scalar, as a differentiable function of cells.x and cells.y over the pairs of all chunks."""
    density = torch.full_like(cells.x, problem.mass * problem.kernel_normalisation)
    for pairs in chunks:
        summands = checkpoint(
            pair_densities, cells.x, cells.y, pairs, problem, use_reentrant=False, preserve_rng_state=False
        )
        for end in pairs:
            density = density.index_add(0, end, summands)
    return (density - problem.rest_density).square().sum()
