"""Statistics of samples."""

import pytest

from harness.contract.samples import FLOOR_S_PER_SLOT, Samples


def test_median_and_interquartile_range():
    samples = Samples([4.0, 1.0, 3.0, 2.0, 100.0])
    assert (samples.median, samples.iqr, samples.spread) == (3.0, 2.0, pytest.approx(2 / 3))
    assert Samples([1.0]).iqr == 0.0


def test_floor_counts_slots_and_cores():
    samples = Samples([1e-3, 1.0])
    assert not samples.below_floor(int(0.9e-3 / FLOOR_S_PER_SLOT), 1)
    assert samples.below_floor(int(1.1e-3 / FLOOR_S_PER_SLOT), 1)
    assert not samples.below_floor(int(1.1e-3 / FLOOR_S_PER_SLOT), 2)
