"""The loss of the Warp rows: the sum of squared residuals, tile by tile and without atomics, in float64.

    loss = sum_k (rho_k - rho_0)^2

The order of the sum is the same in every call, and in float32 no digit is lost to a million small additions.
warp_autodiff records these kernels on its tape.
"""
# Kernels are written in Warp's language, which its stubs type only in part.
# mypy: disable-error-code="call-overload, index, operator, var-annotated"

from __future__ import annotations

import functools
from typing import Any

import warp as wp

from harness.contract.protocol import Dtype
from implementations._shared.warp_cells import REAL, Grid

TILE = wp.constant(1024)
"""Particles whose squared residuals one block sums."""

_BLOCK_DIM = 256


@wp.func
def _square(value: Any) -> Any:
    return wp.float64(value) * wp.float64(value)


@wp.kernel
def _sum_squares(residual: wp.array[Any], partial_sums: wp.array[wp.float64]) -> None:
    """partial_sums[b] = sum of residual^2 over tile b, in float64; beyond its end an array reads as zero."""
    block = wp.tid()
    tile = wp.tile_load(residual, shape=TILE, offset=block * TILE)
    wp.tile_store(partial_sums, wp.tile_sum(wp.tile_map(_square, tile)), offset=block)


@wp.kernel
def _sum_partial(partial_sums: wp.array[wp.float64], loss: wp.array[Any]) -> None:
    """loss[0] = sum of the partial sums, by one block."""
    total = wp.tile_zeros(shape=1, dtype=wp.float64)
    for first in range(0, partial_sums.shape[0], TILE):
        total += wp.tile_sum(wp.tile_load(partial_sums, shape=TILE, offset=first))
    wp.tile_store(loss, wp.tile_astype(total, dtype=loss.dtype))


@functools.cache
def _kernels(dtype: Dtype) -> tuple[wp.Kernel, wp.Kernel]:
    reals = wp.array(dtype=REAL[dtype])
    return wp.overload(_sum_squares, {"residual": reals}), wp.overload(_sum_partial, {"loss": reals})


def partial_sum_count(particles: int) -> int:
    """Length of the array of partial sums that `compute_loss` needs."""
    return -(-particles // TILE)


def compute_loss(grid: Grid, residual: wp.array, partial_sums: wp.array, loss: wp.array) -> None:
    """loss[0] = sum of residual^2, accumulated in float64 whatever the dtype; a `wp.Tape` can record it."""
    sum_squares, sum_partial = _kernels(grid.dtype)
    device = residual.device
    wp.launch_tiled(
        sum_squares,
        dim=[partial_sums.size],
        inputs=[residual],
        outputs=[partial_sums],
        block_dim=_BLOCK_DIM,
        device=device,
    )
    wp.launch_tiled(sum_partial, dim=[1], inputs=[partial_sums], outputs=[loss], block_dim=_BLOCK_DIM, device=device)
