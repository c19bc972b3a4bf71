from __future__ import annotations

from functools import partial

from typing_extensions import override

from harness.contract.protocol import Description
from implementations._jax.pair_row import PairListImplementation
from implementations._jax.row import Traceable
from implementations.jax_segments.forward import loss


class JaxSegments(PairListImplementation):
    """`jax_neighbor_list` with the pair terms added up by a Warp kernel in place of XLA's scatter."""

    description = Description(
        title="JAX padded neighbour list, Warp segmented_sum",
        framework="JAX, Warp",
        neighbours="jax-md padded pair list from a padded cell list, overflow reallocates",
        adjoint="XLA autodiff; of the sum, a gather in Warp",
        pair_slots="floor(capacity_multiplier * true pairs), at most N (N - 1)",
        devices=("cpu", "cuda"),
        multithreaded=True,
        options={"capacity_multiplier": 1.25},
        packages=("jax", "jaxlib", "jax-md", "warp-lang"),
        forward_sources=("_jax/box.py", "_jax/spline.py", "_jax/pair_list.py", "jax_segments/forward.py"),
    )

    @override
    def loss_function(self) -> Traceable:
        return partial(loss, self.problem, self._empty)
