"""Each row's forward pass and gradient as pytest-benchmark tests, at small N and in one process.

For regressions while working on a row: `make bench-micro`, twice, the second time with ARGS=--benchmark-compare. The
tables come from `make bench`,
which gives every case a process of its own.
"""

from __future__ import annotations

import functools

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from harness.check import oracle
from harness.check.check import checked
from harness.contract import registry
from harness.contract.protocol import Array, Case, Implementation, UnavailableError
from harness.problems.sph2d import Sph2d

SIZES = (1_000, 10_000)


@functools.cache
def reference(n: int) -> oracle.Reference:
    return next(oracle.references("published", n, "float64"))


@functools.cache
def built(name: str, n: int) -> tuple[Implementation, Array, dict[str, int | None]]:
    """An implementation that has passed the gate on this input, its positions, and its counts."""
    try:
        row = registry.load(name)
        case = Case(implementation=name, scenario="published", n=n)
        unsupported = row.unsupported(case)
        if unsupported is not None:
            pytest.skip(unsupported)
        implementation = row(Sph2d.of_size(n), reference(n).positions, "cpu", "float64")
    except (UnavailableError, ImportError) as error:
        pytest.skip(str(error))
    x = implementation.to_device(reference(n).positions)
    implementation.compile_forward(x)
    implementation.compile_gradient(x)
    result, _ = checked(implementation, reference(n), case)
    counts = {
        "true_pairs": result.true_pairs,
        "pair_slots": result.pair_slots,
        "search_slots": result.search_slots,
        "capacity": implementation.capacity,
    }
    return implementation, x, counts


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", registry.names())
@pytest.mark.parametrize("direction", ["forward", "gradient"])
def test_row(benchmark: BenchmarkFixture, direction: str, name: str, n: int) -> None:
    implementation, x, counts = built(name, n)
    call = implementation.loss if direction == "forward" else implementation.grad
    benchmark.group = f"{direction}, N = {n:,}"
    benchmark.name = name
    benchmark.extra_info.update(counts)
    benchmark(lambda: implementation.wait(call(x)))
