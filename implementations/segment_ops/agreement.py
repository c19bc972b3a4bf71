"""The gate of the segment operations: value and gradient of every operation against NumPy, in both frameworks.

It imports the frameworks, so run it in a process of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from implementations.segment_ops.family import FORMULAS
from implementations.segment_ops.plain import NumpyPlain

Arrays = Sequence[np.ndarray]

TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
FRAMEWORKS = ("jax", "torch")
_PLAIN = NumpyPlain()


class Agreement(NamedTuple):
    """How far one operation is from the reference; `reason` is empty if it agrees."""

    op: str
    framework: str
    dtype: str
    scaled_diff: float
    ok: bool
    reason: str


def check(n: int = 1000, frameworks: Sequence[str] = FRAMEWORKS) -> list[Agreement]:
    """Every operation in every framework and dtype, on n rows with shuffled ids and empty segments."""
    return [_check(op, framework, dtype, n) for op in FORMULAS for framework in frameworks for dtype in TOLERANCE]


def _check(op: str, framework: str, dtype: str, n: int) -> Agreement:
    operands, idx, segments = example(op, n, max(n // 30, 3), dtype)
    try:
        got = _RUN[framework](op, operands, idx, segments)
    except Exception as error:  # whatever goes wrong, the gate reports it and goes on
        return Agreement(op, framework, dtype, float("inf"), False, f"{type(error).__name__}: {error}")
    diff, reason = compare(got, op, operands, idx, segments)
    return Agreement(op, framework, dtype, diff, not reason, reason)


def example(op: str, n: int, segments: int, dtype: str, *, ordered: bool = False) -> tuple[Arrays, np.ndarray, int]:
    """Operands of three components, ids (n,) int32 that leave every seventh segment empty, number of segments."""
    rng = np.random.default_rng(0)
    used = np.flatnonzero(np.arange(segments) % 7 != 2)
    idx = rng.choice(used, n).astype(np.int32)
    formula = max(FORMULAS[op].items())[1]
    sizes = {"i": n, "s": segments}
    shapes = [[sizes.get(axis, 3) for axis in subscript] for subscript in formula.split("->")[0].split(",")]
    operands = [rng.normal(size=shape).astype(dtype) for shape in shapes[: 1 if op == "segmented_rms_norm" else None]]
    return operands, np.sort(idx) if ordered else idx, segments


def compare(got: Sequence[Any], op: str, operands: Arrays, idx: np.ndarray, segments: int) -> tuple[float, str]:
    """The worst scaled difference of (value, gradients of half its square sum), and why it fails, or ''.

    Scaled by the largest sum of the magnitudes of the terms added up, which is meaningful where they cancel.
    """
    wanted = reference(op, [operand.astype("float64") for operand in operands], idx, segments)
    scales = reference(op, [np.abs(operand.astype("float64")) for operand in operands], idx, segments)
    dtype, worst = operands[0].dtype, 0.0
    if len(got) != len(wanted):
        return float("inf"), f"{len(got)} arrays instead of {len(wanted)}"
    for part, expected, scale in zip(map(np.asarray, got), wanted, scales, strict=True):
        if part.shape != expected.shape or part.dtype != dtype:
            return float("inf"), f"{part.dtype}{part.shape} instead of {dtype}{expected.shape}"
        if not np.all(np.isfinite(part)):
            return float("inf"), "not finite"
        worst = max(worst, float(np.max(np.abs(part - expected), initial=0) / np.max(scale, initial=1e-300)))
    return worst, "" if worst <= TOLERANCE[dtype.name] else f"scaled difference {worst:.1e}"


def reference(op: str, operands: Arrays, idx: np.ndarray, segments: int) -> list[np.ndarray]:
    """Value, and gradient of half the value's square sum by each operand, in closed form."""
    out = getattr(_PLAIN, op)(*operands, idx, segments)
    return [out, *_gradients(op, out, operands, idx, segments)]


def _gradients(op: str, out: np.ndarray, operands: Arrays, idx: np.ndarray, segments: int) -> list[np.ndarray]:
    x = operands[0]
    count = np.maximum(np.bincount(idx, minlength=segments), 1).astype(x.dtype)
    if op == "segmented_sum":
        return [out[idx]]
    if op == "segmented_mean":
        return [(out / count[:, None])[idx]]
    if op == "segmented_rms_norm":
        return [x / count[idx, None]]
    y = operands[1]
    if op == "segmented_dot":
        return [out[idx, None] * y, out[idx, None] * x]
    if op == "segmented_mul":
        return [out * y[idx, None], _PLAIN.add((out * x).sum(1), idx, segments)]
    return [np.einsum("il,ikl->ik", out, y[idx]), _PLAIN.add(x[:, :, None] * out[:, None, :], idx, segments)]


def _run_jax(op: str, operands: Arrays, idx: np.ndarray, segments: int) -> list[Any]:
    jax = importlib.import_module("jax")
    function = getattr(importlib.import_module("implementations.segment_ops.jax_ops"), op)
    with jax.enable_x64(True):
        arrays = [jax.numpy.asarray(operand) for operand in operands]
        out, pull = jax.vjp(lambda *a: function(*a, idx, segments), *arrays)
        return [out, *pull(out)]


def _run_torch(op: str, operands: Arrays, idx: np.ndarray, segments: int) -> list[Any]:
    torch = importlib.import_module("torch")
    function = getattr(importlib.import_module("implementations.segment_ops.torch_ops"), op)
    leaves = [torch.tensor(operand, requires_grad=True) for operand in operands]
    out = function(*leaves, torch.tensor(idx), segments)
    return [out.detach(), *torch.autograd.grad(out, leaves, out.detach())]


_RUN: dict[str, Callable[..., list[Any]]] = {"jax": _run_jax, "torch": _run_torch}
