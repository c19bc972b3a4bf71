"""Nothing recorded is ever lost: not by a kill, a full disk or a second run beside this one."""

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_cases import fake, planned

from harness.contract import output, records
from harness.contract.records import OUTCOMES, Record, case_id
from harness.contract.store import RecordFile, RecordsError, read_records
from harness.run.plan import Planned

PAIRGRAD = [sys.executable, "-c", "from harness.cli import main; main()"]
FIVE = ["--n", "10", "--n", "20", "--n", "30", "--n", "40", "--n", "50", "--budget", "0.01", "--threads", "1"]


def record(n=10, **fields):
    case = planned("right", n).case
    fields = {"outcome": "ok", "device": "cpu", "dtype": "float64", "threads": 1, **fields}
    return Record(case_id=case_id(case), implementation="right", scenario="published", n=n, **fields)


def bench(folder, *options, impl=("right",), prelude=""):
    """The command line, in a process of its own; `prelude` is run there first."""
    rows = [word for name in impl for word in ("--impl", fake(name))]
    command = [sys.executable, "-c", f"{prelude}\nfrom harness.cli import main; main()"]
    return subprocess.run(
        [*command, "bench", *rows, "--results", str(folder), *(options or FIVE)], capture_output=True, text=True
    )


def strictly(path):
    """Every line of a records file, parsed as JSON that has no NaN or Infinity."""

    def refuse(constant):
        raise AssertionError(f"{constant} in {path}")

    return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


def in_folder(folder):
    return [entry for path in sorted(folder.glob("*.jsonl")) for entry in strictly(path)]


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
    assert sorted(entry["n"] for entry in everything) == [10, 20, 30, 40, 50]
    assert everything[: len(finished)] == finished
    assert "nothing left to run; 5 records in" in bench(tmp_path, *FIVE, "--resume").stdout


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
    assert [entry["n"] for entry in in_folder(tmp_path)] == [10, 20]
    assert bench(tmp_path, *FIVE, "--resume").returncode == 0
    assert [entry["n"] for entry in in_folder(tmp_path)] == [10, 20, 30, 40, 50]


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
    assert [entry["n"] for entry in in_folder(tmp_path)] == [10, 20]
    assert os.listdir(tmp_path) == [path.name for path in tmp_path.glob("*.jsonl")]


