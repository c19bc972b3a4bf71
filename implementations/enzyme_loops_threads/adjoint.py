"""The gradient of a range of slots: adjoint.cpp, where Enzyme differentiates the pipeline, called from JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from implementations._shared.enzyme_call import call


def gradient(x: jax.Array, slots: jax.Array, parameters: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Arguments as of `loss` -> ((N, 2) gradient of their part of the loss, int32 status)."""
    outputs = (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((), jnp.int32))
    value, status = call("enzyme_loops_threads/adjoint.cpp", "gradient", outputs, x, parameters, slots)
    return value, status
