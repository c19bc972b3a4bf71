"""JAX rows lower for CUDA on a machine without a GPU."""

import jax
import numpy as np
import pytest

from harness.problem import Problem
from harness.protocol import DTYPES
from harness.registry import load

N = 200
POSITIONS = np.random.default_rng(0).random((N, 2)) * Problem.of_size(N).box_length


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["jax_neighbor_list", "jax_cell_list", "jax_cell_list_adjoint", "enzyme_cell_list"])
def test_loss_and_gradient_lower_for_cuda(name, dtype):
    if name.startswith("enzyme"):
        pytest.importorskip("enzyme_ad")
    row = load(name)(Problem.of_size(N), POSITIONS, "cpu", dtype)
    x = jax.ShapeDtypeStruct((N, 2), dtype)
    for function, shape in (("loss", ()), ("grad", (N, 2))):
        # a custom call that JAX does not know to work on CUDA, a callback to the host among them, fails here
        exported = jax.export.export(jax.jit(row.traceable(function)), platforms=["cuda"])(x)
        assert exported.platforms == ("cuda",)
        value, status = exported.out_avals
        assert (value.shape, value.dtype) == (shape, dtype)
        assert (status.shape, status.dtype) == ((), np.int32)
