"""Ctrl-C: exit code 130, what was recorded is kept and named, and nothing of the run goes on."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid

import psutil
import pytest
from fake_cases import fake, marked

from harness.contract.store import read_records

COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run in the background may have it ignored
from harness.cli import main
main()
"""
HANGS = fake("times_out_from_200")


@pytest.fixture
def interrupted():
    """Start a command, wait until a row works and a condition holds, press Ctrl-C; returns exit code and output."""
    mark = uuid.uuid4().hex

    def run(*arguments, when=lambda: True):
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TEST_MARK": mark},
        )
        try:
            _until(lambda: when() and _works(mark))
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60.0)
        finally:
            process.kill()
        return process.returncode, output

    yield run
    _until(lambda: not marked(mark))


def test_bench_keeps_and_names_what_it_has(interrupted, tmp_path):
    results = tmp_path / "results"
    sizes = [word for n in (100, 200, 300) for word in ("--n", n)]
    code, output = interrupted(
        *("bench", "--impl", HANGS, *sizes, "--budget", 0, "--results", results),
        when=lambda: results.is_dir() and any(results.glob("*.jsonl")),  # the next worker is one that hangs
    )
    assert code == 130, output
    assert f"interrupted: 1 of 3 records kept in {results}; go on with the same command and --resume" in output
    assert "N = 100: published input" in output
    assert "Traceback" not in output
    assert [record.n for record in read_records([results])] == [100]


@pytest.mark.parametrize("jobs", [1, 2])
def test_check_decides_nothing(interrupted, tmp_path, jobs):
    verdict = tmp_path / "verdict.json"
    what = ("--impl", HANGS, "--n", 200, "--scenario", "published", "--jobs", jobs)
    code, output = interrupted("check", *what, "--json", verdict)
    assert (code, output) == (130, "interrupted: nothing was decided\n")
    assert not verdict.exists()


def _until(condition):
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _works(mark):
    with contextlib.suppress(psutil.Error):
        return any("harness.run.worker" in process.cmdline() for process in marked(mark))
    return False
