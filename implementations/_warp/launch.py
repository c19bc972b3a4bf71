"""How the kernels that Warp rows share are given their arrays and launched, in the precision asked for."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import Any

import warp as wp

from harness.contract.protocol import Dtype
from harness.problems.sph2d import Sph2d
from implementations._warp.cells import gather_kernel, locate_kernel, mark_starts_kernel
from implementations._warp.loss import TILE, sum_partial_kernel, sum_squares_kernel

REAL: dict[Dtype, Any] = {"float64": wp.float64, "float32": wp.float32}
VEC2: dict[Dtype, Any] = {"float64": wp.vec2d, "float32": wp.vec2f}
VECTORS = frozenset({"x", "sorted_gradient", "gradient"})
"""Names of the kernels' parameters that are arrays of vectors; other arrays of no stated type hold coordinates."""

_BLOCK_DIM = 256


@functools.cache
def specialised(kernel: wp.Kernel, dtype: Dtype) -> wp.Kernel:
    """A generic kernel in one precision: what is not asked for is not compiled."""
    types: dict[str, Any] = {}
    for name, annotation in inspect.get_annotations(kernel.func, eval_str=True).items():
        if annotation is Any:
            types[name] = REAL[dtype]
        elif getattr(annotation, "dtype", None) is Any:
            types[name] = wp.array(dtype=VEC2[dtype] if name in VECTORS else REAL[dtype])
    return wp.overload(kernel, types)


@dataclass(frozen=True, slots=True)
class Grid:
    """What the cells of N particles depend on besides the positions.

    Attributes:
        problem: the box.
        particles: N.
        dtype: precision of positions and of all arithmetic.
    """

    problem: Sph2d
    particles: int
    dtype: Dtype

    @property
    def cells_per_side(self) -> int:
        """nc."""
        return self.problem.cells_per_side(self.particles)


@dataclass(slots=True)
class CellList:
    """Particles in cell order, all arrays on one device.

    Attributes:
        cells: (2N,) int32; the first N are the cells of the slots, ascending; the rest is room for the sort.
        order: (2N,) int32; the first N are the particles in the slots, likewise.
        starts: (nc^2 + 1,) int32; cell c holds slots [starts[c], starts[c + 1]).
        xs, ys: (N,) wrapped coordinates in cell order.
        status: (1,) int32; not 0 if a position has no place in the box.
    """

    cells: wp.array
    order: wp.array
    starts: wp.array
    xs: wp.array
    ys: wp.array
    status: wp.array

    def walk(self, grid: Grid) -> list[Any]:
        """The parameters that every kernel begins with that walks the stencils.

        One by one: kernels that take them as one struct were measured slower on the CPU.
        """
        sizes = [grid.cells_per_side, grid.problem.box_length, grid.problem.cutoff]
        return [self.xs, self.ys, self.cells, self.starts, *sizes]

    @classmethod
    def allocate(cls, grid: Grid, device: wp.Device, requires_grad: bool = False) -> CellList:
        """Arrays for `sort_into_cells`; with `requires_grad`, the coordinates have gradients."""
        n, real = grid.particles, REAL[grid.dtype]
        return cls(
            cells=wp.empty(2 * n, dtype=int, device=device),
            order=wp.empty(2 * n, dtype=int, device=device),
            starts=wp.empty(grid.cells_per_side**2 + 1, dtype=int, device=device),
            xs=wp.empty(n, dtype=real, device=device, requires_grad=requires_grad),
            ys=wp.empty(n, dtype=real, device=device, requires_grad=requires_grad),
            status=wp.empty(1, dtype=int, device=device),
        )


def sort_into_cells(grid: Grid, x: wp.array, cell_list: CellList) -> None:
    """Fill everything but the coordinates: cells, order, starts and status of positions x, (N,) vectors.

    The radix sort is stable, so the order within a cell, and with it every sum, is the same in every call.
    """
    n, nc, problem = grid.particles, grid.cells_per_side, grid.problem
    cell_list.status.zero_()
    wp.launch(
        specialised(locate_kernel, grid.dtype),
        dim=n,
        inputs=[x, problem.box_length, nc / problem.box_length, nc, problem.coordinate_limit(grid.dtype)],
        outputs=[cell_list.cells, cell_list.order, cell_list.status],
        device=x.device,
    )
    wp.utils.radix_sort_pairs(cell_list.cells, cell_list.order, n, end_bit=(nc * nc - 1).bit_length())
    wp.launch(mark_starts_kernel, dim=n + 1, inputs=[cell_list.cells, n], outputs=[cell_list.starts], device=x.device)


def gather_positions(grid: Grid, x: wp.array, cell_list: CellList) -> None:
    """Fill the coordinates of cells that `sort_into_cells` has sorted; a `wp.Tape` can record it."""
    wp.launch(
        specialised(gather_kernel, grid.dtype),
        dim=grid.particles,
        inputs=[x, cell_list.order, grid.problem.box_length],
        outputs=[cell_list.xs, cell_list.ys],
        device=x.device,
    )


def partial_sum_count(particles: int) -> int:
    """Length of the array of partial sums that `compute_loss` needs."""
    return -(-particles // TILE)


def compute_loss(grid: Grid, residual: wp.array, partial_sums: wp.array, loss: wp.array) -> None:
    """loss[0] = sum of residual^2, accumulated in float64 whatever the dtype; a `wp.Tape` can record it."""
    for kernel, blocks, source, target in (
        (sum_squares_kernel, partial_sums.size, residual, partial_sums),
        (sum_partial_kernel, 1, partial_sums, loss),
    ):
        wp.launch_tiled(
            specialised(kernel, grid.dtype),
            dim=[blocks],
            inputs=[source],
            outputs=[target],
            block_dim=_BLOCK_DIM,
            device=residual.device,
        )
