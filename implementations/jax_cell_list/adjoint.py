"""The gradient by JAX's reverse mode: gathers become scatter-adds; the loop over slots recomputes each step."""

from __future__ import annotations

import jax

from harness.contract.problem import Problem
from implementations.jax_cell_list.forward import loss


def gradient(problem: Problem, capacity: int, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(N, 2) gradient, and the status as `loss` returns it."""
    return jax.grad(loss, argnums=2, has_aux=True)(problem, capacity, x)
