"""The periodic box in JAX: wrapping, nearest images, distances."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from harness.contract.problem import Problem


def wrap(problem: Problem, x: jax.Array) -> jax.Array:
    """Positions in [0, L) by the exact remainder; one that rounds up to L stays there, in the last cell."""
    return jnp.mod(x, problem.box_length)


def minimum_image(problem: Problem, d: jax.Array) -> jax.Array:
    """Nearest periodic image of differences of wrapped coordinates, |d| <= L; any shape."""
    length = problem.box_length
    return jnp.where(d > 0.5 * length, d - length, jnp.where(d < -0.5 * length, d + length, d))


def distance(dx: jax.Array, dy: jax.Array) -> jax.Array:
    """r of displacements of any shape; for r = 0 a tiny number, so that 1 / r is finite and r's gradient zero."""
    squared = dx * dx + dy * dy
    return jnp.sqrt(jnp.where(squared > 0.0, squared, jnp.finfo(squared.dtype).tiny))
