"""The forward pass over a range of slots: forward.cpp, called from JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from implementations._shared.enzyme_call import call


def loss(x: jax.Array, slots: jax.Array, parameters: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(N, 2) positions, N > 0, (2,) int32 first and last slot, (8,) parameters -> (their part of the loss, status)."""
    outputs = (jax.ShapeDtypeStruct((), x.dtype), jax.ShapeDtypeStruct((), jnp.int32))
    value, status = call("enzyme_loops_threads/forward.cpp", "loss", outputs, x, parameters, slots)
    return value, status
