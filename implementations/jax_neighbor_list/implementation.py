"""Row `jax_neighbor_list`: glue."""

from __future__ import annotations

from functools import partial

from harness.contract.protocol import Description
from implementations._shared.jax_pair_row import PairListImplementation
from implementations._shared.jax_support import Traceable
from implementations.jax_neighbor_list.adjoint import gradient
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
        forward_sources=("_shared/jax_spline.py", "_shared/jax_pair_list.py", "jax_neighbor_list/forward.py"),
    )

    def loss_function(self) -> Traceable:
        """See `JaxImplementation.loss_function`."""
        return partial(loss, self.problem, self._empty)

    def grad_function(self) -> Traceable:
        """See `JaxImplementation.grad_function`."""
        return partial(gradient, self.problem, self._empty)
