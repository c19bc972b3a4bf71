"""The segment operations beside plain composites and, where installed, their released peer: `make bench-segments`.

Forward, gradient and second derivative of every operation on rows of three components. Every variant passes the
agreement check on its input before it is timed; variants take turns, stage by stage of one case, in one process.
PAIRGRAD_SEGMENT_SIZES lists the sizes N (a small one by default, so that this runs as a test too),
PAIRGRAD_SEGMENT_DEVICE is cpu or cuda, and after PAIRGRAD_SEGMENT_WITHIN seconds the rest is skipped, so that the file
of --benchmark-json, which is written at the end, holds what was timed.
"""

from __future__ import annotations

import functools
import importlib
import os
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import warp as wp
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor

from harness.contract.protocol import DEVICES
from implementations.segment_ops import agreement, jax_ops, torch_ops
from implementations.segment_ops.family import FORMULAS
from implementations.segment_ops.plain import JaxPlain, TorchPlain

SIZES = [int(size) for size in os.environ.get("PAIRGRAD_SEGMENT_SIZES", "1000").split(",")]
DEVICE = os.environ.get("PAIRGRAD_SEGMENT_DEVICE", "cpu")
DEADLINE = time.monotonic() + float(os.environ.get("PAIRGRAD_SEGMENT_WITHIN", "inf"))
STAGES = ("forward", "gradient", "second derivative")
_FEW = 1000


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Any:
    assert DEVICE in DEVICES
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True)
def _in_time() -> None:
    if time.monotonic() > DEADLINE:
        pytest.skip("the time of the run was over")


# -- plain composites --------------------------------------------------------------------------------------------------


class _Unrolled(JaxPlain):
    """One scatter and one product for each component, which XLA does faster than a scatter or a sum of rows."""

    def add(self, x: jax.Array, idx: jax.Array, segments: int) -> jax.Array:
        if x.ndim == 1:
            return super().add(x, idx, segments)
        return jnp.stack([self.add(x[:, k], idx, segments) for k in range(x.shape[1])], 1)

    def dot(self, x: jax.Array, y: jax.Array) -> jax.Array:
        return sum(x[:, k] * y[:, k] for k in range(x.shape[1]))  # type: ignore[return-value]

    def apply(self, v: jax.Array, m: jax.Array) -> jax.Array:
        axes = range(v.shape[1])
        return jnp.stack([sum(v[:, a] * m[:, a, b] for a in axes) for b in axes], 1)  # type: ignore[misc]


PLAIN_JAX = _Unrolled()
PLAIN_TORCH = TorchPlain()


# -- the variants ------------------------------------------------------------------------------------------------------


@functools.cache
def _peer(framework: str) -> ModuleType:
    """The peer's operations; its JAX side asks for a graph mode that only CUDA has, and on the CPU is given another."""
    original, mode = wp.jax_callable, {"graph_mode": wp.JaxCallableGraphMode.JAX} if DEVICE == "cpu" else {}
    wp.jax_callable = lambda *args, **options: original(*args, **{**options, **mode})
    try:
        return importlib.import_module(f"nvalchemiops.{framework}.segment_ops")
    except ImportError as error:
        pytest.skip(f"the peer is not installed: {error}")
    finally:
        wp.jax_callable = original


VARIANTS: dict[str, Callable[[], Any]] = {
    "jax segment_ops": lambda: jax_ops,
    "jax plain": lambda: PLAIN_JAX,
    "jax peer": lambda: _peer("jax"),
    "torch segment_ops": lambda: torch_ops,
    "torch plain": lambda: PLAIN_TORCH,
    "torch peer": lambda: _peer("torch"),
}
Stages = dict[str, Callable[[], Sequence[Any]]]


def _require_device(framework: str) -> None:
    """Skip where the framework has no such device: nothing is timed on another under its name."""
    if framework == "torch" and DEVICE == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device for Torch")
    try:
        jax.devices(DEVICE if framework == "jax" else "cpu")
    except RuntimeError as error:
        pytest.skip(f"no such device for JAX: {error}")


@functools.cache
def _jax_functions(op: Callable[..., Any], segments: int) -> list[Callable[..., Any]]:
    """The stages, for any ids: those are arguments, not constants that the compiler could compute with."""

    def forward(a: Sequence[jax.Array], ids: jax.Array) -> jax.Array:
        return op(*a, ids, segments)

    gradient = jax.grad(lambda a, ids: 0.5 * jnp.sum(forward(a, ids) ** 2))

    def slope(a: Sequence[jax.Array], ids: jax.Array, along: Sequence[jax.Array]) -> jax.Array:
        return sum(jnp.vdot(g, v) for g, v in zip(gradient(a, ids), along, strict=True))  # type: ignore[return-value]

    return [jax.jit(lambda a, ids: [forward(a, ids)]), jax.jit(gradient), jax.jit(jax.grad(slope))]


