"""Nothing recorded is ever lost: not by a kill, a full disk or a second run beside this one."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest
from fake_cases import fake, strictly

from harness.contract.store import read_records

PAIRGRAD = [sys.executable, "-c", "from harness.cli import main; main()"]
FIVE = ["--n", "10", "--rounds", "5", "--budget", "0.01", "--threads", "1"]


def bench(folder, *options, impl=("right",), prelude=""):
    """The command line, in a process of its own; `prelude` is run there first."""
    rows = [word for name in impl for word in ("--impl", fake(name))]
    command = [sys.executable, "-c", f"{prelude}\nfrom harness.cli import main; main()"]
    return subprocess.run(
        [*command, "bench", *rows, "--results", str(folder), *(options or FIVE)], capture_output=True, text=True
    )


def in_folder(folder):
    return [entry for path in sorted(folder.glob("*.jsonl")) for entry in strictly(path)]


@pytest.mark.thorough
def test_killed_run_keeps_finished_records_and_resumes_with_the_rest(tmp_path):
    rows = ["--impl", fake("right"), "--results", str(tmp_path)]
    process = subprocess.Popen([*PAIRGRAD, "bench", *rows, *FIVE], stdout=subprocess.DEVNULL)
    while len(in_folder(tmp_path)) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    finished = in_folder(tmp_path)
    assert 2 <= len(finished) < 5
    assert bench(tmp_path, *FIVE, "--resume").returncode == 0
    everything = in_folder(tmp_path)
    assert sorted(entry["round"] for entry in everything) == [0, 1, 2, 3, 4]
    assert everything[: len(finished)] == finished
    assert "nothing left to run; 5 records in" in bench(tmp_path, *FIVE, "--resume").stdout


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_kill_during_a_write_leaves_a_file_that_parses(tmp_path, step):
    prelude = f"""
import os
real, calls = os.{step}, []
def fatal(*arguments):
    calls.append(1)
    if len(calls) == 3:
        os.kill(os.getpid(), 9)
    return real(*arguments)
os.{step} = fatal"""
    assert bench(tmp_path, prelude=prelude).returncode == -9
    assert [entry["round"] for entry in in_folder(tmp_path)] == [0, 1]
    assert bench(tmp_path, *FIVE, "--resume").returncode == 0
    assert [entry["round"] for entry in in_folder(tmp_path)] == [0, 1, 2, 3, 4]


@pytest.mark.thorough
def test_full_disk_is_an_error_and_keeps_what_was_written(tmp_path):
    prelude = """
import errno, os
real, calls = os.fsync, []
def full(*arguments):
    calls.append(1)
    if len(calls) == 3:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return real(*arguments)
os.fsync = full"""
    ended = bench(tmp_path, prelude=prelude)
    assert ended.returncode == 1
    assert "No space left on device" in ended.stderr
    assert [entry["round"] for entry in in_folder(tmp_path)] == [0, 1]
    assert os.listdir(tmp_path) == [path.name for path in tmp_path.glob("*.jsonl")]


@pytest.mark.thorough
def test_really_full_disk(tmp_path):
    """A tmpfs of 16 kB, in a mount namespace of its own."""
    script = f"""
mount -t tmpfs -o size=16k none {tmp_path} || exit 77
{sys.executable} -c 'from harness.cli import main; main()' \\
    bench --impl {fake("right")} --results {tmp_path} {" ".join(FIVE)} >/dev/null
status=$?
cat {tmp_path}/*.jsonl
exit $status"""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    ended = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script], capture_output=True, text=True
    )
    if ended.returncode == 77 or "unshare" in ended.stderr:
        pytest.skip("mounting is not permitted here")
    assert ended.returncode == 1
    assert "No space left on device" in ended.stderr
    assert all(json.loads(line)["outcome"] == "ok" for line in ended.stdout.splitlines())


@pytest.mark.thorough
def test_two_runs_at_once_keep_apart(tmp_path):
    rows = ["--impl", fake("right"), "--results", str(tmp_path)]
    both = [subprocess.Popen([*PAIRGRAD, "bench", *rows, *FIVE], stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    files = [strictly(path) for path in sorted(tmp_path.glob("*.jsonl"))]
    assert [[entry["round"] for entry in entries] for entries in files] == [[0, 1, 2, 3, 4]] * 2
    assert len({entries[0]["run_id"] for entries in files}) == 2


@pytest.mark.thorough
def test_shards_merge(tmp_path):
    for index in (1, 2, 3):
        options = ("--n", "10", "--dtype", "float64", "--dtype", "float32", "--threads", "1", "--budget", "0.01")
        ended = bench(tmp_path / str(index), *options, "--shard", f"{index}/3", impl=("right", "noisy"))
        assert ended.returncode == 0
    merged = read_records([tmp_path / "1", tmp_path / "2", tmp_path / "3"])
    assert {r.case_id for r in merged} == {
        f"{name}/published/10/cpu/{dtype}/1t" for name in ("right", "noisy") for dtype in ("float64", "float32")
    }
    assert len(merged) == 4


@pytest.mark.thorough
def test_json_has_no_nan(tmp_path):
    bench(tmp_path, "--n", "10", "--budget", "0.01", impl=("diverges", "raises", "right", "wrong_nan"))
    entries = {entry["implementation"]: entry for entry in in_folder(tmp_path)}
    assert (entries["diverges"]["outcome"], entries["diverges"]["loss"]) == ("disagrees", None)
    assert (entries["raises"]["outcome"], entries["raises"]["gradient_s"]) == ("error", None)
    assert entries["wrong_nan"]["worst"]["got"][1] is None
    assert entries["right"]["loss"] > 0


@pytest.mark.thorough
def test_bench_exits_1_on_an_outcome_nobody_expected_and_names_it(tmp_path):
    ended = bench(
        tmp_path, "--n", "10", "--budget", "0.01", "--threads", "1", impl=("raises", "right", "has_no_device")
    )
    assert ended.returncode == 1
    assert "problem raises/published/10/cpu/float64/1t: error: " in ended.stdout
    assert "this row has a bug" in ended.stdout
    assert "problem has_no_device/published" not in ended.stdout
    again = bench(tmp_path, "--n", "10", "--threads", "1", "--resume", impl=("raises", "right", "has_no_device"))
    assert (again.returncode, len(in_folder(tmp_path))) == (1, 3)  # what failed before still fails the run


@pytest.mark.thorough
def test_bench_exits_0_where_only_the_expected_happened(tmp_path):
    ended = bench(tmp_path, "--n", "10", "--budget", "0.01", "--device", "cpu", "--device", "cuda", impl=("right",))
    assert (ended.returncode, [entry["outcome"] for entry in in_folder(tmp_path)]) == (0, ["ok", "unsupported"])


@pytest.mark.thorough
def test_bench_exits_1_where_nothing_was_timed_of_a_row_asked_for(tmp_path):
    ended = bench(tmp_path, "--n", "10", "--budget", "0.01", impl=("right", "has_no_device", "supports_nothing"))
    assert (ended.returncode, len(in_folder(tmp_path))) == (1, 3)
    for name, outcome in (("has_no_device", "unavailable"), ("supports_nothing", "unsupported")):
        assert f"problem {name}: nothing was timed: {outcome}" in ended.stdout
    assert "problem right" not in ended.stdout
