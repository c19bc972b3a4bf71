"""Row `enzyme_pair`: a hand-written gather that leaves only the pair's derivative to Enzyme."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from harness.contract.protocol import Description
from implementations._shared.enzyme_call import EnzymeImplementation
from implementations._shared.jax_support import Traceable
from implementations.enzyme_pair.adjoint import gradient
from implementations.enzyme_pair.forward import loss


class EnzymePair(EnzymeImplementation):
    """Density pass, then a gather pass over the same runs; W'(r) by Enzyme, the sums around it by hand."""

    description: ClassVar[Description] = Description(
        title="Enzyme on W only (C++ via enzyme-ad)",
        framework="Enzyme on C++, called from JAX (not the study's Enzyme.jl)",
        neighbours="counting sort into cells, data-dependent runs of slots",
        adjoint="hand-written gather; Enzyme on the scalar W(r)",
        pair_slots="ordered pairs over the (up to) 3x3 cells, self included",
        fast_math="reassociated sums; Enzyme's own adjoint operations",
        packages=("enzyme-ad", "jax", "jaxlib", "numpy"),
        forward_sources=("enzyme_pair/forward.cpp", "_shared/enzyme_cells.h", "_shared/enzyme_density.h"),
        adjoint_sources=("enzyme_pair/adjoint.cpp",),
    )

    def loss_function(self) -> Traceable:
        """See `JaxImplementation`."""
        return partial(loss, parameters=self.parameters)

    def grad_function(self) -> Traceable:
        """See `JaxImplementation`."""
        return partial(gradient, parameters=self.parameters)
