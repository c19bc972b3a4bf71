from __future__ import annotations

from functools import partial

from typing_extensions import override

from harness.contract.protocol import Description
from implementations._jax.cell_row import CellListImplementation
from implementations._jax.row import Traceable
from implementations.jax_cell_list.forward import loss


class JaxCellList(CellListImplementation):
    """Padded cell list, JAX's own reverse mode."""

    description = Description(
        title="JAX padded cell list",
        framework="JAX",
        neighbours="padded cell list: sort, 3x3 cells, capacity of the fullest, overflow reallocates",
        adjoint="XLA autodiff, recomputing in reverse",
        pair_slots="9 * capacity * N (4 or 1 in place of 9 in a box 2 or 1 cells wide)",
        devices=("cpu", "cuda"),
        multithreaded=True,
        packages=("jax", "jaxlib"),
        forward_sources=("_jax/box.py", "_jax/cells.py", "_jax/spline.py", "jax_cell_list/forward.py"),
    )

    @override
    def loss_function(self) -> Traceable:
        return partial(loss, self.problem, self.capacity)
