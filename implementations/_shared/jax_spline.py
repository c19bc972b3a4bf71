"""The cubic spline W, its derivative, and the distances they are taken at, in JAX and branch-free.

With q = r / h, u = max(1 - q, 0) and t = max(2 - q, 0), Monaghan's two branches are one expression:

    W(r)      = sigma (t^3 / 4 - u^3)
    W'(r)     = sigma / h (3 u^2 - 3 t^2 / 4)

since t^3 / 4 - u^3 = 1 - 3 q^2 / 2 + 3 q^3 / 4 for q < 1. Both vanish for q >= 2.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from harness.contract.problem import Problem


def minimum_image(problem: Problem, d: jax.Array) -> jax.Array:
    """Nearest periodic image of differences of wrapped coordinates, |d| <= L; any shape."""
    length = problem.box_length
    return jnp.where(d > 0.5 * length, d - length, jnp.where(d < -0.5 * length, d + length, d))


def distance(dx: jax.Array, dy: jax.Array) -> jax.Array:
    """r of displacements of any shape; for r = 0 a tiny number, so that 1 / r is finite and r's gradient zero."""
    squared = dx * dx + dy * dy
    return jnp.sqrt(jnp.where(squared > 0.0, squared, jnp.finfo(squared.dtype).tiny))


def spline(problem: Problem, r: jax.Array) -> jax.Array:
    """W(r): r of any shape, in units of length; the result is in units of 1 / area."""
    q = r / problem.smoothing_length
    t = jnp.maximum(2.0 - q, 0.0)
    u = jnp.maximum(1.0 - q, 0.0)
    return problem.kernel_normalisation * (0.25 * t**3 - u**3)


def spline_derivative(problem: Problem, r: jax.Array) -> jax.Array:
    """W'(r): r of any shape."""
    q = r / problem.smoothing_length
    t = jnp.maximum(2.0 - q, 0.0)
    u = jnp.maximum(1.0 - q, 0.0)
    return problem.kernel_normalisation / problem.smoothing_length * (3.0 * u**2 - 0.75 * t**2)


def sum_of_squares(residual: jax.Array) -> jax.Array:
    """Sum of the squares of (N,) residuals, added up in float64, rounded to their dtype."""
    return jnp.sum(jnp.square(residual), dtype=jnp.float64).astype(residual.dtype)
