"""A supervised process: bounded in time, memory and output, and gone with all its descendants when it ends.

Descendants inherit a tag in their environment, by which they are found whatever session or parent they moved to. A
guard process finds them so when this process itself is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import itertools
import os
import selectors
import signal
import site
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
import psutil

from harness.contract.registry import ROOT
from harness.run import cgroup

TAG = "PAIRGRAD_PROCESS"
"""Environment variable every descendant inherits, by which it is found."""
POLL_S = 0.05
MEMORY_POLL_S = 0.1
FAMILY_POLL_S = 1.0
"""How often descendants are looked for; their memory counts from then on."""
DRAIN_S = 1.0
TAIL_BYTES = 4000
CHANNEL_LIMIT_BYTES = 1 << 28

Killed = Literal["timeout", "memory", "output", "oom-killer"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

FAMILY = uuid.uuid4().hex
"""Begins the tag of every process started from here."""
_serial = itertools.count()


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a supervised process ended.

    Attributes:
        returncode: exit status; negative for a signal.
        killed: the limit it was killed for; "oom-killer" where the system did it for want of memory; or None.
        channel: everything it wrote to its message channel.
        tail: the last bytes of its standard error, or of its standard output where that is empty.
        peak_bytes: largest resident memory seen of it and its descendants.
    """

    returncode: int
    killed: Killed | None
    channel: bytes
    tail: str
    peak_bytes: int

    @property
    def words(self) -> str:
        """What it was killed for or that it crashed, and its last line."""
        last = self.tail.strip().splitlines()[-1:] or [f"exit status {self.returncode}"]
        return f"{self.killed or 'crashed'}: {last[0]}"


def supervise(
    module: str,
    *arguments: str,
    request: bytes = b"",
    environment: Mapping[str, str],
    folder: Path | None = None,
    cores: Iterable[int] | None = None,
    limit_s: float,
    memory_limit_bytes: int,
    on_line: Callable[[bytes], float | None] = lambda line: None,
) -> Ended:
    """Run `python -m module CHANNEL arguments...` to its end, or to a limit.

    The process is started afresh, never forked from this one's state, in a session of its own. When this returns, it
    and all its descendants are gone; when this process dies first, they are killed at once.

    Args:
        module: to run; gets the message channel's descriptor as its first argument.
        arguments: further ones.
        request: its standard input.
        environment: its whole environment, but for this project on its module search path and its tag.
        folder: it works in; None for this process's own.
        cores: processors it runs on from its first instruction; None for all of this process.
        limit_s: wall seconds it may take.
        memory_limit_bytes: resident memory it and its descendants may take, watched.
        on_line: called with each complete line of the channel as it arrives; seconds that it returns are what the
            process may take from then on.
    """
    with _starting:
        _guard()
    tag = f"{FAMILY}.{next(_serial)}."  # the last point keeps 1 from being the start of 10
    reading, writing = _pipe()
    kills = cgroup.oom_kills()
    with tempfile.TemporaryFile() as stdin, _affinity(cores):
        stdin.write(request)
        stdin.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(writing), *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(writing,),
            env={**environment, "PYTHONPATH": _search_path(environment), TAG: tag},
            cwd=folder,
            start_new_session=True,
        )
    os.close(writing)
    with contextlib.closing(_Watched(process, tag, reading, limit_s, memory_limit_bytes, on_line)) as watched:
        try:
            killed = watched.until_over()
        finally:
            _end(process, tag)
        ended = watched.ended(killed)
    if killed is None and ended.returncode == -signal.SIGKILL and cgroup.oom_kills() > kills:
        return msgspec.structs.replace(ended, killed="oom-killer")
    return ended


def _pipe() -> tuple[int, int]:
    """A pipe above the standard streams, whose numbers are free where this process was started without them."""
    low = os.pipe()
    reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3) for end in low)
    for end in low:
        os.close(end)
    return reading, writing


def _search_path(environment: Mapping[str, str]) -> str:
    """PYTHONPATH with which a child finds the modules that run here, installed or not, whatever folder it works in.

    Where they are installed it finds them by itself, and earlier they would hide modules of the standard library.
    """
    given = environment.get("PYTHONPATH", "")
    folders = [os.path.abspath(folder) for folder in given.split(os.pathsep)] if given else []
    installed = str(ROOT) in (*site.getsitepackages(), site.getusersitepackages())
    return os.pathsep.join(folders if installed else [str(ROOT), *folders])


