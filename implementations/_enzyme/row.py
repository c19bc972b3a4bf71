"""A row in C++ through enzyme-ad: a source for the loss, a source for the gradient, and the counts."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from harness.contract.problem import FloatArray
from harness.contract.protocol import Counted, Counts, Device, Dtype, UnavailableError
from harness.problems.sph2d import Sph2d
from implementations._enzyme.call import call, compiler_errors
from implementations._jax.row import FunctionName, JaxImplementation, Traceable


def parameters(problem: Sph2d, n: int, dtype: np.dtype) -> FloatArray:
    """(8,) numbers of the dtype that the C++ functions read, in the order of `Parameters` in call.h."""
    cells_per_side = problem.cells_per_side(n)
    values = (
        problem.box_length,
        problem.smoothing_length,
        problem.kernel_normalisation,
        problem.mass,
        problem.rest_density,
        cells_per_side,
        cells_per_side / problem.box_length,
        problem.coordinate_limit(dtype),
    )
    return np.array(values, dtype)


class EnzymeImplementation(JaxImplementation):
    """Base of the rows in C++.

    Attributes:
        forward_source: file, relative to `implementations/`, with the function `loss(value, status, positions,
            parameters)`.
        gradient_source: the same for `gradient`.
        parameters: (8,) for the C++ functions.
    """

    forward_source: ClassVar[str]
    gradient_source: ClassVar[str]

    @override
    def __init__(self, problem: Sph2d, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        if device != "cpu":
            raise UnavailableError(f"no {device.upper()} device for C++ through enzyme-ad: it runs on the CPU only")
        super().__init__(problem, positions, device, dtype)
        self.parameters = jax.device_put(parameters(problem, self.n, self.dtype), self.device)

    @override
    def loss_function(self) -> Traceable:
        return self._foreign(self.forward_source, "loss", ())

    @override
    def grad_function(self) -> Traceable:
        return self._foreign(self.gradient_source, "gradient", (self.n, 2))

    def _foreign(self, source: str, function: str, shape: tuple[int, ...]) -> Traceable:
        """Positions, and what else the C++ function reads after the parameters, -> value of this shape, status."""
        outputs = (jax.ShapeDtypeStruct(shape, self.dtype), jax.ShapeDtypeStruct((), jnp.int32))

        def traceable(x: jax.Array, *further: jax.Array) -> tuple[jax.Array, jax.Array]:
            value, status = call(source, function, outputs, x, self.parameters, *further)
            return value, status

        return traceable

    @override
    def counts(self, x: jax.Array) -> Counted:
        self._require_match(x)
        self.problem.require_valid(self.to_numpy(x))
        if self.n == 0:
            return Counted(0, 0)
        outputs = (jax.ShapeDtypeStruct((2,), jnp.int64),)
        with compiler_errors():
            (counts,) = jax.jit(partial(call, "_enzyme/counts.cpp", "counts", outputs))(x, self.parameters)
        slots, pairs = map(int, counts)
        return Counted(pairs, slots)

    @override
    def expected_pair_slots(self, counts: Counts) -> int:
        return counts.stencil_pairs

    @override
    def _executable(self, name: FunctionName) -> jax.stages.Compiled:
        if name in self._executables:
            return self._executables[name]
        with compiler_errors():
            return super()._executable(name)

    @override
    def _require_match(self, x: jax.Array) -> None:
        if isinstance(x, jax.core.Tracer):
            raise NotImplementedError(f"{type(self).__module__} has no derivatives of its gradient and no batching")
        super()._require_match(x)
