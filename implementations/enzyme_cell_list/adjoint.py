"""The gradient by Enzyme: `enzyme_jax_ir` hands the traced loss, sort included, to Enzyme's MLIR passes.

JAX sees one opaque primitive. Its reverse rule calls Enzyme again for the adjoint, which comes back as StableHLO and
is compiled by XLA together with the rest. The status stays outside: Enzyme differentiates every output, and an
integer one has no derivative.
"""

from __future__ import annotations

from functools import partial

import jax
from enzyme_ad.jax import enzyme_jax_ir

from harness.contract.problem import Problem
from implementations._shared.jax_cells import build_cells
from implementations._shared.jax_support import status_of
from implementations.enzyme_cell_list import forward


def loss(problem: Problem, capacity: int, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Loss and status of (N, 2) positions, the loss differentiable by Enzyme alone."""
    through_enzyme = enzyme_jax_ir(argv=())(partial(forward.loss, problem, capacity))
    return through_enzyme(x), status_of(problem, x, build_cells(problem, x).occupancy)


def gradient(problem: Problem, capacity: int, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(N, 2) gradient, and the status as `loss` returns it."""
    return jax.grad(loss, argnums=2, has_aux=True)(problem, capacity, x)
