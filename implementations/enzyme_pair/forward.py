"""The forward pass: forward.cpp, called from JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from implementations._shared.enzyme_call import call


def loss(x: jax.Array, parameters: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(N, 2) positions, N > 0, and (8,) parameters -> (scalar loss, int32 status)."""
    outputs = (jax.ShapeDtypeStruct((), x.dtype), jax.ShapeDtypeStruct((), jnp.int32))
    value, status = call("enzyme_pair/forward.cpp", "loss", outputs, x, parameters)
    return value, status
