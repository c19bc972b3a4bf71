"""What a container or a job allows, read from trees laid out as Linux does, and once from a real group."""

import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import fake_cases
import pytest
from fake_cases import planned

from harness.contract.registry import ROOT
from harness.run import cgroup, machine, memory
from harness.run.runner import MEMORY_SHARE, CheckRunner, TimeRunner
from harness.run.settings import CheckSettings, TimeSettings

UNLIMITED_V1 = "9223372036854771712"
GIB = 1 << 30


@pytest.fixture
def tree(tmp_path):
    """Lay out files below a root of their own."""

    def lay_out(membership, **files):
        for name, content in {"proc/self/cgroup": membership, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content}\n")
        return tmp_path

    return lay_out


def v1(tree, path, folder, **changes):
    """A group of version 1: 4 GiB, 1.5 used of which 0.5 are file contents that give way, 1.5 processors."""
    values = {
        "memory.limit_in_bytes": 4 * GIB,
        "memory.usage_in_bytes": 3 * GIB // 2,
        "memory.stat": f"cache 99\ninactive_file 7\ntotal_inactive_file {GIB // 2}",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3",
    } | changes
    quota = {"cpu.cfs_quota_us": 150_000, "cpu.cfs_period_us": 100_000}
    return tree(
        f"4:memory:{path}\n3:cpu,cpuacct:{path}\n0::/",
        **{f"sys/fs/cgroup/memory{folder}/{name}": value for name, value in values.items()},
        **{f"sys/fs/cgroup/cpu,cpuacct{folder}/{name}": value for name, value in quota.items()},
    )


def v2(tree, path, folder, **changes):
    """The same in version 2."""
    values = {
        "memory.max": 4 * GIB,
        "memory.current": 3 * GIB // 2,
        "memory.stat": f"anon 99\ninactive_file {GIB // 2}",
        "memory.events": "low 0\nhigh 0\nmax 12\noom 3\noom_kill 3",
        "cpu.max": "150000 100000",
    } | changes
    return tree(f"0::{path}", **{f"sys/fs/cgroup{folder}/{name}": value for name, value in values.items()})


@pytest.mark.parametrize("version", [v1, v2])
@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/slurm/job_7/step_0", "/slurm/job_7/step_0"),
        ("/docker/0123abcd", ""),  # a container that sees its own group as the root of the mount
        ("/", ""),
        ("/../../elsewhere", ""),
    ],
)
def test_limits_of_the_own_group(tree, version, path, folder):
    root = version(tree, path, folder)
    assert cgroup.memory_limit_bytes(root) == 4 * GIB
    assert cgroup.memory_left_bytes(root) == 3 * GIB
    assert cgroup.cpu_quota(root) == 1.5
    assert cgroup.oom_kills(root) == 3


