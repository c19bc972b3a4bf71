"""JAX rows lower for CUDA on a machine without a GPU."""

import re

import jax
import numpy as np
import pytest
from selection import thorough

from harness.contract.registry import load
from harness.problems.sph2d import Sph2d

N = 200
POSITIONS = np.random.default_rng(0).random((N, 2)) * Sph2d.of_size(N).box_length
PURE = ["jax_neighbor_list", "jax_cell_list", "jax_cell_list_adjoint", "enzyme_cell_list"]
CALLING_WARP = ["jax_segments", "jax_warp_adjoint"]


@pytest.mark.parametrize("dtype", thorough(["float64", "float32"], few=["float64"]))
@pytest.mark.parametrize("name", thorough([*PURE, *CALLING_WARP], few=["jax_cell_list_adjoint", "jax_warp_adjoint"]))
def test_loss_and_gradient_lower_for_cuda(name, dtype):
    if name.startswith("enzyme"):
        pytest.importorskip("enzyme_ad")
    row = load(name)(Sph2d.of_size(N), POSITIONS, "cpu", dtype)
    x = jax.ShapeDtypeStruct((N, 2), dtype)
    for function, shape in (("loss", ()), ("grad", (N, 2))):
        traced = jax.jit(row.traceable(function))
        # a custom call that JAX does not know to work on CUDA, a callback to the host among them, fails here
        warps = _foreign_calls(traced, x) if name in CALLING_WARP else []
        assert bool(warps) == (name in CALLING_WARP)
        checks = [jax.export.DisabledSafetyCheck.custom_call(target) for target in warps]
        exported = jax.export.export(traced, platforms=["cuda"], disabled_checks=checks)(x)
        assert exported.platforms == ("cuda",)
        value, status = exported.out_avals
        assert (value.shape, value.dtype) == (shape, dtype)
        assert (status.shape, status.dtype) == ((), np.int32)


def _foreign_calls(traced, x):
    """Targets of the calls to Warp when lowered for CUDA, each of which has a number of its own."""
    lowered = traced.trace(x).lower(lowering_platforms=("cuda",)).as_text()
    return sorted(set(re.findall(r"custom_call @(\w*(?:segment_product|launch)\w*)", lowered)))
