"""Asked for cuda where there is none, every row says so and nothing gets a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.contract import registry
from harness.run import machine
from harness.run.describe import Availability, describe_all
from harness.run.plan import Narrowing, plan
from harness.run.runner import TimeRunner
from harness.run.settings import TimeSettings

pytestmark = pytest.mark.skipif(bool(machine.cuda_devices()), reason="there is a CUDA device here")


@pytest.fixture(scope="module")
def rows() -> dict[str, Availability]:
    return {row.name: row for row in describe_all(registry.names())}


@pytest.mark.thorough
@pytest.mark.parametrize("name", registry.names())
def test_every_row_that_names_cuda_says_that_there_is_none(name: str, rows: dict[str, Availability]) -> None:
    row = rows[name]
    if row.description is None:
        pytest.skip(f"{name}: {row.problem}")
    if "cuda" in row.description.devices:
        assert row.missing["cuda"] is not None
        assert "cuda" in row.missing["cuda"].lower()


@pytest.mark.parametrize(("name", "outcome"), [("warp_adjoint", "unavailable"), ("numba_adjoint", "unsupported")])
def test_cuda_without_a_device_is_no_cpu_time(name: str, outcome: str) -> None:
    planned = plan("quick", [name], Narrowing(ns=(100,), devices=("cuda",)))
    with TimeRunner(TimeSettings(budget_s=0.0), "no-gpu") as runner:
        (record,) = (finished.record for finished in runner.run(planned))
    assert (record.device, record.outcome, record.is_expected) == ("cuda", outcome, True)
    assert record.reason
    assert record.forward_s is record.gradient_s is None
    assert record.forward_samples_s is record.gradient_samples_s is None


@pytest.mark.thorough
def test_segment_operations_on_cuda_without_a_device_get_no_time(tmp_path: Path) -> None:
    timings = tmp_path / "segments.json"
    chosen = ("-rs", "-k", "segmented_mul and forward and few and sorted and float64", "--benchmark-json", str(timings))
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "benchmarks/test_segments.py", *chosen],
        env={**os.environ, "PAIRGRAD_SEGMENT_DEVICE": "cuda"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert "6 skipped" in ended.stdout
    assert "passed" not in ended.stdout
    assert "no such device for JAX" in ended.stdout
    assert "no CUDA device for Torch" in ended.stdout
    assert not timings.exists()
