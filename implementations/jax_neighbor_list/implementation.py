from __future__ import annotations

from functools import partial

from typing_extensions import override

from harness.contract.protocol import Description
from implementations._jax.pair_row import PairListImplementation
from implementations._jax.row import Traceable
from implementations.jax_neighbor_list.forward import loss


class JaxNeighborList(PairListImplementation):
    """The study's JAX row: jax-md's pair list, XLA's segment sum and reverse mode."""

    description = Description(
        title="JAX padded neighbour list (jax-md)",
        framework="JAX",
        neighbours="jax-md padded pair list from a padded cell list, overflow reallocates",
        adjoint="XLA autodiff",
        pair_slots="floor(capacity_multiplier * true pairs), at most N (N - 1)",
        devices=("cpu", "cuda"),
        multithreaded=True,
        options={"capacity_multiplier": 1.25},
        packages=("jax", "jaxlib", "jax-md"),
        forward_sources=("_jax/box.py", "_jax/spline.py", "_jax/pair_list.py", "jax_neighbor_list/forward.py"),
    )

    @override
    def loss_function(self) -> Traceable:
        return partial(loss, self.problem, self._empty)
