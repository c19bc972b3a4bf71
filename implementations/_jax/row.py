"""A row in JAX: device, conversion, ahead-of-time compilation and the status that every call reads back.

A row gives its traceable loss, and its gradient where JAX does not derive that. Each maps positions to (value, status);
the status is one int32 scalar, negative where a position has no place in the box, and otherwise the capacity that the
positions need. `JaxImplementation` compiles them ahead of time, reads the status, and reallocates until all fits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from harness.contract.problem import FloatArray
from harness.contract.protocol import Device, Dtype, Implementation, UnavailableError, mismatch
from harness.problems.sph2d import Sph2d

jax.config.update("jax_enable_x64", True)

INVALID_POSITIONS = -1
"""Status of positions that `Problem.require_valid` refuses."""

PLATFORMS: dict[str, Device] = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda"}
"""JAX's name of a platform -> ours."""

FunctionName = Literal["loss", "grad"]
Traceable = Callable[[jax.Array], tuple[jax.Array, jax.Array]]


def find_device(device: Device) -> jax.Device:
    """The first device of this kind.

    Raises:
        UnavailableError: JAX sees none.
    """
    try:
        return jax.devices(device)[0]
    except RuntimeError as error:
        raise UnavailableError(f"no {device.upper()} device for JAX: {error}") from error


def status_of(problem: Sph2d, x: jax.Array, needed_capacity: jax.Array | int = 0) -> jax.Array:
    """The status of one call, a traced int32 scalar: `needed_capacity`, or INVALID_POSITIONS.

    Args:
        problem: the box.
        x: (N, 2) positions.
        needed_capacity: slots that x needs; 0 for a row without capacity.
    """
    valid = jnp.all(jnp.abs(x) < problem.coordinate_limit(x.dtype))  # false for NaN
    return jnp.where(valid, needed_capacity, INVALID_POSITIONS).astype(jnp.int32)


class JaxImplementation(Implementation):
    """Base of the rows in JAX.

    Attributes:
        problem: the box and the kernel.
        device: the JAX device everything lies on.
        dtype: of positions and results.
        n: number of particles.
    """

    def __init__(self, problem: Sph2d, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        """Raises as `Implementation` says; a row sizes its capacity after this."""
        problem.require_valid(positions.astype(dtype))
        self.problem = problem
        self.device = find_device(device)
        self.dtype = np.dtype(dtype)
        self.n = len(positions)
        self._executables: dict[FunctionName, jax.stages.Compiled] = {}
        self._compiled_before: set[FunctionName] = set()

    @abstractmethod
    def loss_function(self) -> Traceable:
        """Traceable at the current capacity: (N, 2) positions, N > 0 -> (scalar loss, status)."""

    def grad_function(self) -> Traceable:
        """The same for the gradient, (N, 2) positions, N > 0 -> ((N, 2) gradient, status): JAX's reverse mode."""
        return jax.grad(self.loss_function(), has_aux=True)

    def reallocate(self, x: jax.Array, needed: int) -> None:
        """Raise the capacity to what x needs; overridden by rows that have one.

        Raises:
            CapacityOverflowError: it cannot be held.
        """
        raise AssertionError(f"{type(self).__name__} has no capacity to raise to {needed}")

    @override
    def loss(self, x: jax.Array) -> jax.Array:
        return self._call("loss", x)

    @override
    def grad(self, x: jax.Array) -> jax.Array:
        return self._call("grad", x)

    @override
    def compile_forward(self, x: jax.Array) -> None:
        """Compile `loss` without running it."""
        self._executable("loss")

    @override
    def compile_gradient(self, x: jax.Array) -> None:
        """Compile `grad` without running it."""
        self._executable("grad")

    def traceable(self, name: FunctionName) -> Traceable:
        """The function that is compiled; what `jax.export` lowers for other platforms."""
        if self.n == 0:
            return _empty_loss if name == "loss" else _empty_grad
        return self.loss_function() if name == "loss" else self.grad_function()

    def _call(self, name: FunctionName, x: jax.Array) -> jax.Array:
        self._require_match(x)
        while True:
            value, state = self._executable(name)(x)
            needed = int(state)  # the one read-back
            if needed == INVALID_POSITIONS:
                self.problem.require_valid(self.to_numpy(x))
            if needed <= (self.capacity or 0):
                return value
            self.reallocate(x, needed)
            self.reallocations += 1
            self._executables.clear()

    def _executable(self, name: FunctionName) -> jax.stages.Compiled:
        if name not in self._executables:
            self.recompilations += name in self._compiled_before
            self._compiled_before.add(name)
            sharding = jax.sharding.SingleDeviceSharding(self.device)
            x = jax.ShapeDtypeStruct((self.n, 2), self.dtype, sharding=sharding)
            self._executables[name] = jax.jit(self.traceable(name)).lower(x).compile()
        return self._executables[name]

    def _require_match(self, x: jax.Array) -> None:
        if not isinstance(x, jax.Array):
            raise mismatch(f"a {type(x).__name__}", f"a jax.Array on {self.device}")
        if x.shape != (self.n, 2) or x.dtype != self.dtype:
            raise mismatch(f"{x.dtype} {x.shape}", f"{self.dtype} {(self.n, 2)}")
        if x.devices() != {self.device}:
            raise mismatch(f"on {x.devices()}", str(self.device))

    @override
    def to_device(self, positions: FloatArray) -> jax.Array:
        # a copy, since JAX may keep NumPy's own memory
        return jax.device_put(np.array(positions, self.dtype), self.device)

    @override
    def device_of(self, array: jax.Array) -> Device:
        (device,) = array.devices()
        return PLATFORMS[device.platform]

    @override
    def peak_device_bytes(self) -> int | None:
        stats = self.device.memory_stats()
        return int(stats["peak_bytes_in_use"]) if stats and "peak_bytes_in_use" in stats else None


def _empty_loss(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.zeros((), x.dtype), jnp.int32(0)


def _empty_grad(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.zeros_like(x), jnp.int32(0)
