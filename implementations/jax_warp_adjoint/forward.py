"""Forward pass: one foreign call in the jitted program launches warp_adjoint's kernels on XLA's own buffers.

    rho_i = sum_j m W(|x_i - x_j|)        loss = sum_i (rho_i - rho_0)^2

All scratch memory is outputs of the call, so XLA allocates and frees it. Under `vmap` the call runs once for each
element of the batch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import warp as wp

from implementations._shared.jax_support import status_of
from implementations._shared.warp_cells import REAL, VEC2, CellList, Grid, gather_positions, sort_into_cells
from implementations._shared.warp_density import compute_residual
from implementations._shared.warp_loss import compute_loss, partial_sum_count


class Saved(NamedTuple):
    """What the adjoint needs: the arrays of a `CellList` and the residual in cell order."""

    cells: jax.Array
    order: jax.Array
    starts: jax.Array
    xs: jax.Array
    ys: jax.Array
    status: jax.Array
    residual: jax.Array


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
def _forward_call(grid: Grid) -> Callable[[jax.Array], tuple[jax.Array, ...]]:
    """Made once for each grid, since each call that is made stays registered with XLA."""
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
        sort_into_cells(grid, x, cell_list)
        gather_positions(grid, x, cell_list)
        compute_residual(grid, cell_list, residual)
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


def loss(grid: Grid, x: jax.Array) -> tuple[tuple[jax.Array, jax.Array], Saved]:
    """Loss and status, and what the adjoint needs.

    Args:
        grid: parameters.
        x: (N, 2) positions, N > 0, of the grid's dtype.

    Returns:
        (scalar loss, status as in `jax_support`), saved arrays.
    """
    *saved, _, value = _forward_call(grid)(x)
    return (value[0], status_of(grid.problem, x)), Saved(*saved)
