"""A pytest-benchmark file made up for the tests: our operations take a second, so every time is a ratio."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

OPS = ("segmented_sum", "segmented_mul")
STAGES = ("forward", "gradient")
MACHINE = {
    "processor": "Imagined CPU @ 3 GHz",
    "cores": 2,
    "packages": {"jax": "1.0", "numpy": "2.0", "warp-lang": "1.0"},
    "cuda_devices": [{"name": "Imagined GPU"}],
}
Seconds = Callable[[dict[str, Any]], float]


def benchmarks(seconds: Seconds = lambda info: 2.0, **fields: Any) -> list[dict[str, Any]]:
    """One benchmark for every library and input; another library takes `seconds` of its `extra_info`."""
    found = []
    names = ("op", "stage", "n", "order", "framework", "library")
    values = (OPS, STAGES, (100, 1000), ("sorted", "shuffled"), ("jax", "torch"), ("segment_ops", "plain", "peer"))
    for chosen in itertools.product(*values):
        info = {**dict(zip(names, chosen, strict=True)), "segments": 10, "dtype": "float64", **fields}
        time = 1.0 if info["library"] == "segment_ops" else seconds(info)
        found.append({"extra_info": info, "stats": {"median": time, "iqr": 0.1, "rounds": 5}})
    return found


def content(made: list[dict[str, Any]], **changes: Any) -> str:
    """The text of the file."""
    fields = {
        "machine_info": MACHINE,
        "commit_info": {"id": "0123456789abcdef", "dirty": False},
        "benchmarks": made,
        "datetime": "2026-01-02T03:04:05+00:00",
        "version": "5.0.0",
    }
    return json.dumps({**fields, **changes})
