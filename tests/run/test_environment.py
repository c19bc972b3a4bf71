"""Every record says where it came from: as the parent sees the machine, and as the worker saw itself."""

import os
import platform
import subprocess

import msgspec
import numpy as np
import psutil
import pytest
from fake_cases import planned

from harness.contract.registry import ROOT
from harness.run import machine
from harness.run.runner import TimeRunner
from harness.run.settings import TimeSettings


@pytest.fixture(scope="module")
def record():
    os.environ["XLA_FLAGS"] = "--xla_dump_hlo_as_text=false"
    try:
        with TimeRunner(TimeSettings(budget_s=0.0), "test") as runner:
            return next(iter(runner.run([planned("imports_frameworks", threads=1)]))).record
    finally:
        del os.environ["XLA_FLAGS"]


def test_machine_is_recorded(record):
    e = record.environment
    assert e["processor"] == machine.processor_name()
    assert (e["cores"], e["memory_bytes"]) == (len(os.sched_getaffinity(0)), psutil.virtual_memory().total)
    assert (e["os"], e["python"]) == (platform.platform(), platform.python_version())
    assert e["cuda_devices"] == machine.cuda_devices()
    assert record.device_name == e["processor"]


def test_sources_are_recorded(record):
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    if commit.returncode:
        pytest.skip("not a git repository")
    assert record.environment["commit"] == commit.stdout.strip()
    assert isinstance(record.environment["dirty"], bool)
    assert len(record.code_hash) == 12


def test_packages_are_recorded(record):
    assert record.environment["packages"]["numpy"] == np.__version__
    assert {"jax", "torch", "warp-lang"} <= set(record.environment["packages"])


def test_worker_tells_versions_flags_and_threads_it_ran_with(record):
    seen = record.observed
    assert seen["versions"]["jax"] == record.environment["packages"]["jax"]
    assert seen["versions"]["torch"] == record.environment["packages"]["torch"]
    assert seen["x64"] is True
    assert seen["threads"] == {"torch": 1}
    assert seen["cores"] == machine.available_cores()[:1]
    assert seen["flags"]["XLA_FLAGS"] == "--xla_dump_hlo_as_text=false"
    assert (seen["flags"]["JAX_PLATFORMS"], seen["flags"]["OMP_NUM_THREADS"]) == ("cpu", "1")
    assert seen["free_host_bytes"] > 0


def test_record_names_no_path_of_this_machine(record):
    content = msgspec.json.encode(record).decode()
    assert str(ROOT) not in content
