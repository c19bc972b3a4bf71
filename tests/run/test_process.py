"""A supervised process: what is known of it when it has ended, and the limits it is ended at."""

import os
import signal

import psutil
import pytest
from fake_cases import FAKES

from harness.run import process
from harness.run.process import FAMILY, supervise, tagged

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(FAKES)}
SAY = "import os, sys, time; say = lambda b: os.write(int(sys.argv[1]), b)\n"


def python(code, **options):
    """Run a piece of code under supervision; `say(b"...")` in it writes to the channel."""
    limits = {"environment": ENVIRONMENT, "limit_s": 60.0, "memory_limit_bytes": 1 << 33}
    return supervise("executes", SAY + code, **{**limits, **options})


def test_all_that_is_said_arrives_and_lines_as_they_come():
    lines = []
    ended = python(r"say(b'one\ntw'); time.sleep(0.2); say(b'o\nrest')", on_line=lines.append)
    assert (ended.returncode, ended.killed) == (0, None)
    assert ended.channel == b"one\ntwo\nrest"
    assert lines == [b"one", b"two"]


def test_the_request_is_its_standard_input():
    assert python("say(sys.stdin.buffer.read().upper())", request=b"asked").channel == b"ASKED"


@pytest.mark.parametrize(
    ("code", "tail"),
    [
        ("print('out'); print('error', file=sys.stderr)", "error"),
        ("print('out')", "out"),
        ("print('x' * 10_000 + 'end')", "x" * 3996 + "end"),
        ("sys.stdout.buffer.write(bytes([255]))", "\N{REPLACEMENT CHARACTER}"),
        ("pass", ""),
    ],
)
def test_the_tail_is_the_last_of_its_errors_or_else_of_its_output(code, tail):
    ended = python(code)
    assert ended.tail[-len(tail) :] == tail if tail else ended.tail == ""
    assert len(ended.tail) <= process.TAIL_BYTES


@pytest.mark.parametrize(
    ("code", "status"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 11)", -signal.SIGSEGV), ("os._exit(0)", 0)]
)
def test_its_status_is_its_own(code, status):
    ended = python(code)
    assert (ended.returncode, ended.killed) == (status, None)


def test_limit_of_time_ends_it_and_keeps_what_it_said():
    ended = python("say(b'here'); print('last', flush=True); time.sleep(600)", limit_s=2.0)
    assert (ended.killed, ended.returncode) == ("timeout", -signal.SIGKILL)
    assert (ended.channel, ended.tail) == (b"here", "last")


def test_limit_of_memory_counts_what_is_resident():
    ended = python("x = bytearray(300 << 20); time.sleep(600)", memory_limit_bytes=200 << 20)
    assert ended.killed == "memory"
    assert ended.peak_bytes > 200 << 20


def test_limit_of_output_ends_it(monkeypatch):
    monkeypatch.setattr(process, "CHANNEL_LIMIT_BYTES", 1 << 16)
    ended = python("while True: say(bytes(1 << 12))")
    assert ended.killed == "output"


def test_what_it_has_started_ends_with_it():
    code = "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid)"
    child = int(python(code).tail)
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
    assert tagged(FAMILY) == []


def test_a_module_that_is_not_there_is_told():
    ended = supervise("no_such_module", environment=ENVIRONMENT, limit_s=60.0, memory_limit_bytes=1 << 33)
    assert ended.returncode == 1
    assert "No module named no_such_module" in ended.tail
