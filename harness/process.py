"""A supervised process: bounded in time, memory and output, and gone with all its descendants when it ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec
import psutil

TAG = "PAIRGRAD_PROCESS"
"""Environment variable every descendant inherits, by which it is found."""
POLL_S = 0.05
MEMORY_POLL_S = 0.1
TREE_POLL_S = 1.0
TAIL_BYTES = 4000
CHANNEL_LIMIT_BYTES = 1 << 30

Killed = Literal["timeout", "memory", "output"]


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a supervised process ended.

    Attributes:
        returncode: exit status; negative for a signal.
        killed: the limit it was killed for, or None.
        channel: everything it wrote to its message channel.
        tail: the last bytes of its standard error, or of its standard output where that is empty.
        peak_bytes: largest resident memory seen of it and its descendants.
        wall_s: seconds from start to end.
    """

    returncode: int
    killed: Killed | None
    channel: bytes
    tail: str
    peak_bytes: int
    wall_s: float


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies, however that dies (Linux)."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def supervise(
    module: str,
    *arguments: str,
    request: bytes = b"",
    environment: Mapping[str, str],
    limit_s: float,
    memory_limit_bytes: int,
    on_line: Callable[[bytes], None] = lambda line: None,
) -> Ended:
    """Run `python -m module CHANNEL arguments...` to its end, or to a limit.

    The process is started afresh, never forked from this one's state, in a session of its own. When it has ended, every
    process that inherited its tag is killed.

    Args:
        module: to run; gets the message channel's descriptor as its first argument.
        arguments: further ones.
        request: its standard input.
        environment: its whole environment.
        limit_s: wall seconds it may take.
        memory_limit_bytes: resident memory it and its descendants may take, watched.
        on_line: called with each complete line of the channel as it arrives.
    """
    tag = uuid.uuid4().hex
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as stdin:
        stdin.write(request)
        stdin.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(writing), *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(writing,),
            env={**environment, TAG: tag},
            start_new_session=True,
        )
    os.close(writing)
    watched = _Watched(process, reading, limit_s, memory_limit_bytes, on_line)
    try:
        return watched.until_end()
    finally:
        end_all(process, tag)
        watched.close()


class _Watched:
    """The parent's side of one process: its three streams, its clock and its memory."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        channel: int,
        limit_s: float,
        memory_limit_bytes: int,
        on_line: Callable[[bytes], None],
    ) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process, self.on_line = process, on_line
        self.limit_s, self.memory_limit_bytes = limit_s, memory_limit_bytes
        self.start = time.monotonic()
        self.channel = bytearray()
        self.seen = 0
        self.tails = {"stdout": b"", "stderr": b""}
        self.peak_bytes = 0
        self.next_look, self.next_tree = 0.0, TREE_POLL_S
        self.files = (process.stdout, process.stderr, os.fdopen(channel, "rb", buffering=0))
        self.selector = selectors.DefaultSelector()
        for file, name in zip(self.files, ("stdout", "stderr", "channel"), strict=True):
            os.set_blocking(file.fileno(), False)
            self.selector.register(file, selectors.EVENT_READ, name)

    def until_end(self) -> Ended:
        killed: Killed | None = None
        while self.process.poll() is None and killed is None:
            self._read(POLL_S)
            killed = self._over_limit()
        if killed is not None:
            self.process.kill()
        returncode = self.process.wait()
        while self._read(0.0):  # what is left in the pipes; a descendant that holds one open is not waited for
            if time.monotonic() - self.start > self.limit_s + 2.0:
                break
        tail = self.tails["stderr"].strip() or self.tails["stdout"].strip()
        return Ended(
            returncode=returncode,
            killed=killed,
            channel=bytes(self.channel),
            tail=tail.decode(errors="replace"),
            peak_bytes=self.peak_bytes,
            wall_s=time.monotonic() - self.start,
        )

    def close(self) -> None:
        self.selector.close()
        for file in self.files:
            file.close()

    def _read(self, timeout_s: float) -> bool:
        """Take what has arrived; whether there was any."""
        arrived = False
        for key, _ in self.selector.select(timeout_s):
            chunk = os.read(key.fd, 1 << 20)
            if not chunk:
                self.selector.unregister(key.fileobj)
                continue
            arrived = True
            if key.data == "channel":
                self._receive(chunk)
            else:
                self.tails[key.data] = (self.tails[key.data] + chunk)[-TAIL_BYTES:]
        if not self.selector.get_map() and timeout_s:
            time.sleep(timeout_s)
        return arrived

    def _receive(self, chunk: bytes) -> None:
        self.channel += chunk
        while (end := self.channel.find(b"\n", self.seen)) >= 0:
            line, self.seen = bytes(self.channel[self.seen : end]), end + 1
            self.on_line(line)

    def _over_limit(self) -> Killed | None:
        elapsed = time.monotonic() - self.start
        if elapsed > self.limit_s:
            return "timeout"
        if len(self.channel) > CHANNEL_LIMIT_BYTES:
            return "output"
        if elapsed >= self.next_look:
            self.next_look = elapsed + MEMORY_POLL_S
            with_tree = elapsed >= self.next_tree
            if with_tree:
                self.next_tree = elapsed + TREE_POLL_S
            self.peak_bytes = max(self.peak_bytes, _resident(self.process.pid, with_tree))
            if self.peak_bytes > self.memory_limit_bytes:
                return "memory"
        return None


def _resident(pid: int, with_tree: bool) -> int:
    """Resident bytes of a process, with its descendants where asked; 0 once it is gone."""
    total = 0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in [process, *(process.children(recursive=True) if with_tree else ())]:
            with contextlib.suppress(psutil.Error):
                total += each.memory_info().rss
    return total


def end_all(process: subprocess.Popen[bytes], tag: str) -> None:
    """Kill a process, its group, and every process that carries its tag; returns when they are gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for _ in range(10):  # a process may start another while it is being looked for
        left = tagged(tag)
        if not left:
            return
        for each in left:
            with contextlib.suppress(psutil.Error):
                each.kill()
        psutil.wait_procs(left, timeout=1.0)


def tagged(tag: str) -> list[psutil.Process]:
    """Processes whose environment carries a tag."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if each.environ().get(TAG) == tag and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
    return found