def test_the_narrowest_of_the_groups_around_counts(tree):
    v2(tree, "/job/step", "/job/step")
    root = v2(tree, "/job/step", "/job", **{"memory.max": 2 * GIB, "cpu.max": "50000 100000", "memory.stat": ""})
    assert (cgroup.memory_limit_bytes(root), cgroup.memory_left_bytes(root)) == (2 * GIB, GIB // 2)
    assert cgroup.cpu_quota(root) == 0.5
    v1(tree, "/job/step", "/job/step", **{"memory.limit_in_bytes": UNLIMITED_V1})
    assert cgroup.memory_limit_bytes(v1(tree, "/job/step", "/job")) == 4 * GIB


def test_a_full_group_has_nothing_left(tree):
    root = v2(tree, "/", "", **{"memory.current": 5 * GIB, "memory.stat": ""})
    assert cgroup.memory_left_bytes(root) == 0


def test_no_limit_is_none(tree, tmp_path):
    root = v2(tree, "/", "", **{"memory.max": "max", "cpu.max": "max 100000"})
    assert (cgroup.memory_limit_bytes(root), cgroup.memory_left_bytes(root), cgroup.cpu_quota(root)) == (None,) * 3
    root = v1(tree, "/", "", **{"memory.limit_in_bytes": UNLIMITED_V1})
    (root / "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us").write_text("-1\n")
    assert (cgroup.memory_limit_bytes(root), cgroup.memory_left_bytes(root), cgroup.cpu_quota(root)) == (None,) * 3


def test_a_system_without_control_groups_limits_nothing(tmp_path):
    assert (cgroup.memory_left_bytes(tmp_path), cgroup.cpu_quota(tmp_path), cgroup.oom_kills(tmp_path)) == (
        None,
        None,
        0,
    )


def test_default_memory_limit_is_a_share_of_what_the_group_leaves(monkeypatch, tree):
    root = v2(tree, "/", "")
    monkeypatch.setattr(cgroup.memory_left_bytes, "__defaults__", (root,))
    assert memory.available_bytes() == memory.free_bytes()["free_host_bytes"] == 3 * GIB
    with CheckRunner(CheckSettings(), "test") as runner:
        assert runner.memory_limit == int(MEMORY_SHARE * 3 * GIB)


def test_a_quota_and_a_limit_are_recorded_and_make_another_machine(monkeypatch, tree):
    root = v2(tree, "/", "")
    for reader in (cgroup.cpu_quota, cgroup.memory_limit_bytes):
        monkeypatch.setattr(reader, "__defaults__", (root,))
    environment = machine.environment()
    assert (environment["cpu_quota"], environment["memory_limit_bytes"]) == (1.5, 4 * GIB)
    assert "-quota-of-1.5-" in machine.machine_name()


@pytest.mark.parametrize(("after", "outcome"), [(4, "out-of-memory-host"), (3, "crashed")])
def test_a_case_that_the_system_ends_for_want_of_memory_is_told_by_the_counter(monkeypatch, tree, after, outcome):
    """Of two that end by signal 9 with hardly any memory taken, one while the group's counter rises."""
    root = v2(tree, "/", "")
    monkeypatch.setattr(cgroup.oom_kills, "__defaults__", (root,))

    def on_phase(planned, phase):
        if phase == "import":
            v2(tree, "/", "", **{"memory.events": f"oom 3\noom_kill {after}"})

    with TimeRunner(TimeSettings(budget_s=0.0), "test", on_phase) as runner:
        records = [finished.record for finished in runner.run([planned("kills_itself", n) for n in (20, 30)])]
    assert [record.outcome for record in records] == [outcome, "skipped" if after > 3 else outcome]


@pytest.fixture
def small_group():
    """A real group of 700 MB inside this process's own; skips where none can be made."""
    files, folders = cgroup._groups("memory", cgroup.ROOT)
    if not folders:
        pytest.skip("no control group of memory here")
    folder = folders[0] / f"pairgrad-{uuid.uuid4().hex}"
    try:
        folder.mkdir()
        (folder / files.limit).write_text(str(700 << 20))
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    yield folder
    deadline = time.monotonic() + 10.0
    while (folder / "cgroup.procs").read_text() and time.monotonic() < deadline:
        time.sleep(0.05)  # the guard is the last to go
    folder.rmdir()


ALLOCATES = """
import json, os, sys
from pathlib import Path
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
from fake_cases import planned
from harness.run.runner import TimeRunner
from harness.run.settings import TimeSettings
plan = [planned("allocates", 20), planned("allocates", 30), planned("right", 30)]
limit = int(sys.argv[2]) or None
with TimeRunner(TimeSettings(budget_s=0.0, memory_limit_bytes=limit), "test") as runner:
    records = [finished.record for finished in runner.run(plan)]
    print(json.dumps([runner.memory_limit, *([r.outcome, r.reason] for r in records)]))
"""


@pytest.mark.thorough
@pytest.mark.parametrize("limit", [0, 1 << 40])
def test_in_a_real_group_a_row_that_allocates_is_out_of_memory(small_group, limit):
    """By the default limit, and by the system where the limit given is above the group's."""
    command = [sys.executable, "-c", ALLOCATES, str(small_group), str(limit)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(fake_cases.__file__).parent}"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    memory_limit, first, second, right = json.loads(run.stdout)
    assert first[0] == "out-of-memory-host", first
    assert ("killed by the system" in first[1]) == bool(limit)
    assert second == ["skipped", "out-of-memory-host at N = 20"]
    assert right[0] == "ok"
    assert limit or memory_limit < 700 << 20
    assert Path(small_group).exists()
