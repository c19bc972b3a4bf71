"""Three thousand particles in one cell, and as many in a box two cells wide: nine million pairs, and right in all rows.

Minutes, for compiling: `make test-slow`.
"""

import numpy as np
import pytest

from harness.check.oracle import reference
from harness.contract import registry
from harness.contract.protocol import UnavailableError
from harness.problems.sph2d import Sph2d

N = 3_000
INPUTS = {
    "one cell": (Sph2d.of_size(N), np.random.default_rng(0).random((N, 2))),
    "box two cells wide": (Sph2d(2.5), np.random.default_rng(1).random((N, 2)) * 2.5),
}


@pytest.fixture(scope="module", params=INPUTS)
def right(request):
    return reference(request.param, *INPUTS[request.param])


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.names())
def test_crowded_particles_are_right(name, right):
    try:
        row = registry.load(name)(right.problem, right.positions, "cpu", "float64")
    except (UnavailableError, ModuleNotFoundError) as error:
        pytest.skip(str(error))
    x = row.to_device(right.positions)
    assert float(row.to_numpy(row.loss(x))) == pytest.approx(right.loss, rel=1e-12)
    gradient = row.to_numpy(row.grad(x))
    np.testing.assert_allclose(gradient, right.gradient, rtol=0, atol=1e-12 * right.gradient_scale)
    counted = row.counts(x)
    assert (counted.true_pairs, counted.pair_slots) == (right.counts.true_pairs, row.expected_pair_slots(right.counts))
