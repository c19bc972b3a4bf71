"""What is particular to rows in JAX, whatever their cells or lists."""

import numpy as np
import pytest

from harness.contract.protocol import CapacityOverflowError
from harness.problems.sph2d import Sph2d
from implementations._jax import memory
from implementations._jax.row import find_device
from implementations.jax_cell_list.implementation import JaxCellList


def test_positions_handed_over_are_copied():
    positions = np.random.default_rng(3).random((60, 2)) * 5.0
    mine = positions.copy()
    row = JaxCellList(Sph2d(5.0), mine, "cpu", "float64")
    x = row.to_device(mine)
    mine[:] = 0.0
    np.testing.assert_array_equal(row.to_numpy(x), positions)


def test_positions_are_judged_as_rounded_to_the_precision_asked_for():
    limit = Sph2d(10.0).coordinate_limit("float32")
    positions = np.array([[np.nextafter(limit, 0.0), 1.0]])  # in float32 that is the limit itself
    with pytest.raises(ValueError, match="position row 0"):
        JaxCellList(Sph2d(10.0), positions, "cpu", "float32")


def test_more_than_the_memory_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda device: 99)
    device = find_device("cpu")
    memory.require_memory(device, "slots", 9, 11)
    with pytest.raises(CapacityOverflowError, match="10 slots need 110 bytes at least; 99 bytes are free"):
        memory.require_memory(device, "slots", 10, 11)
