"""Row `enzyme_cell_list`: glue."""

from __future__ import annotations

from functools import partial

from harness.contract.protocol import Description
from implementations._shared.jax_cell_row import CellListImplementation
from implementations._shared.jax_support import Traceable
from implementations.enzyme_cell_list.adjoint import gradient, loss


class EnzymeCellList(CellListImplementation):
    """Padded cell list, Enzyme as Reactant.jl uses it."""

    description = Description(
        title="Enzyme padded cell list (MLIR, the route of Reactant)",
        framework="Enzyme",
        neighbours="padded cell list: sort, 3x3 cells, capacity of the fullest, overflow reallocates",
        adjoint="Enzyme, on StableHLO",
        pair_slots="9 * capacity * N (4 or 1 in place of 9 in a box 2 or 1 cells wide)",
        devices=("cpu", "cuda"),
        multithreaded=True,
        packages=("enzyme-ad", "jax", "jaxlib"),
        forward_sources=("_shared/jax_cells.py", "_shared/jax_spline.py", "enzyme_cell_list/forward.py"),
    )

    def loss_function(self) -> Traceable:
        """See `JaxImplementation.loss_function`."""
        return partial(loss, self.problem, self.capacity)

    def grad_function(self) -> Traceable:
        """See `JaxImplementation.grad_function`."""
        return partial(gradient, self.problem, self.capacity)
