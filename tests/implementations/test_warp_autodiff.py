"""What is particular to the Warp row with Warp's own reverse mode."""

import numpy as np
import pytest
import warp as wp

from harness.check.oracle import reference
from harness.problems.sph2d import Sph2d
from implementations.warp_autodiff.implementation import WarpAutodiff

PAIR = np.array([[2.0, 2.0], [2.5, 2.0]])
PULL = 84.32146702407408


def _row(positions, dtype="float64", length=10.0):
    row = WarpAutodiff(Sph2d(length), positions, "cpu", dtype)
    return row, row.to_device(positions)


def test_square_is_differentiated_at_the_finished_sum():
    """Density and loss in one kernel would give 89.28: the residual at the density before the loop."""
    row, x = _row(PAIR)
    np.testing.assert_allclose(row.to_numpy(row.grad(x)), [[-PULL, 0.0], [PULL, 0.0]], rtol=1e-12, atol=1e-12)


def test_positions_are_left_as_they_were():
    row, x = _row(PAIR)
    row.grad(x)
    np.testing.assert_array_equal(row.to_numpy(x), PAIR)
    assert not x.requires_grad
    with_gradient = wp.array(PAIR, dtype=wp.vec2d, device="cpu", requires_grad=True)
    row.grad(with_gradient)
    assert not with_gradient.grad.numpy().any()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_coincident_particles_have_no_gradient_between_them(dtype):
    positions = np.array([[2.0, 2.0], [2.0, 2.0], [2.5, 2.0]])
    row, x = _row(positions, dtype)
    right = reference("", Sph2d(10.0), positions)
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(row.to_numpy(row.grad(x)), right.gradient, rtol=0, atol=tolerance * right.gradient_scale)


@pytest.mark.parametrize("length", [1.0, 2.0, 10.0])
def test_tape_runs_through_the_nearest_image_in_small_boxes(length):
    positions = np.random.default_rng(3).random((40, 2)) * length - 0.3
    row, x = _row(positions, length=length)
    right = reference("", Sph2d(length), positions)
    np.testing.assert_allclose(row.to_numpy(row.grad(x)), right.gradient, rtol=0, atol=1e-12 * right.gradient_scale)
