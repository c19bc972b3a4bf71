"""Warp rows on the CPU with blocks of cooperating threads, as a GPU runs them: one thread a block hides mistakes."""

import numpy as np
import pytest
import warp as wp

from harness.check.oracle import reference
from harness.problems.sph2d import Sph2d
from implementations._warp.loss import TILE
from implementations.warp_adjoint.implementation import WarpAdjoint
from implementations.warp_autodiff.implementation import WarpAutodiff


@pytest.mark.thorough
@pytest.mark.parametrize("row_type", [WarpAdjoint, WarpAutodiff])
@pytest.mark.parametrize("n", [1, 2 * TILE + 7])
def test_blocks_of_threads_give_loss_and_gradient(monkeypatch, row_type, n):
    monkeypatch.setattr(wp.config, "enable_cpu_blocks", True)
    problem = Sph2d.of_size(n)
    positions = np.random.default_rng(0).random((n, 2)) * problem.box_length
    right = reference("", problem, positions)
    row = row_type(problem, positions, "cpu", "float64")
    x = row.to_device(positions)
    assert float(row.to_numpy(row.loss(x))) == pytest.approx(right.loss, rel=1e-12)
    for _ in range(2):
        gradient = row.to_numpy(row.grad(x))
        np.testing.assert_allclose(gradient, right.gradient, rtol=0, atol=1e-12 * right.gradient_scale)
