"""Reverse pass: a second foreign call launches warp_adjoint's gathering adjoint kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial

import jax
import warp as wp

from implementations._shared.warp_cells import REAL, VEC2, CellList, Grid
from implementations._shared.warp_gather_adjoint import compute_gradient
from implementations.jax_warp_adjoint import forward


@functools.cache
def _gradient_call(grid: Grid) -> Callable[..., tuple[jax.Array, ...]]:
    n, real, vector = grid.particles, REAL[grid.dtype], VEC2[grid.dtype]

    def launch(
        cells: wp.array,
        order: wp.array,
        starts: wp.array,
        xs: wp.array,
        ys: wp.array,
        status: wp.array,
        residual: wp.array,
        sorted_gradient: wp.array,
        gradient: wp.array,
    ) -> None:
        cell_list = CellList(cells, order, starts, xs, ys, status)
        compute_gradient(grid, cell_list, residual, sorted_gradient, gradient)

    inputs = dict.fromkeys(("cells", "order", "starts"), int)
    inputs |= {"xs": real, "ys": real, "status": int, "residual": real}
    return forward.foreign_call(launch, inputs, {"sorted_gradient": (vector, n), "gradient": (vector, n)})


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def loss(grid: Grid, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`forward.loss` with `pullback` as its derivative: (loss, status) of (N, 2) positions."""
    value, _ = forward.loss(grid, x)
    return value


def pullback(grid: Grid, saved: forward.Saved, cotangents: tuple[jax.Array, jax.Array]) -> tuple[jax.Array]:
    """Cotangent of the positions.

    Args:
        grid: parameters.
        saved: from the forward pass.
        cotangents: of the loss, a scalar; the status has none.

    Returns:
        (N, 2) in the order of the positions.
    """
    _, gradient = _gradient_call(grid)(*saved)
    return (cotangents[0] * gradient,)


loss.defvjp(forward.loss, pullback)


def gradient(grid: Grid, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(N, 2) gradient, and the status as `loss` returns it."""
    return jax.grad(loss, argnums=1, has_aux=True)(grid, x)
