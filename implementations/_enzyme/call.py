"""C++ called from jitted JAX through enzyme-ad.

The C++ function differentiates within: it calls `__enzyme_autodiff` and returns the gradient as an output. JAX's
own rules for `cpp_call` split the derivative into two calls with a tape between them, which is slower, has no rule for
integers, and is wrong for integer arrays allocated inside; so they are closed here.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import jax
from enzyme_ad.jax import cpp_call

SOURCES = Path(__file__).resolve().parent.parent
"""Folder that `#include` starts from."""

MESSAGE_LENGTH = 2000
"""Characters kept of an error: Enzyme prints the function it is about after it."""

_ERROR = re.compile(r"(?:^|: )(?:fatal )?error: ", re.MULTILINE)
"""How clang and Enzyme begin one: "file:line:column: error: ..."; names with "error" in them are none."""

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
            if _ERROR.search(text):
                raise RuntimeError(f"compiling for Enzyme failed: {text[:MESSAGE_LENGTH]}")
            sys.stderr.write(text)
