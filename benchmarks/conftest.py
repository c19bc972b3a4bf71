"""What pytest-benchmark writes of this machine is what records hold: no name of a host, a user or a branch."""

from __future__ import annotations

from typing import Any

import pytest

from harness.run import machine

_STATISTICS = ("median", "iqr", "rounds")


def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    machine_info.clear()
    machine_info.update(machine.environment())
    del machine_info["commit"], machine_info["dirty"]


def pytest_benchmark_update_commit_info(commit_info: dict[str, Any]) -> None:
    environment = machine.environment()
    commit_info.clear()
    commit_info.update(id=environment["commit"], dirty=environment["dirty"])


def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Of the segment operations a file holds what the reports read; every sample would make megabytes."""
    if config.getoption("benchmark_json"):  # what is saved for --benchmark-compare needs the rest
        output_json["benchmarks"] = [_slim(benchmark) for benchmark in output_json["benchmarks"]]


def _slim(benchmark: dict[str, Any]) -> dict[str, Any]:
    if "library" not in benchmark["extra_info"]:
        return benchmark
    statistics = {name: benchmark["stats"][name] for name in _STATISTICS}
    return {"extra_info": benchmark["extra_info"], "stats": statistics}
