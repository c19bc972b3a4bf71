"""The oracle: loss and gradient in closed form, float64, sharing no code with any implementation.

    dL/dx_i = sum_j [F'(s_i) + F'(s_j)] f'(r)/r (x_i - x_j)

It knows no problem by name and no number of dimensions: f, F and d come from the problem (`harness.contract.problem`).

Pairs come from all pairs in blocks where the input is small or the box is short, and from SciPy's periodic k-d tree
elsewhere.
`python -m harness.check.oracle` evaluates references in a process of its own, so that its memory is nobody else's;
small inputs need none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.check.reference import Reference, refused, save
from harness.contract.problem import FloatArray, InvalidPositionsError, Problem
from harness.contract.protocol import Counts, Dtype
from harness.problems.sph2d import SCENARIOS

ALL_PAIRS_LIMIT = 4096
"""Particles up to which all pairs are tried, in blocks: an input this small takes megabytes and a second at most."""
BLOCK_PAIRS = 1 << 21

_Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], FloatArray]


def reference(name: str, problem: Problem, positions: FloatArray) -> Reference:
    """Evaluate one input.

    Args:
        name: kept in the result.
        problem: parameters.
        positions: (N, d) float32 or float64, any finite coordinates; evaluated in float64 as they are.

    Raises:
        InvalidPositionsError: see `Problem.require_valid`.
    """
    problem.require_valid(positions)
    n, d = positions.shape
    wrapped = _wrapped(positions.astype(np.float64), problem.box_length)
    sums = _sums(problem, wrapped)
    slopes = problem.particle_derivative(sums)
    band = 4.0 * float(np.finfo(positions.dtype).eps) * problem.cutoff + 1e-15 * problem.box_length
    true_pairs = boundary_pairs = 0
    gradient, magnitude = np.zeros((n, d)), np.zeros((n, d))
    for i, j, apart in _pairs(wrapped, problem):
        r = _norm(apart)
        true_pairs += 2 * int(np.count_nonzero(r < problem.cutoff))
        boundary_pairs += 2 * int(np.count_nonzero(np.abs(r - problem.cutoff) <= band))
        slope = np.divide(problem.pair_derivative(r), r, out=np.zeros_like(r), where=r > 0.0)
        term = ((slopes[i] + slopes[j]) * slope)[:, None] * apart
        for axis in range(d):
            gradient[:, axis] += _scatter(i, term[:, axis], n) - _scatter(j, term[:, axis], n)
            size = np.abs(term[:, axis])
            magnitude[:, axis] += _scatter(i, size, n) + _scatter(j, size, n)
    return Reference(
        name=name,
        problem=problem,
        positions=positions,
        refusal=None,
        loss=float(np.sum(problem.particle(sums))),
        gradient=gradient,
        sums=sums,
        gradient_scale=float(magnitude.max(initial=0.0)),
        counts=_counts(problem, positions, true_pairs),
        boundary_pairs=boundary_pairs,
    )


def loss_only(problem: Problem, positions: FloatArray) -> float:
    """The loss alone, float64: what a finite difference of the oracle itself needs."""
    wrapped = _wrapped(positions.astype(np.float64), problem.box_length)
    return float(np.sum(problem.particle(_sums(problem, wrapped))))


def _sums(problem: Problem, wrapped: FloatArray) -> FloatArray:
    """s_i, (N,)."""
    sums = np.full(len(wrapped), problem.self_term)
    for i, j, apart in _pairs(wrapped, problem):
        value = problem.pair(_norm(apart))
        sums += _scatter(i, value, len(sums)) + _scatter(j, value, len(sums))
    return sums


def _wrapped(positions: FloatArray, length: float) -> FloatArray:
    wrapped = np.mod(positions, length)
    wrapped[wrapped >= length] = 0.0  # the remainder of a tiny negative coordinate rounds up to L itself
    return wrapped


def _pairs(wrapped: FloatArray, problem: Problem) -> Iterator[_Pairs]:
    """Every unordered pair near the cutoff once, in blocks: indices i, j and the minimum image of x_i - x_j."""
    n, length = len(wrapped), problem.box_length
    reach = problem.cutoff * (1.0 + 1e-6)
    if n <= ALL_PAIRS_LIMIT or length < 4.0 * problem.cutoff:
        rows = max(1, BLOCK_PAIRS // max(n, 1))
        for first in range(0, n, rows):
            i, j = np.nonzero(np.arange(first, min(first + rows, n))[:, None] < np.arange(n))
            i += first
            d = _minimum_image(wrapped[i] - wrapped[j], length)
            near = _norm(d) < reach
            yield i[near], j[near], d[near]
        return
    from scipy.spatial import cKDTree  # here, because small inputs do without it

    pairs = cKDTree(wrapped, boxsize=np.full(problem.dimension, length)).query_pairs(reach, output_type="ndarray")
    for first in range(0, len(pairs), BLOCK_PAIRS):
        i, j = pairs[first : first + BLOCK_PAIRS].T
        yield i, j, _minimum_image(wrapped[i] - wrapped[j], length)


def _minimum_image(d: FloatArray, length: float) -> FloatArray:
    return d - length * np.round(d / length)


def _norm(d: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(sum(d[:, axis] ** 2 for axis in range(d.shape[1]))))  # whole columns: SIMD


def _scatter(index: npt.NDArray[np.int64], values: FloatArray, n: int) -> FloatArray:
    sums: FloatArray = np.bincount(index, values, n).astype(np.float64, copy=False)
    return sums


def _counts(problem: Problem, positions: FloatArray, true_pairs: int) -> Counts:
    """Occupancies follow the cells of the positions' own precision, so that they are exact in float32 too."""
    nc = problem.cells_per_side(len(positions))
    cells = problem.cell_coordinates(positions, nc)
    occupancy = np.zeros((nc,) * problem.dimension, np.int64)
    np.add.at(occupancy, tuple(cells.T), 1)
    return Counts(
        n=len(positions),
        true_pairs=true_pairs,
        cells_per_side=nc,
        max_occupancy=int(occupancy.max(initial=0)),
        stencil_pairs=_stencil_pairs(occupancy),
    )


def _stencil_pairs(occupancy: npt.NDArray[np.int64]) -> int:
    """Ordered pairs, self included, over cells at most one apart on each axis; each distinct cell once."""
    nc, axes = len(occupancy), tuple(range(occupancy.ndim))
    offsets = product(range(-1, 2) if nc >= 3 else range(nc), repeat=occupancy.ndim)
    around = sum(np.roll(occupancy, offset, axes) for offset in offsets)
    return int(np.sum(occupancy * around))


def references(scenario: str, n: int, dtype: Dtype) -> Iterator[Reference]:
    """The references of a scenario's inputs that are run in this dtype; n is 0 where the scenario is not sized."""
    for each in SCENARIOS[scenario].inputs(n):
        if dtype not in each.dtypes:
            continue
        positions = each.positions().astype(dtype)
        try:
            yield reference(each.name, each.problem, positions)
        except InvalidPositionsError as error:
            if not each.refused:
                raise
            yield refused(each.name, each.problem, positions, str(error))


def main() -> None:
    """`python -m harness.check.oracle CHANNEL SCENARIO N DTYPE FILE`; answers with the number of references."""
    channel, scenario, n, dtype, path = sys.argv[1:]
    items = list(references(scenario, int(n), dtype))  # type: ignore[arg-type]
    save(Path(path), items)
    os.write(int(channel), str(len(items)).encode())


if __name__ == "__main__":
    main()
