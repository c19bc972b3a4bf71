"""Records made up for the tests of reports: times follow from a rate and N, so every figure can be worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.contract.protocol import Case, Description
from harness.contract.records import Record, case_id

PROCESSOR = "Imagined CPU @ 3 GHz"


def description(implementation: str, **changes: Any) -> Description:
    fields: dict[str, Any] = {
        "title": f"Title of {implementation}",
        "framework": "none",
        "neighbours": "cells",
        "adjoint": "hand-written" if implementation.endswith("_adjoint") else "automatic",
        "pair_slots": "all of them",
        "multithreaded": True,
    }
    return Description(**(fields | changes))


def make_record(
    implementation: str = "warp_adjoint",
    n: int = 1000,
    *,
    scenario: str = "published",
    device: str = "cpu",
    dtype: str = "float64",
    threads: int = 2,
    options: dict[str, float] | None = None,
    forward: list[float] | None = None,
    gradient: list[float] | None = None,
    timestamp: str = "2026-01-02T03:04:05+00:00",
    processor: str | None = PROCESSOR,
    cores: int = 2,
    **fields: Any,
) -> Record:
    """An ok record with five samples each, unless told otherwise; `outcome` other than ok takes the timings away."""
    case = Case(
        implementation=implementation,
        scenario=scenario,
        n=n,
        device=device,  # type: ignore[arg-type]
        dtype=dtype,  # type: ignore[arg-type]
        threads=threads,
        options=options or {},
    )
    environment = {
        "cores": cores,
        "memory_bytes": 8_000_000_000,
        "os": "Linux",
        "python": "3.11.2",
        "packages": {"numpy": "2.0.0"},
        "commit": "0123456789abcdef",
        "dirty": False,
    }
    if processor is not None:
        environment["processor"] = processor
    common: dict[str, Any] = {
        "implementation": implementation,
        "scenario": scenario,
        "n": n,
        "device": device,
        "dtype": dtype,
        "threads": threads,
        "options": options or {},
        "case_id": case_id(case),
        "run_id": "run-1",
        "timestamp": timestamp,
        "environment": environment,
        "description": description(implementation),
        "outcome": "ok",
    }
    if fields.get("outcome", "ok") == "ok":
        common |= timings(forward or [1e-6 * n] * 5, gradient or [3e-6 * n] * 5) | {
            "loss": 12476.361742879,
            "grad_norm": 7526.066606,
            "max_rel_diff": 6.6e-16,
            "scaled_diff": 1e-16,
            "true_pairs": 31 * n,
            "pair_slots": 93 * n,
            "compile_forward_s": 0.5,
            "compile_gradient_s": 1.0,
            "peak_host_bytes": 100 * n,
            "noisy": False,
            "device_name": processor if device == "cpu" else "Imagined GPU",
            "lines_forward": 50,
            "lines_adjoint": 20,
        }
    return Record(**(common | fields))


def timings(forward: list[float], gradient: list[float]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, samples in (("forward", forward), ("gradient", gradient)):
        low, high = np.percentile(samples, (25, 75))
        found |= {
            f"{name}_samples_s": samples,
            f"{name}_s": float(np.median(samples)),
            f"{name}_iqr_s": float(high - low),
        }
    return found
