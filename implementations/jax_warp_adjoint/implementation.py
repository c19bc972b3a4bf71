"""Row `jax_warp_adjoint`: glue."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import jax
import warp as wp

from harness.contract.problem import FloatArray, Problem
from harness.contract.protocol import Counts, Description, Device, Dtype
from implementations._shared.jax_support import JaxImplementation, Traceable
from implementations._shared.warp_cells import CellList, Grid, count_pairs
from implementations.jax_warp_adjoint import adjoint, forward


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
        forward_sources=(
            "_shared/warp_cells.py",
            "_shared/warp_spline.py",
            "_shared/warp_density.py",
            "_shared/warp_loss.py",
            "jax_warp_adjoint/forward.py",
        ),
        adjoint_sources=("_shared/warp_gather_adjoint.py", "jax_warp_adjoint/adjoint.py"),
    )

    def __init__(self, problem: Problem, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        """See `Implementation`."""
        super().__init__(problem, positions, device, dtype)
        self._grid = Grid(problem, self.n, dtype)

    def loss_function(self) -> Traceable:
        """See `JaxImplementation.loss_function`."""
        return partial(adjoint.loss, self._grid)

    def grad_function(self) -> Traceable:
        """See `JaxImplementation.grad_function`."""
        return partial(adjoint.gradient, self._grid)

    def compile_forward(self, x: jax.Array) -> None:
        """Compile, and call once: XLA does not know of the kernels behind the foreign call."""
        super().compile_forward(x)
        self.wait(self.loss(x))

    def compile_gradient(self, x: jax.Array) -> None:
        """The same for `grad`."""
        super().compile_gradient(x)
        self.wait(self.grad(x))

    def _count_pairs(self, x: jax.Array) -> tuple[int, int]:
        if self.n == 0:
            return 0, 0
        self.loss(x)  # refuses what has no place in the box
        _, saved = jax.jit(partial(forward.loss, self._grid))(x)
        *cell_arrays, _ = (wp.from_jax(array) for array in saved)
        return count_pairs(self._grid, CellList(*cell_arrays))

    def true_pairs(self, x: jax.Array) -> int:
        """See `Implementation.true_pairs`."""
        return self._count_pairs(x)[1]

    def pair_slots(self, x: jax.Array) -> int:
        """See `Implementation.pair_slots`."""
        return self._count_pairs(x)[0]

    def expected_pair_slots(self, counts: Counts) -> int:
        """Ordered pairs over the 3x3 cells, self included."""
        return counts.stencil_pairs