def tagged(prefix: str) -> list[psutil.Process]:
    """Living processes whose tag begins so."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if each.environ().get(TAG, "").startswith(prefix) and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
    return found


class _Watched:
    """The parent's side of one process: its three streams, its clock and its memory."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        tag: str,
        channel: int,
        limit_s: float,
        memory_limit_bytes: int,
        on_line: Callable[[bytes], float | None],
    ) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process, self.tag, self.on_line = process, tag, on_line
        self.memory_limit_bytes = memory_limit_bytes
        self.start = time.monotonic()
        self.deadline = self.start + limit_s
        self.channel = bytearray()
        self.line_start = 0
        self.tails = {"stdout": b"", "stderr": b""}
        self.family = [psutil.Process(process.pid)]
        self.peak_bytes = 0
        self.next_look, self.next_family = 0.0, FAMILY_POLL_S
        self.files = (process.stdout, process.stderr, os.fdopen(channel, "rb", buffering=0))
        self.selector = selectors.DefaultSelector()
        for file, name in zip(self.files, ("stdout", "stderr", "channel"), strict=True):
            os.set_blocking(file.fileno(), False)
            self.selector.register(file, selectors.EVENT_READ, name)

    def until_over(self) -> Killed | None:
        """Return when the process has ended, or what it must be killed for."""
        killed = None
        while killed is None and self.process.poll() is None:
            self._read(POLL_S)
            killed = self._over_limit()
        return killed

    def ended(self, killed: Killed | None) -> Ended:
        """All there is to say when the process and its descendants are gone."""
        deadline = time.monotonic() + DRAIN_S
        while self._read(0.0) and time.monotonic() < deadline:
            pass
        code = self.process.poll()
        tail = self.tails["stderr"].strip() or self.tails["stdout"].strip()
        return Ended(
            returncode=-signal.SIGKILL if code is None else code,
            killed=killed,
            channel=bytes(self.channel),
            tail=tail.decode(errors="replace"),
            peak_bytes=self.peak_bytes,
        )

    def close(self) -> None:
        self.selector.close()
        for file in self.files:
            file.close()

    def _read(self, timeout_s: float) -> bool:
        """Take what has arrived; whether there was any."""
        if not self.selector.get_map():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout_s)
            return False
        arrived = False
        for key, _ in self.selector.select(timeout_s):
            chunk = os.read(key.fd, 1 << 20)
            arrived = arrived or bool(chunk)
            if not chunk:
                self.selector.unregister(key.fileobj)
            elif key.data == "channel":
                self._receive(chunk)
            else:
                self.tails[key.data] = (self.tails[key.data] + chunk)[-TAIL_BYTES:]
        return arrived

    def _receive(self, chunk: bytes) -> None:
        searched = len(self.channel)
        self.channel += chunk
        while (end := self.channel.find(b"\n", searched)) >= 0:
            line = bytes(self.channel[self.line_start : end])
            self.line_start = searched = end + 1
            limit_s = self.on_line(line)
            if limit_s is not None:
                self.deadline = time.monotonic() + limit_s

    def _over_limit(self) -> Killed | None:
        now = time.monotonic()
        elapsed = now - self.start
        if now > self.deadline:
            return "timeout"
        if len(self.channel) > CHANNEL_LIMIT_BYTES:
            return "output"
        if elapsed >= self.next_family:
            self.next_family = elapsed + FAMILY_POLL_S
            self.family = tagged(self.tag)
        if elapsed >= self.next_look:
            self.next_look = elapsed + MEMORY_POLL_S
            self.peak_bytes = max(self.peak_bytes, sum(map(_resident, self.family)))
        return "memory" if self.peak_bytes > self.memory_limit_bytes else None


def _resident(process: psutil.Process) -> int:
    """Resident bytes of a process; 0 once it is gone."""
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _end(process: subprocess.Popen[bytes], tag: str) -> None:
    """Kill a process, its group, and every process that carries its tag; returns when they are gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):  # one that hangs inside the kernel is left to it
        process.wait(1.0)
    _end_tagged(tag)


def end_family() -> None:
    """Kill everything this process supervises."""
    _end_tagged(f"{FAMILY}.")


def _end_tagged(prefix: str) -> None:
    """Kill what carries the tag until two looks in a row find nothing: one misses what is started while it lasts."""
    seen_none = 0
    for _ in range(10):
        left = tagged(prefix)
        seen_none = 0 if left else seen_none + 1
        if seen_none == 2:
            return
        for each in left:
            with contextlib.suppress(psutil.Error):
                each.kill()
        psutil.wait_procs(left, timeout=0.2)


def at_once(function: Callable[[_Item], _Result], items: Iterable[_Item], jobs: int) -> Iterator[_Result]:
    """`function` of each item in order, several at once; where the caller stops early, all that is supervised ends."""
    with ThreadPoolExecutor(jobs, thread_name_prefix="job") as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        except BaseException:  # an interrupt: the pool would wait for what runs
            for future in futures:
                future.cancel()
            while wait(futures, timeout=POLL_S).not_done:  # again: a job may be about to start a process
                end_family()
            raise


@contextlib.contextmanager
def _affinity(cores: Iterable[int] | None) -> Iterator[None]:
    """What is started inside inherits these processors, as does every thread it starts."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if cores is None else cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


_starting = threading.Lock()


@functools.cache
def _guard() -> subprocess.Popen[bytes]:
    """Start the process that, once this one is dead however it died, ends all that it supervised."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "harness.run.process", FAMILY],
        stdin=subprocess.PIPE,  # never written to: its other end closes when this process dies
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": _search_path(os.environ)},
        start_new_session=True,
    )


def main() -> None:
    """`python -m harness.run.process TAG`: the guard."""
    sys.stdin.buffer.read()
    _end_tagged(sys.argv[1])


if __name__ == "__main__":
    main()
