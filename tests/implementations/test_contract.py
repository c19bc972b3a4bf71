"""What the protocol promises and the gate does not ask, of every row and of the template; each is built once."""

from pathlib import Path

import numpy as np
import pytest

from harness.contract import registry
from harness.contract.problem import InvalidPositionsError
from harness.contract.protocol import Implementation, UnavailableError
from harness.problems.sph2d import Sph2d

TEMPLATE = Path(__file__).parents[2] / "docs" / "template.py"
N = 40
PROBLEM = Sph2d(4.0)
POSITIONS = np.random.default_rng(0).random((N, 2)) * PROBLEM.box_length
MOVED = POSITIONS + np.random.default_rng(1).normal(scale=1e-3, size=(N, 2))
"""The same particles, none in another cell: what was sized for one input fits the other."""


@pytest.fixture(scope="module", params=[*registry.names(), str(TEMPLATE)], ids=registry.row_name)
def row(request) -> Implementation:
    try:
        built = registry.load(request.param)(PROBLEM, POSITIONS, "cpu", "float64")
    except (UnavailableError, ModuleNotFoundError) as error:
        pytest.skip(str(error))
    x = built.to_device(POSITIONS)
    built.compile_forward(x)
    built.compile_gradient(x)
    return built


def _calls(row):
    return row.loss, row.grad, row.counts


def _in_float32(row):
    """The positions as the row's framework holds them in another precision."""
    return type(row)(PROBLEM, np.zeros((0, 2)), "cpu", "float32").to_device(POSITIONS.astype("float32"))


def test_moved_positions_are_in_the_same_cells():
    side = PROBLEM.cells_per_side(N)
    cells = [PROBLEM.cell_coordinates(x, side) for x in (POSITIONS, MOVED)]
    assert np.array_equal(*cells)


@pytest.mark.parametrize(
    "make",
    [
        lambda row: row.to_device(POSITIONS[:-1]),
        lambda row: row.to_device(np.concatenate([POSITIONS, POSITIONS])),
        _in_float32,
        lambda row: POSITIONS.tolist(),
    ],
    ids=["fewer", "more", "float32", "no array"],
)
def test_arrays_it_was_not_built_for_are_refused_with_both_named(row, make):
    for call in _calls(row):
        with pytest.raises(ValueError, match=r"positions are .*; this row was built for "):
            call(make(row))


def test_a_device_it_was_not_built_for_is_refused(row, monkeypatch):
    """A device that is not there stands for another: what it is built for is changed, not where the positions lie."""
    if not hasattr(row, "device"):
        pytest.skip("has one device")
    x = row.to_device(POSITIONS)
    monkeypatch.setattr(row, "device", "elsewhere")
    for call in _calls(row):
        with pytest.raises(ValueError, match=r"positions are on .*; this row was built for elsewhere"):
            call(x)


def test_positions_without_a_place_in_the_box_are_refused_and_forgotten(row):
    right = row.to_numpy(row.grad(row.to_device(POSITIONS)))
    bad = POSITIONS.copy()
    bad[7, 1] = np.nan
    for call in _calls(row):
        with pytest.raises(InvalidPositionsError, match="position row 7"):
            call(row.to_device(bad))
    np.testing.assert_array_equal(row.to_numpy(row.grad(row.to_device(POSITIONS))), right)


def test_results_outlive_the_next_call(row):
    x, moved = row.to_device(POSITIONS), row.to_device(MOVED)
    loss, gradient = row.loss(x), row.grad(x)
    kept = row.to_numpy(loss), row.to_numpy(gradient)
    copies = tuple(np.array(each) for each in kept)
    row.loss(moved)
    row.grad(moved)
    for now, then in zip((*kept, row.to_numpy(loss), row.to_numpy(gradient)), copies * 2, strict=True):
        np.testing.assert_array_equal(now, then)


def test_equal_calls_give_equal_bits(row):
    x = row.to_device(POSITIONS)
    first = row.to_numpy(row.loss(x)), row.to_numpy(row.grad(x))
    for _ in range(3):
        np.testing.assert_array_equal(row.to_numpy(row.grad(x)), first[1])
        np.testing.assert_array_equal(row.to_numpy(row.loss(x)), first[0])


def test_moved_positions_are_seen_and_compile_nothing(row):
    before = row.recompilations, row.reallocations
    loss, gradient = (row.to_numpy(call(row.to_device(POSITIONS))) for call in (row.loss, row.grad))
    moved_loss, moved_gradient = (row.to_numpy(call(row.to_device(MOVED))) for call in (row.loss, row.grad))
    assert moved_loss != loss
    assert (moved_gradient != gradient).any()
    assert (row.recompilations, row.reallocations) == before == (0, 0)


def test_positions_are_left_as_they_were(row):
    mine = POSITIONS.copy()
    x = row.to_device(mine)
    for call in _calls(row):
        call(x)
    np.testing.assert_array_equal(row.to_numpy(x), POSITIONS)
    np.testing.assert_array_equal(mine, POSITIONS)
