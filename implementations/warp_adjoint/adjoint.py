"""The hand-written adjoint: a second walk over the same runs, which gathers instead of scattering.

    W'(r)   = 6 C (s^2 - t^2)
    dL/dx_k = 12 m C sum_l (e_k + e_l) (s_kl^2 - t_kl^2) / r_kl (x_k - x_l)        e = rho - rho_0

with s, t and C of `_warp.spline`. The pair term is antisymmetric, so each particle sums what it receives from both ends
of a pair, and no two threads write to one place.
"""
# Kernels are written in Warp's language, which its stubs type only in part.
# mypy: disable-error-code="arg-type, index, var-annotated"

from __future__ import annotations

from typing import Any

import warp as wp

from implementations._warp.cells import stencil_run, stencil_runs
from implementations.warp_adjoint.forward import REASSOCIATE

wp.set_module_options({"enable_backward": False, "cpu_compiler_flags": REASSOCIATE})


@wp.func
def _spline_slope(r: Any, support: Any) -> Any:
    """W' / (6 C) at distance r >= 0; support is 2h."""
    zero = type(r)(0.0)
    t = wp.max(support - r, zero)
    s = wp.max(support - type(r)(2.0) * r, zero)
    return (s - t) * (s + t)


@wp.func
def _pull_of_run(
    px: Any,
    py: Any,
    residual_here: Any,
    first: int,
    last: int,
    xs: wp.array[Any],
    ys: wp.array[Any],
    residual: wp.array[Any],
    support: Any,
    smallest: Any,
) -> Any:
    """Sum of the pair terms / (12 m C) over slots [first, last) around (px, py).

    At r = 0 the quotient is finite, r being no less than the root of the smallest normal number, and its factor is 0:
    neither a particle itself nor a coincident one adds anything.
    """
    pull_x = type(px)(0.0)
    pull_y = type(px)(0.0)
    slot = wp.max(first, 0)  # tells the compiler that no index is negative
    while slot < last:
        dx = px - xs[slot]
        dy = py - ys[slot]
        r = wp.sqrt(wp.max(dx * dx + dy * dy, smallest))
        factor = (residual_here + residual[slot]) * _spline_slope(r, support) / r
        pull_x += factor * dx
        pull_y += factor * dy
        slot += 1
    return pull_x, pull_y


@wp.kernel
def gather_gradient_kernel(
    xs: wp.array[Any],
    ys: wp.array[Any],
    cells: wp.array[int],
    starts: wp.array[int],
    cells_per_side: int,
    length: Any,
    support: Any,
    residual: wp.array[Any],
    scale: Any,
    smallest: Any,
    # outputs
    sorted_gradient: wp.array[Any],
) -> None:
    """sorted_gradient[k] = dL/dx of the particle in slot k."""
    slot = wp.tid()
    cell = cells[slot]
    gradient_x = type(length)(0.0)
    gradient_y = type(length)(0.0)
    for run in range(stencil_runs(cell % cells_per_side, cells_per_side, xs.shape[0])):
        first, last, shift_x, shift_y = stencil_run(run, slot, cell, cells_per_side, length, xs, ys, starts)
        pull_x, pull_y = _pull_of_run(
            xs[slot] + shift_x, ys[slot] + shift_y, residual[slot], first, last, xs, ys, residual, support, smallest
        )
        gradient_x += pull_x
        gradient_y += pull_y
    sorted_gradient[slot] = sorted_gradient.dtype(scale * gradient_x, scale * gradient_y)


@wp.kernel
def unsort_kernel(
    sorted_gradient: wp.array[Any],
    order: wp.array[int],
    # outputs
    gradient: wp.array[Any],
) -> None:
    """A pass of its own: stores to distant places in the kernel above would stall its loops."""
    slot = wp.tid()
    gradient[order[slot]] = sorted_gradient[slot]
