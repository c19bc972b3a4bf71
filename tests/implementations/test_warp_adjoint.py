"""What is particular to the Warp row with a hand-written adjoint, and what all Warp rows share."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
import warp as wp

from harness.check.oracle import reference
from harness.problems.sph2d import Sph2d
from implementations._warp.launch import Grid, compute_loss, partial_sum_count
from implementations._warp.loss import TILE
from implementations._warp.spline import spline_scale
from implementations.warp_adjoint.implementation import WarpAdjoint

PAIR = np.array([[2.0, 2.0], [2.5, 2.0]])


@pytest.fixture(autouse=True)
def _every_array_on_the_launch_device(monkeypatch):
    monkeypatch.setattr(wp.config, "launch_array_access_mode", wp.config.LaunchArrayAccessMode.STRICT)


def _positions(n, length, seed=0):
    return np.random.default_rng(seed).random((n, 2)) * length


def _row(problem, positions, dtype="float64"):
    row = WarpAdjoint(problem, positions, "cpu", dtype)
    return row, row.to_device(positions)


@pytest.mark.parametrize("cells_per_side", [1, 2, 3, 4, 7])
def test_stencil_visits_each_distinct_cell_once_and_each_pair_through_its_nearest_image(cells_per_side):
    problem = Sph2d(cells_per_side + 0.3)
    x = _positions(12 * cells_per_side**2, problem.box_length)
    right = reference("", problem, x)
    row, on_device = _row(problem, x)
    assert row.counts(on_device) == (right.counts.true_pairs, right.counts.stencil_pairs, 0)
    assert float(row.to_numpy(row.loss(on_device))) == pytest.approx(right.loss, rel=1e-12)
    gradient = row.to_numpy(row.grad(on_device))
    np.testing.assert_allclose(gradient, right.gradient, rtol=0, atol=1e-12 * right.gradient_scale)


def test_kernel_constants_are_double_precision():
    row, x = _row(Sph2d(10.0), np.array([[3.0, 4.0]]))
    loss = float(row.to_numpy(row.loss(x)))
    assert loss == pytest.approx((1.8189136353359467 - 10.0) ** 2, rel=1e-15)


def test_spline_scale_holds_mass_and_normalisation():
    problem = Sph2d(10.0, smoothing_length=0.1, mass=3.0)
    assert spline_scale(problem) * problem.cutoff**3 == pytest.approx(3.0 * 10.0 / (7.0 * math.pi * 0.01), rel=1e-15)


def test_to_device_and_to_numpy_copy():
    row, x = _row(Sph2d(10.0), PAIR)
    copy = row.to_numpy(x)
    x.fill_(7.0)
    np.testing.assert_array_equal(copy, PAIR)
    source = PAIR.copy()
    on_device = row.to_device(source)
    source[:] = 0.0
    np.testing.assert_array_equal(row.to_numpy(on_device), PAIR)


@pytest.mark.parametrize("n", [0, 1, TILE - 1, TILE, TILE + 1, TILE**2 + 3 * TILE + 5])
def test_loss_sums_every_tile_in_float64(n):
    residual = np.random.default_rng(1).random(n, np.float32) + np.float32(100.0)
    loss = wp.empty(1, dtype=wp.float32, device="cpu")
    partial_sums = wp.empty(partial_sum_count(n), dtype=wp.float64, device="cpu")
    residual_on_device = wp.array(residual, dtype=wp.float32, device="cpu")
    compute_loss(Grid(Sph2d.of_size(n), n, "float32"), residual_on_device, partial_sums, loss)
    assert float(loss.numpy()[0]) == pytest.approx(math.fsum(residual.astype(np.float64) ** 2), rel=1e-7)


def test_pull_of_a_close_pair_keeps_its_precision():
    """Both terms of W' nearly cancel where r is small against h."""
    problem = Sph2d(10.0)
    x = np.array([[2.0, 2.0], [2.0 + 1e-9, 2.0 - 2e-9]])
    right = reference("", problem, x)
    row, on_device = _row(problem, x)
    np.testing.assert_allclose(
        row.to_numpy(row.grad(on_device)), right.gradient, rtol=0, atol=1e-15 * problem.kernel_normalisation * 100.0
    )


@pytest.mark.thorough
def test_broken_kernel_fails_at_every_launch():
    @wp.func_native("this is no C++;")
    def broken_function(x: wp.float64) -> wp.float64: ...

    @wp.kernel(module="unique")
    def broken_kernel(x: wp.array[wp.float64]):
        x[0] = broken_function(x[0])

    x = wp.zeros(1, dtype=wp.float64, device="cpu")
    for _ in range(3):
        with pytest.raises(Exception, match="build failed"):
            wp.launch(broken_kernel, 1, [x], device="cpu")


_WORKER = """
import numpy as np
from harness.problems.sph2d import Sph2d
from implementations.warp_adjoint.implementation import WarpAdjoint
row = WarpAdjoint(Sph2d(10.0), np.zeros((2, 2)), "cpu", "float64")
print(float(row.to_numpy(row.grad(row.to_device(np.array([[2.0, 2.0], [2.5, 2.0]]))))[1, 0]))
"""


@pytest.mark.slow
def test_processes_that_compile_at_once_into_one_empty_cache_are_all_right(tmp_path):
    environment = {**os.environ, "WARP_CACHE_PATH": str(tmp_path)}
    command = [sys.executable, "-c", _WORKER]
    workers = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    outputs = [worker.communicate(timeout=300)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 8
    assert [float(output) for output in outputs] == pytest.approx([84.32146702407408] * 8, rel=1e-12)
