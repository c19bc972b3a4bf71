"""What is particular to the Numba row: half stencil, colours, counting sort, vectors, relative coordinates."""

import inspect
import re

import numba
import numpy as np
import pytest

from harness.problems.sph2d import Sph2d
from implementations.numba_adjoint import adjoint, forward
from implementations.numba_adjoint.implementation import NumbaAdjoint


def _positions(n, length, seed=0):
    return np.random.default_rng(seed).random((n, 2)) * length


def _built(n=1000, length=10.0):
    x = _positions(n, length)
    return NumbaAdjoint(Sph2d(length), x, "cpu", "float64"), x


@pytest.mark.parametrize("cells_per_side", [1, 3, 4, 7])
def test_half_stencil_meets_every_pair_of_adjacent_cells_once(cells_per_side):
    row, x = _built(12 * cells_per_side**2, cells_per_side + 0.3)
    cells = row._cells(x)
    cell = row.problem.cell_coordinates(np.stack([cells.x, cells.y], 1), cells_per_side)
    apart = np.abs(cell[:, None] - cell)
    i, j = np.nonzero(np.triu((np.minimum(apart, cells_per_side - apart) <= 1).all(axis=2), 1))
    met = []
    ranges = np.empty((forward.RANGES, 2), np.int64)
    for c in range(cells_per_side**2):
        forward.half_stencil(cells.start, cells_per_side, c // cells_per_side, c % cells_per_side, ranges)
        for k in range(cells.start[c], cells.start[c + 1]):
            ranges[0, 0] = k + 1
            met += [(min(k, m), max(k, m)) for first, last in ranges for m in range(first, last)]
    assert sorted(met) == sorted(zip(i.tolist(), j.tolist(), strict=True))


@pytest.mark.parametrize("nc", [1, 3, 4, 5, 10])
def test_rows_of_a_colour_are_never_adjacent(nc):
    colours = [[forward.row_of(c, p, nc) for p in range(forward.rows_of(c, nc))] for c in range(3)]
    assert sorted(row for rows in colours for row in rows) == list(range(nc))
    for rows in colours:
        written = [r for row in rows for r in {row, (row + 1) % nc}]
        assert len(written) == len(set(written))


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_sort_is_stable_by_cell_in_any_number_of_parts(parts):
    row, x = _built()
    valid, cells = forward.sort_into_cells(x, row.box, 1e9, parts)
    columns, rows = row.problem.cell_coordinates(x, 10).T
    cell = rows * 10 + columns
    order = np.argsort(cell, kind="stable")
    assert valid
    assert np.array_equal(cells.rank[order], np.arange(1000))
    assert np.array_equal(cells.x, x[order, 0])
    assert np.array_equal(cells.start, np.searchsorted(cell[order], np.arange(101)))


def test_gradient_does_not_depend_on_the_number_of_threads():
    row, x = _built()
    gradients = []
    for threads in {1, row.threads}:
        numba.set_num_threads(threads)
        row.threads = threads
        gradients.append(row.grad(x))
    assert all(np.array_equal(g, gradients[0]) for g in gradients)


def test_one_origin_per_cell_is_as_good_as_one_per_particle():
    row, x = _built()
    assert row.box.by_cell
    right = row.grad(x)
    row.box = row.box._replace(by_cell=False)
    assert np.abs(row.grad(x) - right).max() <= 1e-13 * np.abs(right).max()


@pytest.mark.parametrize(("length", "n"), [(3.9, 100), (1e6, 2)])
def test_short_boxes_and_wide_cells_take_one_origin_per_particle(length, n):
    assert not _built(n, length)[0].box.by_cell


@pytest.mark.parametrize("kernel", [forward.pair_sums, adjoint.pair_forces], ids=lambda kernel: kernel.__name__)
def test_pair_loops_are_vectorised(kernel):
    names = inspect.signature(kernel.py_func).parameters
    kernel.compile(tuple(numba.int64 if name in ("k", "size") else numba.float64[::1] for name in names))
    (code,) = kernel.inspect_llvm().values()
    assert re.search(r"<\d+ x double> @llvm\.sqrt", code), "the pair loop runs one candidate at a time"


def test_fast_math_keeps_nan():
    assert np.isnan(forward.sums_to_residuals(np.array([1.0, np.nan]), 1.0, 10.0))
