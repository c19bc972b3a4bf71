"""What goes wrong with the harness and not with a row has an outcome of its own, and a resumed run does it again."""

import errno
import os
import shutil
import subprocess
import sys

import msgspec
import pytest
from fake_cases import fake, made_record, planned

from harness.check.oracle import ALL_PAIRS_LIMIT
from harness.check.outcomes import outcome_of
from harness.contract.messages import Message
from harness.contract.records import Result
from harness.contract.store import read_records
from harness.run import machine, references
from harness.run import runner as running
from harness.run.process import Ended
from harness.run.resume import split
from harness.run.runner import TimeRunner
from harness.run.settings import TimeSettings

FULL = os.strerror(errno.ENOSPC)
LARGE = ALL_PAIRS_LIMIT + 1


def ended(**fields):
    return Ended(**{"returncode": 0, "killed": None, "channel": b"", "tail": "", "peak_bytes": 0, **fields})


def full(*arguments, **options):
    raise OSError(errno.ENOSPC, FULL)


def record(n=10):
    """The record of a case that is timed, which a resumed run takes up again."""
    plan = [planned("right", n)]
    with TimeRunner(TimeSettings(budget_s=0.0), "test") as runner:
        (finished,) = runner.run(plan)
        assert split(plan, [finished.record], runner.environment) == (plan, [])
    assert finished.record.outcome == "harness-error"
    assert not finished.record.is_expected
    return finished.record


def test_an_oracle_that_fails_is_no_fault_of_the_row(monkeypatch):
    monkeypatch.setattr(references, "ask", lambda *a, **b: ended(returncode=1, tail=f"OSError: {FULL}"))
    assert record(LARGE).reason == f"the oracle did not answer: crashed: OSError: {FULL}"


def test_references_that_cannot_be_kept_are_no_fault_of_the_row(monkeypatch):
    monkeypatch.setattr(references, "save", full)
    assert FULL in record().reason


def test_a_process_that_cannot_be_started_is_no_fault_of_the_row(monkeypatch):
    monkeypatch.setattr(running, "supervise", full)
    assert record().reason == f"no process could be run for it: [Errno 28] {FULL}"


def test_a_row_that_dies_of_a_full_disk_is_to_be_tried_again(monkeypatch):
    monkeypatch.setattr(running, "supervise", lambda *arguments, **options: ended(returncode=1, tail=FULL))
    assert FULL in record().reason


def test_ok_without_a_sample_is_not_ok_where_times_were_asked_for(monkeypatch):
    def untimed(*arguments, on_line, **options):
        on_line(msgspec.json.encode(Message(result=Result(outcome="ok"))))
        return ended()

    monkeypatch.setattr(running, "supervise", untimed)
    assert record().reason == "nothing was timed"


def test_ok_without_a_sample_is_measured_anew_by_a_resumed_run():
    environment = machine.environment()
    found = made_record(environment=environment)
    assert split([planned("right", 10)], [found], environment)[1] == []


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, FULL),
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
        RuntimeError("clang: error: unable to write x.o: no space left on device"),
    ],
)
def test_a_full_disk_met_inside_a_row_is_a_harness_error(error):
    assert outcome_of(error, planned("right").case) == "harness-error"


@pytest.mark.parametrize("error", [OSError(errno.EACCES, "no"), RuntimeError("space"), MemoryError()])
def test_other_errors_are_the_rows(error):
    assert outcome_of(error, planned("right").case) != "harness-error"


@pytest.mark.thorough
def test_a_really_full_temporary_folder_is_told_and_resumed(tmp_path):
    """A tmpfs of 16 kB, in a mount namespace of its own: the reference of the larger N does not fit."""
    temporary, results = tmp_path / "temporary", tmp_path / "results"
    temporary.mkdir()
    bench = [sys.executable, "-m", "harness.cli", "bench", "--impl", fake("right"), "--results", str(results)]
    bench += ["--n", "10", "--n", "1000", "--budget", "0", "--threads", "1"]
    script = 'mount -t tmpfs -o size=16k none "$TMPDIR" || exit 77; exec "$@"'
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    full = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *bench],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
    )
    if full.returncode == 77 or "unshare" in full.stderr:
        pytest.skip("mounting is not permitted here")
    assert full.returncode == 1
    assert "harness-error" in full.stdout
    assert [each.outcome for each in read_records([results])] == ["ok", "harness-error"]
    again = subprocess.run([*bench, "--resume"], capture_output=True, text=True)
    assert again.returncode == 0, again.stdout
    assert [(each.n, each.outcome) for each in read_records([results])][2:] == [(1000, "ok")]
