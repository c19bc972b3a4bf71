"""Row `enzyme_loops`: the study's Enzyme row, from Python."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from harness.contract.protocol import Description
from implementations._shared.enzyme_call import EnzymeImplementation
from implementations._shared.jax_support import Traceable
from implementations.enzyme_loops.adjoint import gradient
from implementations.enzyme_loops.forward import loss


class EnzymeLoops(EnzymeImplementation):
    """Cell ids, counting sort, gather and loops over runs of slots, all of it differentiated by Enzyme."""

    description: ClassVar[Description] = Description(
        title="Enzyme loops (C++ via enzyme-ad)",
        framework="Enzyme on C++, called from JAX (not the study's Enzyme.jl)",
        neighbours="counting sort into cells, data-dependent runs of slots",
        adjoint="Enzyme, on the whole pipeline",
        pair_slots="ordered pairs over the (up to) 3x3 cells, self included",
        fast_math="reassociated sums; Enzyme's own adjoint operations",
        packages=("enzyme-ad", "jax", "jaxlib", "numpy"),
        forward_sources=(
            "enzyme_loops/forward.cpp",
            "_shared/enzyme_cells.h",
            "_shared/enzyme_density.h",
            "_shared/enzyme_pipeline.h",
        ),
        adjoint_sources=("enzyme_loops/adjoint.cpp", "_shared/enzyme_adjoint.h"),
    )

    def loss_function(self) -> Traceable:
        """See `JaxImplementation`."""
        return partial(loss, parameters=self.parameters)

    def grad_function(self) -> Traceable:
        """See `JaxImplementation`."""
        return partial(gradient, parameters=self.parameters)