def _jax_stages(
    op: Callable[..., Any], operands: Sequence[np.ndarray], idx: np.ndarray, segments: int, device: str = DEVICE
) -> Stages:
    *values, ids = jax.device_put([*operands, idx], jax.devices(device)[0])
    first, second, third = _jax_functions(op, segments)
    calls: list[Callable[[], Any]] = [
        lambda: jax.block_until_ready(first(values, ids)),
        lambda: jax.block_until_ready(second(values, ids)),
        lambda: jax.block_until_ready(third(values, ids, values)),
    ]
    return dict(zip(STAGES, calls, strict=True))


def _torch_stages(op: Callable[..., Any], operands: Sequence[np.ndarray], idx: np.ndarray, segments: int) -> Stages:
    *values, ids = (torch.tensor(array, device=DEVICE) for array in (*operands, idx))
    leaves = [value.clone().requires_grad_() for value in values]

    def gradient(*, again: bool = False) -> Sequence[Tensor]:
        return torch.autograd.grad(0.5 * (op(*leaves, ids, segments) ** 2).sum(), leaves, create_graph=again)

    def second() -> Sequence[Tensor]:
        return torch.autograd.grad(gradient(again=True), leaves, values)

    calls: list[Callable[[], Any]] = [lambda: (op(*values, ids, segments),), gradient, second]
    return dict(zip(STAGES, calls if DEVICE == "cpu" else map(_waited, calls), strict=True))


def _waited(call: Callable[[], Any]) -> Callable[[], Any]:
    """The same call, over when the device has done what it launched."""

    def wait_for_it() -> Any:
        result = call()
        torch.cuda.synchronize()
        return result

    return wait_for_it


def _stages(variant: str, op: str, case: tuple[Sequence[np.ndarray], np.ndarray, int]) -> Stages:
    build = _jax_stages if variant.startswith("jax") else _torch_stages
    return build(getattr(VARIANTS[variant](), op), *case)


@functools.lru_cache(maxsize=2)
def _case(op: str, n: int, segments: int, dtype: str, order: str) -> tuple[Any, list[np.ndarray]]:
    """The input, and the second derivative to agree with: that of a plain composite in double precision on the CPU."""
    case = agreement.example(op, n, segments, dtype, ordered=order == "sorted")
    doubles = [operand.astype("float64") for operand in case[0]]
    second = _jax_stages(getattr(PLAIN_JAX, op), doubles, *case[1:], device="cpu")["second derivative"]()
    return case, [np.asarray(part) for part in second]


@functools.lru_cache(maxsize=len(VARIANTS))
def _checked(variant: str, op: str, n: int, segments: int, dtype: str, order: str) -> Stages:
    case, expected = _case(op, n, segments, dtype, order)
    stages = _stages(variant, op, case)
    _, reason = agreement.compare([*_host(stages["forward"]()), *_host(stages["gradient"]())], op, *case)
    assert not reason
    for got, want in zip(_host(stages["second derivative"]()), expected, strict=True):
        assert got.shape == want.shape
        assert np.max(np.abs(got - want)) <= 10 * agreement.TOLERANCE[dtype] * np.max(np.abs(want))
    return stages


def _host(parts: Sequence[Any]) -> list[np.ndarray]:
    return [part.detach().cpu().numpy() if isinstance(part, Tensor) else np.asarray(part) for part in parts]


# the last decorator varies slowest: a run cut short has timed every operation at every N, in float64
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("op", FORMULAS)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("order", ["sorted", "shuffled"])
@pytest.mark.parametrize("segments", ["few", "many"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_segments(
    benchmark: BenchmarkFixture, op: str, n: int, segments: str, order: str, dtype: str, variant: str, stage: str
) -> None:
    framework, library = variant.split()
    _require_device(framework)
    count = min(_FEW, n // 3) if segments == "few" else n // 30
    call = _checked(variant, op, n, count, dtype, order)[stage]
    benchmark.group = f"{op} {stage}, N = {n:,}, {segments} segments, {order}, {dtype}"
    benchmark.name = variant
    benchmark.extra_info.update(
        op=op, stage=stage, n=n, segments=count, order=order, dtype=dtype, framework=framework, library=library
    )
    benchmark.extra_info["device"] = DEVICE
    benchmark(call)
