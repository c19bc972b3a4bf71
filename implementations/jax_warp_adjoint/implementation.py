from __future__ import annotations

from functools import partial
from typing import ClassVar

import jax
import warp as wp
from typing_extensions import override

from harness.contract.problem import FloatArray
from harness.contract.protocol import Counted, Counts, Description, Device, Dtype
from harness.problems.sph2d import Sph2d
from implementations._jax.row import JaxImplementation, Traceable
from implementations._warp.counts import count
from implementations._warp.launch import CellList, Grid
from implementations.jax_warp_adjoint.adjoint import forward, loss


class JaxWarpAdjoint(JaxImplementation):
    """What a JAX user would do who needs the speed of kernels: Warp inside jit, custom_vjp around it."""

    description: ClassVar[Description] = Description(
        title="Warp kernels called from JAX, hand-written adjoint",
        framework="JAX, Warp",
        neighbours="cells sorted on the device (Warp's radix sort), data-dependent ranges walked directly",
        adjoint="hand-written Warp kernel that gathers, through custom_vjp",
        pair_slots="ordered pairs over the 3x3 cells, self included",
        devices=("cpu", "cuda"),
        fast_math="CPU sums reassociated (-mreassociate -fno-signed-zeros)",
        packages=("jax", "jaxlib", "warp-lang"),
        derived_from="warp_adjoint",
        forward_sources=("_warp/cells.py", "_warp/spline.py", "warp_adjoint/forward.py", "_warp/loss.py"),
        adjoint_sources=("warp_adjoint/adjoint.py", "jax_warp_adjoint/adjoint.py"),
    )

    @override
    def __init__(self, problem: Sph2d, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        super().__init__(problem, positions, device, dtype)
        self._grid = Grid(problem, self.n, dtype)

    @override
    def loss_function(self) -> Traceable:
        return partial(loss, self._grid)

    @override
    def compile_forward(self, x: jax.Array) -> None:
        super().compile_forward(x)  # XLA does not know of the kernels behind the foreign call: a call compiles those
        self.wait(self.loss(x))

    @override
    def compile_gradient(self, x: jax.Array) -> None:
        super().compile_gradient(x)
        self.wait(self.grad(x))

    @override
    def counts(self, x: jax.Array) -> Counted:
        self.loss(x)  # refuses what has no place in the box
        if self.n == 0:
            return Counted(0, 0)
        _, saved = jax.jit(partial(forward, self._grid))(x)
        *cell_arrays, _ = (wp.from_jax(array) for array in saved)
        return count(self._grid, CellList(*cell_arrays))

    @override
    def expected_pair_slots(self, counts: Counts) -> int:
        return counts.stencil_pairs
