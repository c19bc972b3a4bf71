"""A command that is started without standard streams, as some schedulers and daemons do, works as any other."""

import json
import os
import subprocess
import sys

import pytest
from fake_cases import FAKES, fake

from harness.contract.registry import ROOT

COMMAND = f'exec "{sys.executable}" -m harness.cli'


def closed(streams, *arguments):
    """Run a command under a shell that closes streams; returns its exit code."""
    shell = f'{COMMAND} "$@" {streams}'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(["sh", "-c", shell, "sh", *map(str, arguments)], env=environment, check=False).returncode


@pytest.mark.parametrize(
    "streams", ["<&- >&- 2>&-", *(pytest.param(one, marks=pytest.mark.thorough) for one in ("<&-", ">&-", "2>&-"))]
)
def test_check_agrees_without_standard_streams(tmp_path, streams):
    verdict = tmp_path / "verdict.json"
    what = ("--scenario", "published", "--dtype", "float64", "--n", "50", "--json", verdict)
    assert closed(streams, "check", "--impl", fake("right"), *what) == 0
    assert json.loads(verdict.read_text())["agree"]


@pytest.mark.thorough
def test_bench_records_and_list_answers_without_them(tmp_path):
    what = ("--impl", fake("right"), "--n", "50", "--budget", "0", "--results", tmp_path)
    assert closed("<&- >&- 2>&-", "bench", *what) == 0
    (file,) = tmp_path.glob("*.jsonl")
    assert json.loads(file.read_text())["outcome"] == "ok"
    assert closed("<&- >&- 2>&-", "list", "--impl", fake("right")) == 0


def test_the_channel_is_none_of_the_standard_streams():
    """Asked of a process that has freed their numbers."""
    script = f"""
import os, sys
sys.path.insert(0, {str(FAKES)!r})
answer = os.dup(1)
for number in (0, 1, 2):
    os.close(number)
from harness.run.process import supervise
code = "import sys; open(int(sys.argv[1]), 'w').write(sys.argv[1])"
environment = {{"PYTHONPATH": {str(FAKES)!r}}}
ended = supervise("executes", code, environment=environment, limit_s=60.0, memory_limit_bytes=1 << 33)
os.write(answer, ended.channel)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert int(run.stdout) > 2, run.stderr
