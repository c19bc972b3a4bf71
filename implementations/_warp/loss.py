"""The loss of the Warp rows: the sum of squared residuals, tile by tile and without atomics, in float64.

    loss = sum_k (rho_k - rho_0)^2

The order of the sum is the same in every call, and in float32 no digit is lost to a million small additions.
warp_autodiff records these kernels on its tape.
"""
# Kernels are written in Warp's language, which its stubs type only in part.
# mypy: disable-error-code="call-overload, index, operator, var-annotated"

from __future__ import annotations

from typing import Any

import warp as wp

TILE = wp.constant(1024)
"""Particles whose squared residuals one block sums."""


@wp.func
def _square(value: Any) -> Any:
    return wp.float64(value) * wp.float64(value)


@wp.kernel
def sum_squares_kernel(residual: wp.array[Any], partial_sums: wp.array[wp.float64]) -> None:
    """partial_sums[b] = sum of residual^2 over tile b, in float64; beyond its end an array reads as zero."""
    block = wp.tid()
    tile = wp.tile_load(residual, shape=TILE, offset=block * TILE)
    wp.tile_store(partial_sums, wp.tile_sum(wp.tile_map(_square, tile)), offset=block)


@wp.kernel
def sum_partial_kernel(partial_sums: wp.array[wp.float64], loss: wp.array[Any]) -> None:
    """loss[0] = sum of the partial sums, by one block."""
    total = wp.tile_zeros(shape=1, dtype=wp.float64)
    for first in range(0, partial_sums.shape[0], TILE):
        total += wp.tile_sum(wp.tile_load(partial_sums, shape=TILE, offset=first))
    wp.tile_store(loss, wp.tile_astype(total, dtype=loss.dtype))
