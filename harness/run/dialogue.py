"""What a worker tells of its cases, and what becomes of the one that it was at when it ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence

import msgspec

from harness.check.outcomes import is_no_space
from harness.contract.messages import Message
from harness.contract.problem import FloatArray
from harness.contract.protocol import Description
from harness.contract.records import EXPECTED_OUTCOMES, Outcome, Result
from harness.run.plan import Planned
from harness.run.process import Ended

TAIL_CHARACTERS = 1500
_OOM_SHARE = 0.5


class Answer(msgspec.Struct, kw_only=True):
    """What became of a case in a worker.

    Attributes:
        result: heard from the worker, or told from how it ended.
        case_s: wall seconds it took, the start of the process included for its first case.
        gradient: (N, 2), or None.
    """

    result: Result
    case_s: float | None = None
    gradient: FloatArray | None = None


class Dialogue:
    """What has been heard from a worker so far.

    Args:
        batch: its cases.
        on_phase: told what it is doing.
        limit_s: tells the seconds that its next case may take.

    Attributes:
        answers: of the cases that have a result, in order.
        phase: of the case it is at.
        limit_s: what it may take.
        description: of the row.
        garbled: why what it sends cannot be read any more.
    """

    def __init__(
        self, batch: Sequence[Planned], on_phase: Callable[[Planned, str], None], limit_s: Callable[[], float]
    ) -> None:
        self._batch, self._on_phase, self._next_limit_s = batch, on_phase, limit_s
        self.answers: list[Answer] = []
        self.description: Description | None = None
        self.garbled: str | None = None
        self._next_case()

    def _next_case(self) -> None:
        self.phase = "start"
        self.limit_s = self._next_limit_s()
        self._start = time.monotonic()

    @property
    def case_s(self) -> float:
        """Seconds that the case it is at has taken."""
        return time.monotonic() - self._start

    @property
    def is_waiting(self) -> bool:
        """Whether a result is missing: the worker has not done all its cases, nor ended by itself after a failure."""
        if len(self.answers) == len(self._batch):
            return False
        return not self.answers or self.answers[-1].result.outcome in EXPECTED_OUTCOMES

    def line(self, line: bytes) -> float | None:
        """Take one line in; where the worker's time is another from now on, its seconds."""
        if self.garbled is not None or not self.is_waiting:
            return None
        try:
            message = msgspec.json.decode(line, type=Message)
        except msgspec.MsgspecError as error:
            self.garbled = f"garbled output ({error}): {line[:80]!r}"
            return 0.0  # nothing more of it can be heard
        self.phase = message.phase or self.phase
        self.description = message.description or self.description
        self._on_phase(self._batch[len(self.answers)], self.phase)
        if message.result is None:
            return None
        message.result.description = self.description
        self.answers.append(Answer(result=message.result, case_s=self.case_s))
        self._next_case()
        return self.limit_s


def ending(ended: Ended, dialogue: Dialogue, memory_limit: int) -> Result:
    """The result of the case that a worker was at when it ended.

    Args:
        ended: how.
        dialogue: what it had told by then.
        memory_limit: bytes it was allowed.
    """
    outcome, words = _outcome(ended, dialogue, memory_limit)
    last = f"; last output: {ended.tail[-TAIL_CHARACTERS:]}" if ended.tail else ""
    reason = f"{words} during {dialogue.phase}{last}"
    return Result(outcome=outcome, reason=reason, description=dialogue.description)


def _outcome(ended: Ended, dialogue: Dialogue, memory_limit: int) -> tuple[Outcome, str]:
    peak, limit = (f"{size / 1e9:.2f} GB" for size in (ended.peak_bytes, memory_limit))
    if dialogue.garbled is not None:
        return "bad-output", dialogue.garbled
    if ended.killed == "timeout":
        return "timeout", f"ended after {dialogue.limit_s:.0f} s"
    if ended.killed == "memory":
        return "out-of-memory-host", f"ended at {peak}, limit {limit},"
    if ended.killed == "oom-killer":
        return "out-of-memory-host", f"killed by the system for want of memory at {peak}"
    if ended.killed == "output":
        return "bad-output", "too much output"
    if ended.returncode == -signal.SIGKILL and ended.peak_bytes > _OOM_SHARE * memory_limit:
        return "out-of-memory-host", f"killed by the system at {peak}"
    if is_no_space(ended.tail):
        return "harness-error", "no space was left on the disk"
    if ended.returncode < 0:
        return "crashed", f"killed by signal {-ended.returncode} ({signal.strsignal(-ended.returncode)})"
    return "crashed", f"exit status {ended.returncode} without a result"
