from __future__ import annotations

from typing import ClassVar

from harness.contract.protocol import Description
from implementations._enzyme.row import EnzymeImplementation


class EnzymeLoops(EnzymeImplementation):
    """Cell ids, counting sort, gather and loops over runs of slots, all of it differentiated by Enzyme."""

    description: ClassVar[Description] = Description(
        title="Enzyme loops (C++ via enzyme-ad)",
        framework="Enzyme",
        neighbours="counting sort into cells, data-dependent runs of slots",
        adjoint="Enzyme, on the whole pipeline",
        pair_slots="ordered pairs over the (up to) 3x3 cells, self included",
        fast_math="reassociated sums; Enzyme's own adjoint operations",
        packages=("enzyme-ad", "jax", "jaxlib", "numpy"),
        forward_sources=(
            "enzyme_loops/forward.cpp",
            "_enzyme/cells.h",
            "_enzyme/density.h",
            "_enzyme/pipeline.h",
        ),
    )
    forward_source = "enzyme_loops/forward.cpp"
    gradient_source = "enzyme_loops/gradient.cpp"
