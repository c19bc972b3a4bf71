"""Every record says where it came from: as the parent sees the machine, and as the worker saw itself."""

import os
import platform
import subprocess
import sys

import msgspec
import numpy as np
import psutil
import pytest
from fake_cases import copy_of_harness, planned

from harness.contract.registry import ROOT
from harness.run import machine
from harness.run.runner import TimeRunner
from harness.run.settings import TimeSettings


@pytest.fixture(scope="module")
def record():
    given = {"XLA_FLAGS": "--xla_dump_hlo_as_text=false"}
    with TimeRunner(TimeSettings(budget_s=0.0), "test") as runner:
        return next(iter(runner.run([planned("imports_frameworks", threads=1, variables=given)]))).record


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


@pytest.fixture
def somebody_s_repository(tmp_path):
    """A repository with one commit; returns its folder and that commit."""
    (tmp_path / "thesis.tex").write_text("not ours")
    who = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "mine")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path, subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=tmp_path, text=True).strip()


def recorded_commit(folder, **variables):
    """Commit and state that a copy of the harness in a folder records of itself."""
    script = "import json; from harness.run import machine; e = machine.environment(); print([e['commit'], e['dirty']])"
    environment = {**os.environ, "PYTHONPATH": str(folder), **variables}
    return subprocess.check_output([sys.executable, "-c", script], cwd=folder, env=environment, text=True).strip()


@pytest.mark.parametrize("installed_in", [".venv/lib/python3.11/site-packages", ""])
def test_commit_of_somebody_else_s_repository_is_not_recorded(somebody_s_repository, installed_in):
    """An environment inside it, ignored or not; and its very top, which holds our files and does not track them."""
    repository, _ = somebody_s_repository
    copy_of_harness(repository / installed_in)
    assert recorded_commit(repository / installed_in) == "[None, None]"


def test_a_hook_s_variables_name_no_repository_of_ours(somebody_s_repository, tmp_path_factory):
    """Git sets them while a hook runs, whatever the hook starts."""
    repository, _ = somebody_s_repository
    installed = tmp_path_factory.mktemp("installed")
    copy_of_harness(installed)
    given = {"GIT_DIR": str(repository / ".git"), "GIT_WORK_TREE": str(installed)}
    assert recorded_commit(installed, **given) == "[None, None]"


def test_a_checkout_records_its_own_commit(somebody_s_repository):
    repository, commit = somebody_s_repository
    checkout = repository / "checkout"
    copy_of_harness(checkout)
    who = ("-c", "user.name=Us", "-c", "user.email=us@example.org")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "ours")):
        subprocess.run(["git", *words], cwd=checkout, check=True)
    found = machine.git_state(checkout)
    assert (len(found[0]), found[0] != commit, found[1]) == (40, True, False)
    (checkout / "harness" / "cli.py").write_text("changed")
    assert machine.git_state(checkout) == (found[0], True)


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
