"""The gradient by JAX's reverse mode and the rules of `segment_ops`: the cotangent of a sum is a gather, in Warp."""

from __future__ import annotations

import jax
from jax_md import partition

from harness.contract.problem import Problem
from implementations.jax_segments.forward import loss


def gradient(problem: Problem, empty: partition.NeighborList, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(N, 2) gradient, and the status as `loss` returns it."""
    return jax.grad(loss, argnums=2, has_aux=True)(problem, empty, x)
