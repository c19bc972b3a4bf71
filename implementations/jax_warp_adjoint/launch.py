"""Foreign calls in a jitted program that launch warp_adjoint's kernels on XLA's own buffers.

All scratch memory is outputs of the call, so XLA allocates and frees it. Under `vmap` the call runs once for each
element of the batch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import warp as wp

from implementations._warp.launch import REAL, VEC2, CellList, Grid, compute_loss, partial_sum_count
from implementations.warp_adjoint.launch import compute_gradient, compute_residual


def foreign_call(
    launch: Callable[..., None], inputs: dict[str, Any], outputs: dict[str, tuple[Any, int]]
) -> Callable[..., tuple[jax.Array, ...]]:
    """A traceable function of JAX arrays that runs `launch` on them as Warp arrays.

    Args:
        launch: takes the inputs and then the outputs, by these names; it enqueues kernels and returns nothing.
        inputs: element type of each input.
        outputs: element type and length of each output.
    """
    element_types = inputs | {name: element_type for name, (element_type, _) in outputs.items()}
    launch.__annotations__ = {name: wp.array(dtype=element_type) for name, element_type in element_types.items()}
    return wp.jax_callable(
        launch,
        num_outputs=len(outputs),
        graph_mode=wp.JaxCallableGraphMode.NONE,  # the radix sort allocates, which a capture may not
        vmap_method="sequential",
        output_dims={name: length for name, (_, length) in outputs.items()},
    )


@functools.cache
def forward_call(grid: Grid) -> Callable[[jax.Array], tuple[jax.Array, ...]]:
    """Positions -> (cells, order, starts, xs, ys, status, residual, partial sums, loss).

    Made once for each grid, since each call that is made stays registered with XLA.
    """
    n, real = grid.particles, REAL[grid.dtype]

    def launch(
        x: wp.array,
        cells: wp.array,
        order: wp.array,
        starts: wp.array,
        xs: wp.array,
        ys: wp.array,
        status: wp.array,
        residual: wp.array,
        partial_sums: wp.array,
        loss: wp.array,
    ) -> None:
        cell_list = CellList(cells, order, starts, xs, ys, status)
        compute_residual(grid, x, cell_list, residual)
        compute_loss(grid, residual, partial_sums, loss)

    outputs = {
        "cells": (int, 2 * n),
        "order": (int, 2 * n),
        "starts": (int, grid.cells_per_side**2 + 1),
        "xs": (real, n),
        "ys": (real, n),
        "status": (int, 1),
        "residual": (real, n),
        "partial_sums": (wp.float64, partial_sum_count(n)),
        "loss": (real, 1),
    }
    return foreign_call(launch, {"x": VEC2[grid.dtype]}, outputs)


@functools.cache
def gradient_call(grid: Grid) -> Callable[..., tuple[jax.Array, ...]]:
    """(cells, order, starts, xs, ys, status, residual) -> (sorted gradient, gradient); made once, likewise."""
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
    return foreign_call(launch, inputs, {"sorted_gradient": (vector, n), "gradient": (vector, n)})
