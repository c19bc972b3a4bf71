from __future__ import annotations

from typing import ClassVar

from harness.contract.protocol import Description
from implementations._enzyme.row import EnzymeImplementation


class EnzymePair(EnzymeImplementation):
    """Density pass, then a gather pass over the same runs; W'(r) by Enzyme, the sums around it by hand."""

    description: ClassVar[Description] = Description(
        title="Enzyme on W only (C++ via enzyme-ad)",
        framework="Enzyme",
        neighbours="counting sort into cells, data-dependent runs of slots",
        adjoint="hand-written gather; Enzyme on the scalar W(r)",
        pair_slots="ordered pairs over the (up to) 3x3 cells, self included",
        fast_math="reassociated sums; Enzyme's own adjoint operations",
        packages=("enzyme-ad", "jax", "jaxlib", "numpy"),
        forward_sources=("enzyme_pair/forward.cpp", "_enzyme/cells.h", "_enzyme/density.h"),
        adjoint_sources=("enzyme_pair/adjoint.cpp",),
    )
    forward_source = "enzyme_pair/forward.cpp"
    gradient_source = "enzyme_pair/adjoint.cpp"
