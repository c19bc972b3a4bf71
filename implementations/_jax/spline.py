"""The cubic spline W and the loss in JAX, branch-free.

With q = r / h, u = max(1 - q, 0) and t = max(2 - q, 0), Monaghan's two branches are one expression:

    W(r) = sigma (t^3 / 4 - u^3)

since t^3 / 4 - u^3 = 1 - 3 q^2 / 2 + 3 q^3 / 4 for q < 1. It vanishes for q >= 2.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from harness.problems.sph2d import Sph2d


def spline(problem: Sph2d, r: jax.Array) -> jax.Array:
    """W(r): r of any shape, in units of length; the result is in units of 1 / area."""
    q = r / problem.smoothing_length
    t = jnp.maximum(2.0 - q, 0.0)
    u = jnp.maximum(1.0 - q, 0.0)
    return problem.kernel_normalisation * (0.25 * t**3 - u**3)


def sum_of_squares(residual: jax.Array) -> jax.Array:
    """Sum of the squares of (N,) residuals, added up in float64, rounded to their dtype."""
    return jnp.sum(jnp.square(residual), dtype=jnp.float64).astype(residual.dtype)
