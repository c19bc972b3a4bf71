"""Every row in other units of length and mass: right, or refused with the limits named; never zeros without a word.

With lengths in units u and masses in units w, densities go with d = w / u^2, the loss with d^2, the gradient with
d^2 / u: what the oracle says in one system of units it says in all.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
from selection import thorough

from harness.check.judgement import tolerance
from harness.check.oracle import reference
from harness.check.reference import Reference
from harness.contract import registry
from harness.contract.problem import FloatArray
from harness.contract.protocol import Dtype, UnavailableError
from harness.problems.sph2d import Sph2d

ROWS = [*registry.names(), str(Path(__file__).parents[2] / "docs" / "template.py")]
SOON_COMPILED = {"warp_adjoint", "torch_index_add", "enzyme_pair", ROWS[-1]}
LARGEST = float(np.finfo(np.float32).max)
LONGEST, DENSEST = 0.9 * LARGEST ** (1 / 8), 0.9 * LARGEST ** (1 / 4)
"""Nearly the largest h and the largest densities that float32 is let have; their inverses are nearly the smallest."""


@functools.cache
def right(dtype: Dtype) -> Reference:
    """What the oracle says of a hundred particles where h is 1 and rest_density 10."""
    problem = Sph2d(8.0, smoothing_length=1.0)
    return reference("", problem, (np.random.default_rng(0).random((100, 2)) * problem.box_length).astype(dtype))


def called_in_units(name: str, length: float, density: float, dtype: Dtype) -> tuple[float, FloatArray]:
    """A row's loss and gradient of that input with h = length and rest_density = 10 density."""
    problem = Sph2d(
        right(dtype).problem.box_length * length,
        smoothing_length=length,
        mass=density * length**2,
        rest_density=10.0 * density,
    )
    positions = (right(dtype).positions.astype(np.float64) * length).astype(dtype)
    try:
        row = registry.load(name)(problem, positions, "cpu", dtype)
    except (UnavailableError, ModuleNotFoundError) as error:
        pytest.skip(str(error))
    x = row.to_device(positions)
    return float(row.to_numpy(row.loss(x))), row.to_numpy(row.grad(x)).astype(np.float64)


@pytest.mark.parametrize(
    ("dtype", "length", "density"),
    [
        pytest.param("float64", 0.5e-12, 4e24, marks=pytest.mark.thorough),  # of mass 1
        pytest.param("float64", 3e16, 1.0 / 9e32, marks=pytest.mark.thorough),
        ("float32", LONGEST, 3.0 / DENSEST),  # the smallest gradient: sigma is near a half
        pytest.param("float32", 1.0 / LONGEST, DENSEST / 10.0, marks=pytest.mark.thorough),  # the largest
    ],
)
@pytest.mark.parametrize("name", thorough(ROWS, few=SOON_COMPILED), ids=registry.row_name)
def test_loss_and_gradient_follow_the_units(name: str, dtype: Dtype, length: float, density: float) -> None:
    loss, gradient = called_in_units(name, length, density, dtype)
    loss, gradient = loss / density**2, gradient / density**2 * length
    limit = max(tolerance(right(dtype).problem, dtype), 1e-11 if dtype == "float64" else 0.0)
    assert loss == pytest.approx(right(dtype).loss, rel=limit)
    assert np.abs(gradient - right(dtype).gradient).max() <= limit * right(dtype).gradient_scale


@pytest.mark.parametrize("length", [0.5e-12, 0.5e9, 3e16])
@pytest.mark.parametrize("name", ROWS, ids=registry.row_name)
def test_lengths_whose_powers_float32_cannot_hold_are_refused(name: str, length: float) -> None:
    words = r"smoothing_length is .*; in float32 it must lie between 1.5e-05 and 6.6e\+04: choose units of length"
    with pytest.raises(ValueError, match=words):
        called_in_units(name, length, 1.0, "float32")
