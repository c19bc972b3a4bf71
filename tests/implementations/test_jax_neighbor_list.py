"""What is particular to the row over jax-md's neighbour list."""

import numpy as np
import pytest
from selection import thorough

from harness.check.oracle import reference
from harness.contract.protocol import CapacityOverflowError
from harness.problems.sph2d import Sph2d
from implementations._jax import memory
from implementations._jax.pair_list import search_box, searches_all_pairs
from implementations.jax_neighbor_list.implementation import JaxNeighborList

PROBLEM = Sph2d(5.0)
N = 120
SPREAD = np.random.default_rng(0).random((N, 2)) * PROBLEM.box_length
CROWDED = np.random.default_rng(1).random((N, 2)) * 2.0 * PROBLEM.cutoff


@pytest.mark.thorough
def test_full_list_reallocates_and_is_counted():
    row = JaxNeighborList(PROBLEM, SPREAD, "cpu", "float64")
    capacity = row.capacity
    right = reference("", PROBLEM, CROWDED)
    x = row.to_device(CROWDED)
    row.compile_gradient(x)
    np.testing.assert_allclose(row.to_numpy(row.grad(x)), right.gradient, rtol=0, atol=1e-12 * right.gradient_scale)
    assert float(row.loss(x)) == pytest.approx(right.loss, rel=1e-12)
    assert capacity < row.capacity == int(1.25 * right.counts.true_pairs) == row.counts(x).pair_slots
    assert row.counts(x).true_pairs == right.counts.true_pairs
    assert (row.reallocations, row.recompilations) == (1, 1)


def test_list_is_rebuilt_for_particles_that_came_closer():
    row = JaxNeighborList(Sph2d(10.0), np.array([[2.0, 2.0], [5.0, 2.0]]), "cpu", "float64")
    assert float(row.loss(row.to_device(np.array([[2.0, 2.0], [5.0, 2.0]])))) == pytest.approx(133.860348212184)
    assert float(row.loss(row.to_device(np.array([[2.0, 2.0], [2.5, 2.0]])))) == pytest.approx(119.393214523237)


@pytest.mark.parametrize("multiplier", thorough([1.05, 2.0], few=[2.0]))
def test_capacity_multiplier_is_an_option(multiplier):
    row = JaxNeighborList(PROBLEM, SPREAD, "cpu", "float64", capacity_multiplier=multiplier)
    right = reference("", PROBLEM, SPREAD)
    assert row.capacity == int(multiplier * right.counts.true_pairs) == row.expected_pair_slots(right.counts)
    assert float(row.loss(row.to_device(SPREAD))) == pytest.approx(right.loss, rel=1e-12)


@pytest.mark.parametrize("length", thorough([1e4, 46341.0, 1e6], few=[1e6]))
def test_huge_box_searches_pairs_not_cells(length):
    x = np.array([[500.0, 2.0], [500.5, 2.0]])
    row = JaxNeighborList(Sph2d(length), x, "cpu", "float64")
    assert row.counts(row.to_device(x)).search_slots == 4
    assert float(row.loss(row.to_device(x))) == pytest.approx(119.393214523237)


def test_search_slots_are_nine_padded_cells_each():
    row = JaxNeighborList(PROBLEM, SPREAD, "cpu", "float64")
    fullest = reference("", PROBLEM, SPREAD).counts.max_occupancy
    assert row.counts(row.to_device(SPREAD)).search_slots == 9 * int(1.25 * fullest) * N


def test_search_that_cannot_be_held_is_refused_before_it_is_allocated(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda device: 16 * 2**30)
    clump = np.random.default_rng(0).random((20000, 2))
    with pytest.raises(CapacityOverflowError, match=r"4500000000 candidates .* need \d+ bytes"):
        JaxNeighborList(Sph2d.of_size(20000), clump, "cpu", "float64")


def test_search_cells_are_no_narrower_than_the_support_however_l_rounds_to_float32():
    for length in (10.0, np.nextafter(10.0, 11.0), np.nextafter(10.0, 9.0), 16777217.0):
        assert search_box(Sph2d(length)) <= length
        assert np.float32(search_box(Sph2d(length))) == search_box(Sph2d(length))


def test_cells_are_searched_where_they_are_fewer_than_pairs():
    assert not searches_all_pairs(Sph2d.of_size(1000), 1000)
    assert searches_all_pairs(Sph2d(3.0), 1000)  # jax-md needs more than three cells a side
    assert searches_all_pairs(Sph2d(1000.0), 1000)
