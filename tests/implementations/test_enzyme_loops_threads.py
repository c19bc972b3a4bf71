"""Ranges of the outer loop add up to the whole, however many threads there are."""

import os

import numpy as np
import pytest
from selection import thorough

pytest.importorskip("enzyme_ad")

from harness.check.oracle import reference
from harness.contract.problem import InvalidPositionsError
from harness.problems.sph2d import Sph2d, clustered_positions
from implementations.enzyme_loops.implementation import EnzymeLoops
from implementations.enzyme_loops_threads.implementation import EnzymeLoopsThreads

N = 4000
PROBLEM = Sph2d.of_size(N)


@pytest.fixture(params=thorough([1, 2, 3, 7], few=[3]))
def threads(request, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(request.param)))
    return request.param


@pytest.mark.parametrize("dtype", thorough(["float64", "float32"], few=["float64"]))
def test_threads_give_the_gradient_of_one_call(threads, dtype):
    x = clustered_positions(N).astype(dtype)
    row, whole = (kind(PROBLEM, x, "cpu", dtype) for kind in (EnzymeLoopsThreads, EnzymeLoops))
    assert len(row.ranges) == threads
    scale = reference("clustered", PROBLEM, x).gradient_scale
    got, expected = (r.to_numpy(r.grad(r.to_device(x))) for r in (row, whole))
    eps = float(np.finfo(dtype).eps)
    assert np.abs(got - expected).max() <= 8 * eps * scale
    assert float(row.loss(row.to_device(x))) == pytest.approx(
        float(whole.loss(whole.to_device(x))), rel=64 * eps
    )  # sums of N terms


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_fewer_particles_than_threads(threads, n):
    x = np.full((n, 2), 3.0) + 0.1 * np.arange(n)[:, None]
    row = EnzymeLoopsThreads(Sph2d(10.0), x, "cpu", "float64")
    expected = reference("few", Sph2d(10.0), x)
    assert float(row.loss(row.to_device(x))) == pytest.approx(expected.loss, rel=1e-12)
    assert np.abs(row.to_numpy(row.grad(row.to_device(x))) - expected.gradient).max(initial=0) <= 1e-10


def test_infinite_position_of_the_last_range_is_refused(threads):
    x = clustered_positions(N)
    row = EnzymeLoopsThreads(PROBLEM, x, "cpu", "float64")
    x[N - 1, 1] = np.inf
    with pytest.raises(InvalidPositionsError, match=f"row {N - 1}"):
        row.grad(row.to_device(x))
