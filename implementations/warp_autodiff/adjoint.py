"""Reverse pass: `wp.Tape` over the launches of the forward pass; the sort is integers and stays outside."""

from __future__ import annotations

import warp as wp

from implementations._shared.warp_cells import Grid, sort_into_cells
from implementations.warp_autodiff import forward


def launch_gradient(grid: Grid, x: wp.array, between: forward.Intermediates) -> wp.array:
    """dL/dx, a new array of (N,) vectors in the order of x.

    A backward pass adds to the gradients it finds, so they start from zero: of the positions in a copy made for this
    call, which also leaves the caller's array as it is, of the intermediates by clearing them.
    """
    leaf = wp.clone(x, requires_grad=True)
    for array in (between.cell_list.xs, between.cell_list.ys, between.residual, between.partial_sums):
        array.grad.zero_()
    sort_into_cells(grid, leaf, between.cell_list)
    with wp.Tape() as tape:
        loss = forward.launch_loss(grid, leaf, between)
    tape.backward(loss)
    return leaf.grad
