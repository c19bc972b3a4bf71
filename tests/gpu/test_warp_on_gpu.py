"""On a GPU: what a Warp row does with positions that lie elsewhere."""

import numpy as np
import pytest

from harness.problems.sph2d import Sph2d
from harness.run import machine

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not machine.cuda_devices(), reason="no NVIDIA GPU")]
PAIR = np.array([[2.0, 2.0], [2.5, 2.0]])


@pytest.mark.parametrize(("built_for", "given"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_positions_on_another_device_are_refused(built_for, given):
    wp = pytest.importorskip("warp")
    from implementations.warp_adjoint.implementation import WarpAdjoint

    row = WarpAdjoint(Sph2d(10.0), PAIR, built_for, "float64")
    with pytest.raises(ValueError, match=rf"{given}.*{built_for}"):
        row.loss(wp.array(PAIR, dtype=wp.vec2d, device=given))