def test_really_full_disk(tmp_path):
    """A tmpfs of 16 kB, in a mount namespace of its own."""
    script = f"""
mount -t tmpfs -o size=16k none {tmp_path} || exit 77
{sys.executable} -c 'from harness.cli import main; main()' \\
    bench --impl {fake("right")} --results {tmp_path} {" ".join(FIVE)}
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


def test_failed_first_write_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(output.os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(OSError, match="full"):
        RecordFile(tmp_path / "new.jsonl").add(record())
    assert list(tmp_path.iterdir()) == []


def test_two_runs_at_once_keep_apart(tmp_path):
    rows = ["--impl", fake("right"), "--results", str(tmp_path)]
    both = [subprocess.Popen([*PAIRGRAD, "bench", *rows, *FIVE], stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    files = [strictly(path) for path in sorted(tmp_path.glob("*.jsonl"))]
    assert [[entry["n"] for entry in entries] for entries in files] == [[10, 20, 30, 40, 50]] * 2
    assert len({entries[0]["run_id"] for entries in files}) == 2


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


def test_json_has_no_nan(tmp_path):
    bench(tmp_path, "--n", "10", "--budget", "0.01", impl=("diverges", "raises", "right", "wrong_nan"))
    entries = {entry["implementation"]: entry for entry in in_folder(tmp_path)}
    assert (entries["diverges"]["outcome"], entries["diverges"]["loss"]) == ("disagrees", None)
    assert (entries["raises"]["outcome"], entries["raises"]["gradient_s"]) == ("error", None)
    assert entries["wrong_nan"]["worst"]["got"][1] is None
    assert entries["right"]["loss"] > 0


def test_bench_exits_1_on_an_outcome_nobody_expected_and_names_it(tmp_path):
    ended = bench(
        tmp_path, "--n", "10", "--budget", "0.01", "--threads", "1", impl=("raises", "right", "has_no_device")
    )
    assert ended.returncode == 1
    assert "problem raises/published/10/cpu/float64/1t: error: " in ended.stdout
    assert "this row has a bug" in ended.stdout
    assert "has_no_device/published" not in ended.stdout
    again = bench(tmp_path, "--n", "10", "--threads", "1", "--resume", impl=("raises", "right", "has_no_device"))
    assert (again.returncode, len(in_folder(tmp_path))) == (1, 3)  # what failed before still fails the run


def test_bench_exits_0_where_only_the_expected_happened(tmp_path):
    ended = bench(tmp_path, "--n", "10", "--budget", "0.01", "--device", "cpu", "--device", "cuda", impl=("right",))
    assert (ended.returncode, [entry["outcome"] for entry in in_folder(tmp_path)]) == (0, ["ok", "unsupported"])


def test_bench_exits_1_where_nothing_was_timed_of_a_row_asked_for(tmp_path):
    ended = bench(tmp_path, "--n", "10", "--budget", "0.01", impl=("right", "has_no_device", "supports_nothing"))
    assert (ended.returncode, len(in_folder(tmp_path))) == (1, 3)
    for name, outcome in (("has_no_device", "unavailable"), ("supports_nothing", "unsupported")):
        assert f"problem {name}: nothing was timed: {outcome}" in ended.stdout
    assert "problem right" not in ended.stdout


def test_a_single_sample_is_valid_json(tmp_path):
    path = tmp_path / "one.jsonl"
    RecordFile(path).add(record(forward_s=1.0, forward_iqr_s=float("nan"), forward_samples_s=[1.0]))
    assert strictly(path)[0]["forward_iqr_s"] is None


def test_records_survive_the_round_trip(tmp_path):
    file = RecordFile(tmp_path / "a.jsonl")
    written = [record(n, outcome=outcome, reason="why", timestamp=f"{n:03}") for n, outcome in enumerate(OUTCOMES)]
    for each in written:
        file.add(each)
    assert read_records([tmp_path]) == written


def test_unknown_outcome_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"outcome": "fine", "implementation": "x", "scenario": "s", "n": 1}\n')
    with pytest.raises(RecordsError, match=r"a\.jsonl, line 1: not a record"):
        read_records([path])


def test_newer_schema_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    RecordFile(path).add(record(schema_version=records.SCHEMA_VERSION + 1))
    with pytest.raises(RecordsError, match="newer than"):
        read_records([path])


@pytest.mark.parametrize("blank", ["\n", "  \n", "\r\n"])
def test_blank_lines_are_no_records(tmp_path, blank):
    path = tmp_path / "a.jsonl"
    RecordFile(path).add(record())
    path.write_bytes(blank.encode() + path.read_bytes() + blank.encode())
    assert [each.n for each in read_records([path])] == [10]


def test_a_wrong_line_keeps_its_number_after_a_blank_one(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("\n{}\n")
    with pytest.raises(RecordsError, match="line 2"):
        read_records([path])


def test_a_folder_called_local_is_read_like_any_other(tmp_path):
    for name in ("local", "other", "deeper/local"):
        RecordFile(tmp_path / name / "a.jsonl").add(record())
    assert len(read_records([tmp_path])) == 3


def test_of_the_default_folder_local_records_are_left_out_unless_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("results/here", "results/here/local", "results/local", "results/local/deeper"):
        RecordFile(Path(name) / "a.jsonl").add(record())
    assert len(read_records([Path("results")])) == len(read_records([tmp_path / "results"])) == 2
    assert len(read_records([Path("results/local")])) == 2


def test_records_come_through_a_pipe(tmp_path):
    RecordFile(tmp_path / "a.jsonl").add(record())
    reading, writing = os.pipe()
    os.write(writing, (tmp_path / "a.jsonl").read_bytes())
    os.close(writing)
    assert [each.n for each in read_records([Path(f"/proc/self/fd/{reading}")])] == [10]
    os.close(reading)


def test_missing_folder_is_named():
    with pytest.raises(RecordsError, match="nowhere is neither a file nor a folder"):
        read_records([Path("nowhere")])


def test_case_id_names_no_path():
    case = planned("right", 10, threads=2).case
    assert case_id(case) == "right/published/10/cpu/float64/2t"
    assert isinstance(Planned(case, 0).case.implementation, str)
