"""Ctrl-C, TERM and HUP: exit code 128 + n, what was recorded is kept and named, and nothing of the run is left."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from fake_cases import fake, planned
from selection import thorough

from harness.contract.store import read_records
from harness.run.process import FAMILY, tagged
from harness.run.runner import CheckRunner
from harness.run.settings import CheckSettings

COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run in the background may have these ignored
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from harness.cli import main
main()
"""
HANGS = fake("times_out_from_200")


ASKED = {
    signal.SIGINT: "interrupted: ",
    signal.SIGTERM: "interrupted by SIGTERM: ",
    signal.SIGHUP: "interrupted by SIGHUP: ",
}


@pytest.fixture
def interrupted(tmp_path):
    """Start a command, wait until a row works and a condition holds, send a signal; returns exit code and output."""
    temporary, children = tmp_path / "temporary", []
    temporary.mkdir()

    def run(*arguments, number=signal.SIGINT, when=lambda: True, command=COMMAND):
        process = subprocess.Popen(
            [sys.executable, "-c", command, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TMPDIR": str(temporary)},
        )
        try:
            _until(lambda: when() and _works(process))
            children.extend(psutil.Process(process.pid).children(recursive=True))
            process.send_signal(number)
            output, _ = process.communicate(timeout=60.0)
        finally:
            process.kill()
        return process.returncode, output

    yield run
    _until(lambda: not any(child.is_running() for child in children))
    assert not list(temporary.glob("pairgrad-*"))


@pytest.mark.parametrize("number", thorough(ASKED, few=[signal.SIGINT]))
def test_bench_keeps_and_names_what_it_has(interrupted, tmp_path, number):
    results = tmp_path / "results"
    sizes = [word for n in (100, 200, 300) for word in ("--n", n)]
    code, output = interrupted(
        *("bench", "--impl", HANGS, *sizes, "--budget", 0, "--results", results),
        number=number,
        when=lambda: results.is_dir() and any(results.glob("*.jsonl")),  # the next worker is one that hangs
    )
    assert code == 128 + number, output
    assert f"{ASKED[number]}1 of 3 records kept in {results}; go on with the same command and --resume" in output
    assert "N = 100: published input" in output
    assert "Traceback" not in output
    assert [record.n for record in read_records([results])] == [100]


@pytest.mark.thorough
@pytest.mark.parametrize("number", ASKED)
@pytest.mark.parametrize("jobs", [1, 2])
def test_check_decides_nothing(interrupted, tmp_path, jobs, number):
    verdict = tmp_path / "verdict.json"
    what = ("--impl", HANGS, "--n", 200, "--scenario", "published", "--jobs", jobs)
    code, output = interrupted("check", *what, "--json", verdict, number=number)
    assert (code, output) == (128 + number, f"{ASKED[number]}nothing was decided\n")
    assert not verdict.exists()


@pytest.mark.thorough
def test_list_ends_what_it_asks(interrupted):
    code, output = interrupted("list", "--impl", fake("hangs_at_import"), number=signal.SIGTERM)
    assert (code, output.splitlines()) == (143, ["interrupted by SIGTERM"])


@pytest.mark.thorough
def test_what_is_ignored_stays_so(interrupted, tmp_path):
    """As under nohup: the run goes on."""
    under_nohup = COMMAND.replace("signal.SIG_DFL", "signal.SIG_IGN")
    what = ("bench", "--impl", fake("right"), "--n", 100, "--budget", 2, "--results", tmp_path)
    code, output = interrupted(*what, number=signal.SIGHUP, command=under_nohup)
    assert code == 0, output


def test_an_interrupt_between_two_cases_ends_the_jobs_that_run():
    """Not while the next case is waited for, but while one that ended is dealt with."""
    plan = [planned("right", 20), planned("hangs_in_native_code", 20)]

    def interrupted_after_the_first():
        with CheckRunner(CheckSettings(jobs=2), "test") as runner:
            for _ in runner.run(plan):
                _until(lambda: tagged(FAMILY))
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_after_the_first()
    assert tagged(FAMILY) == []


def _until(condition):
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _works(command):
    """Whether a command has started a child on a row."""
    with contextlib.suppress(psutil.Error):
        children = psutil.Process(command.pid).children(recursive=True)
        return any({"harness.run.worker", "harness.run.describe"} & {*child.cmdline()} for child in children)
    return False
