"""The gradient: adjoint.cpp, a gather that has Enzyme differentiate W, called from JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from implementations._shared.enzyme_call import call


def gradient(x: jax.Array, parameters: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(N, 2) positions, N > 0, and (8,) parameters -> ((N, 2) gradient, int32 status)."""
    outputs = (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((), jnp.int32))
    value, status = call("enzyme_pair/adjoint.cpp", "gradient", outputs, x, parameters)
    return value, status
