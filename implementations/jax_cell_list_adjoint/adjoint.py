"""The adjoint as a second gather over the same cells.

    dL/dx_i = sum_j 2 m (e_i + e_j) W'(r_ij)/r_ij (x_i - x_j),   e = rho - rho_0
    W'(r)   = sigma / h (3 u^2 - 3 t^2 / 4),   with u and t of `spline`

Both ends of a pair add to it, so each particle collects its own sum and nothing is scattered. XLA fuses a loop with
one output into a single vectorised pass, but splits one with two outputs into a pass per intermediate: one loop for
each axis costs half of what a joint one does, the distances computed twice notwithstanding.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from harness.problems.sph2d import Sph2d
from implementations._jax.box import distance
from implementations._jax.cells import separation, sort_by, sum_over_slots
from implementations.jax_cell_list_adjoint import forward


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def loss(problem: Sph2d, capacity: int, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`forward.loss` with `pullback` as its derivative: (loss, status) of (N, 2) positions."""
    value, _ = forward.loss(problem, capacity, x)
    return value


def spline_derivative(problem: Sph2d, r: jax.Array) -> jax.Array:
    """W'(r): r of any shape."""
    q = r / problem.smoothing_length
    t = jnp.maximum(2.0 - q, 0.0)
    u = jnp.maximum(1.0 - q, 0.0)
    return problem.kernel_normalisation / problem.smoothing_length * (3.0 * u**2 - 0.75 * t**2)


def pullback(
    problem: Sph2d, capacity: int, saved: forward.Saved, cotangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array]:
    """Cotangent of the positions.

    Args:
        problem: parameters.
        capacity: as in the forward pass.
        saved: the cells and the residuals e in cell order, (N,).
        cotangents: of the loss, a scalar; the status has none.

    Returns:
        (N, 2) in the original order.
    """
    cells, residual = saved

    def pair_force(j: jax.Array, axis: int) -> jax.Array:
        d = separation(problem, cells, j)
        r = distance(*d)
        return (residual + jnp.take(residual, j, mode="clip")) * (spline_derivative(problem, r) / r * d[axis])

    sums = [sum_over_slots(cells, capacity, partial(pair_force, axis=axis)) for axis in range(2)]
    _, position_in_order = sort_by(cells.order)
    return (2.0 * problem.mass * cotangents[0] * jnp.stack(sums, axis=1)[position_in_order],)


loss.defvjp(forward.loss, pullback)
