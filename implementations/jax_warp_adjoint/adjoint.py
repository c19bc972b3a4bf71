"""The derivative of the foreign call: another one, which launches warp_adjoint's gathering adjoint kernel.

rho_i = sum_j m W(|x_i - x_j|)        loss = sum_i (rho_i - rho_0)^2
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax

from implementations._jax.row import status_of
from implementations._warp.launch import Grid
from implementations.jax_warp_adjoint.launch import forward_call, gradient_call


class Saved(NamedTuple):
    """What the adjoint needs: the arrays of a `CellList` and the residual in cell order."""

    cells: jax.Array
    order: jax.Array
    starts: jax.Array
    xs: jax.Array
    ys: jax.Array
    status: jax.Array
    residual: jax.Array


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def loss(grid: Grid, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Loss, a scalar of the grid's dtype, and status of (N, 2) positions, N > 0; its derivative is `pullback`."""
    value, _ = forward(grid, x)
    return value


def forward(grid: Grid, x: jax.Array) -> tuple[tuple[jax.Array, jax.Array], Saved]:
    """(loss, status), and what the adjoint needs."""
    *saved, _, value = forward_call(grid)(x)
    return (value[0], status_of(grid.problem, x)), Saved(*saved)


def pullback(grid: Grid, saved: Saved, cotangents: tuple[jax.Array, jax.Array]) -> tuple[jax.Array]:
    """Cotangent of the positions.

    Args:
        grid: parameters.
        saved: from the forward pass.
        cotangents: of the loss, a scalar; the status has none.

    Returns:
        (N, 2) in the order of the positions.
    """
    _, gradient = gradient_call(grid)(*saved)
    return (cotangents[0] * gradient,)


loss.defvjp(forward, pullback)
