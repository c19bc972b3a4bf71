"""C++ through enzyme-ad: what the Enzyme rows share on Python's side.

A row's C++ function differentiates within: it calls `__enzyme_autodiff` and returns the gradient as an output. JAX's
own rules for `cpp_call` split the derivative into two calls with a tape between them, which is slower, has no rule for
integers, and is wrong for integer arrays allocated inside; so they are closed here.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from enzyme_ad.jax import cpp_call

from harness.contract.problem import FloatArray, Problem
from harness.contract.protocol import Counts, Device, Dtype, UnavailableError
from implementations._shared.jax_support import FunctionName, JaxImplementation

SOURCES = Path(__file__).resolve().parent.parent
"""Folder that `#include` starts from."""

MESSAGE_LENGTH = 2000
"""Characters kept of an error: Enzyme prints the function it is about after it."""

_LEVELS = {
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "x86-64-v3": {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"},
    "x86-64-v2": {"cx16", "popcnt", "sse4_1", "sse4_2", "ssse3"},
}
"""Micro-architecture levels of the x86-64 psABI, highest first, and the kernel's names of what each adds."""


def target_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> tuple[str, ...]:
    """Compiler flags for this processor's instruction set; none where it is not known, which is always right."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return ()
    present = next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())
    supported = [level for level, needed in _LEVELS.items() if needed <= present]
    return ("-target-cpu", supported[0]) if supported else ()


def parameters(problem: Problem, n: int, dtype: np.dtype) -> FloatArray:
    """(8,) numbers of the dtype that the C++ functions read, in the order of `Parameters` in enzyme_cells.h."""
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


def call(source: str, function: str, outputs: tuple[jax.ShapeDtypeStruct, ...], *inputs: jax.Array) -> list[jax.Array]:
    """Call a C++ function template inside a jitted function.

    Args:
        source: file that defines it, relative to `implementations/`.
        function: its name; it takes references to `enzyme::tensor`, outputs first.
        outputs: shapes and dtypes.
        inputs: float32, float64, int32 or int64 arrays.

    Raises:
        NotImplementedError: JAX is asked to differentiate or to batch the call.
    """

    @jax.custom_jvp
    def opaque(*inputs: jax.Array) -> list[jax.Array]:
        return cpp_call(
            *inputs,
            out_shapes=[jax.core.ShapedArray(output.shape, output.dtype) for output in outputs],
            source=f'#include "{source}"',
            fn=function,
            argv=(f"-I{SOURCES}", *target_flags()),
        )

    @opaque.defjvp
    def refuse(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> NoReturn:
        raise NotImplementedError(f"{source} gives its gradient itself; derivatives of {function} are not available")

    return opaque(*inputs)


@contextlib.contextmanager
def compiler_errors() -> Iterator[None]:
    """Raise what a compilation inside the block writes to standard error, where it is an error.

    Enzyme reports what it cannot differentiate there and goes on, to a wrong gradient. Warnings are passed on.

    Raises:
        RuntimeError: with the text.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as captured:
        standard_error = os.dup(2)
        os.dup2(captured.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)
            captured.seek(0)
            text = captured.read().decode(errors="replace")
            if "error" in text.lower():
                raise RuntimeError(f"compiling for Enzyme failed: {text[:MESSAGE_LENGTH]}")
            sys.stderr.write(text)


class EnzymeImplementation(JaxImplementation):
    """Glue common to the rows in C++.

    Attributes:
        parameters: (8,) for the C++ functions.
    """

    def __init__(self, problem: Problem, positions: FloatArray, device: Device, dtype: Dtype) -> None:
        if device != "cpu":
            raise UnavailableError(f"no {device.upper()} device for C++ through enzyme-ad: it runs on the CPU only")
        super().__init__(problem, positions, device, dtype)
        self.parameters = jax.device_put(parameters(problem, self.n, self.dtype), self.device)

    def true_pairs(self, x: jax.Array) -> int:
        """Ordered pairs i != j with r < 2h in the runs the loops walk."""
        return self._counts(x)[1]

    def pair_slots(self, x: jax.Array) -> int:
        """Slots of the runs, self included."""
        return self._counts(x)[0]

    def expected_pair_slots(self, counts: Counts) -> int:
        """Ordered pairs, self included, over the (up to) 3x3 cells."""
        return counts.stencil_pairs

    def _counts(self, x: jax.Array) -> tuple[int, int]:
        self._require_match(x)
        self.problem.require_valid(self.to_numpy(x))
        if self.n == 0:
            return 0, 0
        outputs = (jax.ShapeDtypeStruct((2,), jnp.int64),)
        with compiler_errors():
            (counts,) = jax.jit(partial(call, "_shared/enzyme_counts.cpp", "counts", outputs))(x, self.parameters)
        slots, pairs = map(int, counts)
        return slots, pairs

    def _executable(self, name: FunctionName) -> jax.stages.Compiled:
        if name in self._executables:
            return self._executables[name]
        with compiler_errors():
            return super()._executable(name)

    def _require_match(self, x: jax.Array) -> None:
        if isinstance(x, jax.core.Tracer):
            raise NotImplementedError(f"{type(self).__module__} has no derivatives of its gradient and no batching")
        super()._require_match(x)
