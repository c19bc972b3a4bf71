"""Density and loss of the Warp rows, over a cell list.

    W(r)  = C (2 t^3 - s^3)        t = max(2h - r, 0)
    W'(r) = 6 C (s^2 - t^2)        s = max(2h - 2r, 0)        C = sigma / (2h)^3

is the cubic spline without branches: the second term lives on r < h alone, and both vanish from 2h on.

    rho_k = m C sum_l (2 t_kl^3 - s_kl^3)        loss = sum_k (rho_k - rho_0)^2

The CPU compiler may reassociate sums here (no other fast-math flag: NaN stays NaN), which lets it use vector registers
for the loop over a run. For that the loop is a counted `while`: Warp's `range` keeps its state in a struct that the
compiler does not see through.
"""
# Kernels are written in Warp's language, which its stubs type only in part.
# mypy: disable-error-code="arg-type, call-overload, index, var-annotated"

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import warp as wp

from harness.problem import Problem
from harness.protocol import Dtype
from implementations._shared.warp_cells import REAL, CellList, Grid, stencil_run, stencil_runs

REASSOCIATE = f"{wp.config.cpu_compiler_flags or '-march=native'} -mreassociate -fno-signed-zeros"
"""Clang's flags: Warp's own, and sums in any order."""

wp.set_module_options({"enable_backward": False, "cpu_compiler_flags": REASSOCIATE})

TILE = wp.constant(1024)
"""Particles whose squared residuals one block sums."""

_BLOCK_DIM = 256


def spline_scale(problem: Problem) -> float:
    """m C = m sigma / (2h)^3."""
    return problem.mass * problem.kernel_normalisation / problem.cutoff**3


@wp.func
def spline(r: Any, support: Any) -> Any:
    """W / C at distance r >= 0; support is 2h."""
    zero = type(r)(0.0)
    two = type(r)(2.0)
    t = wp.max(support - r, zero)
    s = wp.max(support - two * r, zero)
    return two * t * t * t - s * s * s


@wp.func
def spline_slope(r: Any, support: Any) -> Any:
    """W' / (6 C) at distance r >= 0; support is 2h."""
    zero = type(r)(0.0)
    t = wp.max(support - r, zero)
    s = wp.max(support - type(r)(2.0) * r, zero)
    return (s - t) * (s + t)


@wp.func
def _sum_of_run(px: Any, py: Any, first: int, last: int, xs: wp.array[Any], ys: wp.array[Any], support: Any) -> Any:
    """Sum of W / C over slots [first, last) around (px, py)."""
    total = type(px)(0.0)
    slot = wp.max(first, 0)  # tells the compiler that no index is negative
    while slot < last:
        dx = px - xs[slot]
        dy = py - ys[slot]
        total += spline(wp.sqrt(dx * dx + dy * dy), support)
        slot += 1
    return total


@wp.kernel
def _residual(
    xs: wp.array[Any],
    ys: wp.array[Any],
    cells: wp.array[int],
    starts: wp.array[int],
    cells_per_side: int,
    length: Any,
    support: Any,
    scale: Any,
    rest_density: Any,
    # outputs
    residual: wp.array[Any],
) -> None:
    """residual[k] = rho_k - rho_0 of the particle in slot k."""
    slot = wp.tid()
    cell = cells[slot]
    total = type(length)(0.0)
    for run in range(stencil_runs(cell % cells_per_side, cells_per_side, xs.shape[0])):
        first, last, shift_x, shift_y = stencil_run(run, slot, cell, cells_per_side, length, xs, ys, starts)
        total += _sum_of_run(xs[slot] + shift_x, ys[slot] + shift_y, first, last, xs, ys, support)
    residual[slot] = scale * total - rest_density


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
    """loss[0] = sum of the partial sums, by one block: no atomics, the same in every call."""
    total = wp.float64(0.0)
    for first in range(0, partial_sums.shape[0], TILE):
        total += wp.tile_sum(wp.tile_load(partial_sums, shape=TILE, offset=first))[0]
    loss[0] = loss.dtype(total)


class _Kernels(NamedTuple):
    residual: wp.Kernel
    sum_squares: wp.Kernel
    sum_partial: wp.Kernel


@functools.cache
def _kernels(dtype: Dtype) -> _Kernels:
    real, reals = REAL[dtype], wp.array(dtype=REAL[dtype])
    scalars = dict.fromkeys(("length", "support", "scale", "rest_density"), real)
    return _Kernels(
        residual=wp.overload(_residual, {"xs": reals, "ys": reals, **scalars, "residual": reals}),
        sum_squares=wp.overload(_sum_squares, {"residual": reals}),
        sum_partial=wp.overload(_sum_partial, {"loss": reals}),
    )


def compute_residual(grid: Grid, cell_list: CellList, residual: wp.array) -> None:
    """Density minus rest density, (N,) in cell order, of a filled cell list."""
    problem = grid.problem
    wp.launch(
        _kernels(grid.dtype).residual,
        dim=grid.particles,
        inputs=[
            cell_list.xs,
            cell_list.ys,
            cell_list.cells,
            cell_list.starts,
            grid.cells_per_side,
            problem.box_length,
            problem.cutoff,
            spline_scale(problem),
            problem.rest_density,
        ],
        outputs=[residual],
        device=residual.device,
    )


def partial_sum_count(particles: int) -> int:
    """Length of the array of partial sums that `compute_loss` needs."""
    return -(-particles // TILE)


def compute_loss(grid: Grid, residual: wp.array, partial_sums: wp.array, loss: wp.array) -> None:
    """loss[0] = sum of residual^2, accumulated in float64 whatever the dtype."""
    kernels, device = _kernels(grid.dtype), residual.device
    wp.launch_tiled(
        kernels.sum_squares,
        dim=[partial_sums.size],
        inputs=[residual],
        outputs=[partial_sums],
        block_dim=_BLOCK_DIM,
        device=device,
    )
    wp.launch_tiled(
        kernels.sum_partial, dim=[1], inputs=[partial_sums], outputs=[loss], block_dim=_BLOCK_DIM, device=device
    )
