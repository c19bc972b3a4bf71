"""What is particular to the row that sums the pair list by a segment operation."""

import jax
import numpy as np
import pytest

from harness.check.oracle import reference
from harness.problems.sph2d import Sph2d
from implementations.jax_segments.implementation import JaxSegments

PROBLEM = Sph2d(5.0)
N = 120
SPREAD = np.random.default_rng(0).random((N, 2)) * PROBLEM.box_length
CROWDED = np.random.default_rng(1).random((N, 2)) * 2.0 * PROBLEM.cutoff


def _foreign_calls(row, name):
    text = jax.jit(row.traceable(name)).lower(jax.ShapeDtypeStruct((N, 2), row.dtype)).as_text()
    return sum("custom_call @" in line for line in text.splitlines())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_sum_and_its_cotangent_are_warp_kernels(dtype):
    row = JaxSegments(PROBLEM, SPREAD, "cpu", dtype)
    assert _foreign_calls(row, "loss") == 1
    assert _foreign_calls(row, "grad") == 2


@pytest.mark.thorough
def test_full_list_reallocates_and_is_counted():
    row = JaxSegments(PROBLEM, SPREAD, "cpu", "float64")
    right = reference("", PROBLEM, CROWDED)
    x = row.to_device(CROWDED)
    row.compile_gradient(x)
    np.testing.assert_allclose(row.to_numpy(row.grad(x)), right.gradient, rtol=0, atol=1e-12 * right.gradient_scale)
    assert float(row.loss(x)) == pytest.approx(right.loss, rel=1e-12)
    assert row.capacity == int(1.25 * right.counts.true_pairs) == row.counts(x).pair_slots
    assert row.counts(x).true_pairs == right.counts.true_pairs
    assert (row.reallocations, row.recompilations) == (1, 1)


def test_padded_slots_count_for_nothing():
    x = np.array([[2.0, 2.0], [2.5, 2.0], [7.0, 7.0]])
    row = JaxSegments(Sph2d(10.0), x, "cpu", "float64", capacity_multiplier=3.0)
    right = reference("", Sph2d(10.0), x)
    assert row.capacity > right.counts.true_pairs
    assert float(row.loss(row.to_device(x))) == pytest.approx(right.loss, rel=1e-12)
    np.testing.assert_allclose(row.to_numpy(row.grad(row.to_device(x))), right.gradient, atol=1e-12)
