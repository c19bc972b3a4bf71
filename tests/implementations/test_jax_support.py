"""The protocol every JAX row follows, shown on the padded cell list."""

import jax
import numpy as np
import pytest
from implementations._shared import jax_support

from harness.check.oracle import reference
from harness.contract.problem import InvalidPositionsError, Problem
from harness.contract.protocol import CapacityOverflowError, UnavailableError
from implementations.jax_cell_list.implementation import JaxCellList

PROBLEM = Problem(5.0)
N = 60
POSITIONS = np.random.default_rng(3).random((N, 2)) * PROBLEM.box_length


@pytest.fixture(scope="module")
def row():
    return JaxCellList(PROBLEM, POSITIONS, "cpu", "float64")


@pytest.mark.parametrize(
    "x",
    [
        lambda row: row.to_device(POSITIONS[:-1]),
        lambda row: row.to_device(POSITIONS).astype("float32"),
        lambda row: POSITIONS,
    ],
    ids=["shape", "dtype", "not on a device"],
)
def test_other_arrays_than_built_for_are_refused(row, x):
    with pytest.raises(ValueError, match=r"positions are .*(built for|expected)"):
        row.loss(x(row))


def test_bad_position_is_named(row):
    bad = POSITIONS.copy()
    bad[7, 1] = np.nan
    for call in (row.loss, row.grad):
        with pytest.raises(InvalidPositionsError, match="row 7"):
            call(row.to_device(bad))


@pytest.mark.skipif(any(d.platform == "gpu" for d in jax.devices()), reason="there is a CUDA device")
def test_cuda_without_a_device_is_unavailable():
    with pytest.raises(UnavailableError, match="no CUDA device"):
        JaxCellList(PROBLEM, POSITIONS, "cuda", "float64")


def test_positions_handed_over_are_copied(row):
    mine = POSITIONS.copy()
    x = row.to_device(mine)
    mine[:] = 0.0
    np.testing.assert_array_equal(row.to_numpy(x), POSITIONS)


def test_moved_positions_are_seen_and_need_no_compilation():
    row = JaxCellList(PROBLEM, POSITIONS, "cpu", "float64")
    x = row.to_device(POSITIONS)
    row.compile_forward(x)
    row.compile_gradient(x)
    first = row.grad(x)
    kept = row.to_numpy(first)
    moved = POSITIONS + np.random.default_rng(4).normal(scale=1e-3, size=(N, 2))
    right = reference("", PROBLEM, moved)
    assert float(row.loss(row.to_device(moved))) == pytest.approx(right.loss, rel=1e-12)
    gradient = row.to_numpy(row.grad(row.to_device(moved)))
    np.testing.assert_allclose(gradient, right.gradient, rtol=0, atol=1e-12 * right.gradient_scale)
    assert right.loss != pytest.approx(float(row.loss(x)), rel=1e-6)
    np.testing.assert_array_equal(row.to_numpy(first), kept)
    assert (row.recompilations, row.reallocations) == (0, 0)


def test_more_than_the_memory_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(jax_support, "free_bytes", lambda device: 99)
    device = jax_support.find_device("cpu")
    jax_support.require_memory(device, "slots", 9, 11)
    with pytest.raises(CapacityOverflowError, match="10 slots need 110 bytes at least; 99 bytes are free"):
        jax_support.require_memory(device, "slots", 10, 11)
