"""The padded cell list through Enzyme's MLIR passes, as Reactant.jl uses them.

JAX sees one opaque primitive, the traced loss, sort included. Its reverse rule calls Enzyme again for the adjoint,
which comes back as StableHLO and is compiled by XLA together with the rest.
"""

from __future__ import annotations

from functools import partial

import jax
from enzyme_ad.jax import enzyme_jax_ir
from typing_extensions import override

from harness.contract.protocol import Description
from implementations._jax.cell_row import CellListImplementation
from implementations._jax.cells import build_cells
from implementations._jax.row import Traceable, status_of
from implementations.enzyme_cell_list import forward


class EnzymeCellList(CellListImplementation):
    """Padded cell list, differentiated on StableHLO."""

    description = Description(
        title="Enzyme padded cell list (MLIR, the route of Reactant)",
        framework="Enzyme",
        neighbours="padded cell list: sort, 3x3 cells, capacity of the fullest, overflow reallocates",
        adjoint="Enzyme, on StableHLO",
        pair_slots="9 * capacity * N (4 or 1 in place of 9 in a box 2 or 1 cells wide)",
        devices=("cpu", "cuda"),
        multithreaded=True,
        packages=("enzyme-ad", "jax", "jaxlib"),
        forward_sources=("_jax/box.py", "_jax/cells.py", "_jax/spline.py", "enzyme_cell_list/forward.py"),
    )

    @override
    def loss_function(self) -> Traceable:
        through_enzyme = enzyme_jax_ir(argv=())(partial(forward.loss, self.problem, self.capacity))

        def loss(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            # the status stays outside: Enzyme differentiates every output, and an integer one has no derivative
            return through_enzyme(x), status_of(self.problem, x, build_cells(self.problem, x).occupancy)

        return loss
