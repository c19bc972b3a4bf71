"""Runs a plan: each case in a fresh process of its own, each becomes exactly one record. Imports no framework."""

from __future__ import annotations

import datetime
import io
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import psutil

from harness.check.hard_cases import HARD_SCENARIO
from harness.check.outcomes import is_no_space
from harness.check.reference import load
from harness.contract import registry
from harness.contract.encoding import pack
from harness.contract.messages import Message, Request
from harness.contract.problem import FloatArray, Problem
from harness.contract.protocol import Case, Description
from harness.contract.records import LIMIT_OUTCOMES, Outcome, Record, Result, case_id
from harness.run import machine, memory
from harness.run.child import child_environment
from harness.run.plan import Planned, series
from harness.run.process import Ended, end_family, supervise
from harness.run.settings import Settings

MEMORY_SHARE = 0.9
"""Default memory limit: this share of what is available when the run starts."""
TAIL_CHARACTERS = 1500
DEADLINE_OVER = "the time of the run was over"
"""Reason of a case skipped, or cut short, for that; a resumed run takes it up again."""
SETTLE_S = 10.0
SETTLED_BYTES = 64 << 20

_OOM_SHARE = 0.5


class Finished(msgspec.Struct, frozen=True):
    """A case's record and, where asked for and right, its gradient."""

    record: Record
    gradient: FloatArray | None = None


class Runner:
    """Runs planned cases one after the other, with the references they share.

    Use as a context manager: references and kernel caches live in a temporary folder until it is left.

    Args:
        settings: how.
        run_id: goes into every record.
        on_phase: told what is being done.
        earlier: records of the same plan from a run that this one resumes.
    """

    def __init__(
        self,
        settings: Settings,
        run_id: str,
        on_phase: Callable[[Planned, str], None] = lambda planned, phase: None,
        earlier: Iterable[Record] = (),
    ) -> None:
        self.settings = settings
        self.run_id = run_id
        self.on_phase = on_phase
        self._deadline = time.monotonic() + settings.within_s
        self.environment = machine.environment()
        available = int(MEMORY_SHARE * psutil.virtual_memory().available)
        self.memory_limit = settings.memory_limit_bytes or available // settings.jobs
        self._stopped: dict[tuple[str, int], Record] = {}
        self._hung: dict[str, Record] = {}
        self._unloadable: dict[str, Result] = {}
        for record in earlier:
            self._note(record)
        self._folder = tempfile.TemporaryDirectory(prefix="pairgrad-", ignore_cleanup_errors=True)
        self._references: dict[str, Path | str] = {}
        self._evaluating = threading.Lock()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *exception: object) -> None:
        self._folder.cleanup()

    def run(self, plan: Iterable[Planned]) -> Iterator[Finished]:
        """Run a plan in order; every planned case gives exactly one record, whatever happens to its process."""
        if self.settings.jobs == 1:
            yield from map(self._run, plan)
            return
        with ThreadPoolExecutor(self.settings.jobs, thread_name_prefix="job") as pool:
            try:
                yield from pool.map(self._run, plan)
            except BaseException:  # an interrupt: what runs is ended, or the pool would wait for it
                self._deadline = 0.0  # what a job is about to start all the same has a second
                end_family()
                raise

    def _run(self, planned: Planned) -> Finished:
        foregone = self._foregone(planned)
        if foregone is not None:
            return Finished(self._record(planned, foregone, case_s=None))
        self.on_phase(planned, "reference")
        with self._evaluating:
            references = self._reference(planned.case)
        if isinstance(references, str):
            return Finished(self._record(planned, Result(outcome="harness-error", reason=references), case_s=None))
        start = time.monotonic()
        try:
            result, gradient = self._supervised(planned, references)
        except OSError as error:
            reason = f"no process could be run for it: {error}"
            return Finished(self._record(planned, Result(outcome="harness-error", reason=reason), case_s=None))
        record = self._record(planned, result, time.monotonic() - start)
        self._note(record)
        if result.outcome == "error" and result.description is None:
            self._unloadable[record.implementation] = result
        return Finished(record, gradient)

    def _foregone(self, planned: Planned) -> Result | None:
        """What becomes of a case without a process of its own; None if it is run."""
        name = registry.row_name(planned.case.implementation)
        if name in self._unloadable:
            return self._unloadable[name]
        stopped, hung = self._stopped.get((series(planned.case), planned.round)), self._hung.get(name)
        before = stopped or hung
        if before is not None and self.settings.skip_larger:
            where = f"N = {before.n:,}" if stopped else before.case_id
            return Result(outcome="skipped", reason=f"{before.outcome} at {where}")
        if time.monotonic() > self._deadline:
            return Result(outcome="skipped", reason=DEADLINE_OVER)
        return None

    def _note(self, record: Record) -> None:
        """Remember where a series came to its end, and in a check that a row hangs."""
        if record.outcome in LIMIT_OUTCOMES:
            self._stopped[series(record.case), record.round] = record
        if record.outcome == "timeout" and self.settings.budget_s is None:
            self._hung[record.implementation] = record

    def _supervised(self, planned: Planned, references: Path) -> tuple[Result, FloatArray | None]:
        """The worker's result, and its gradient where asked for."""
        case, heard = planned.case, _Heard()

        def on_line(line: bytes) -> None:
            if heard.line(line):
                self.on_phase(planned, heard.phase)

        cores = machine.available_cores()[: case.threads]
        request = Request(
            case=case,
            references=str(references),
            budget_s=self.settings.budget_s,
            gradient=self.settings.gradients,
        )
        limit_s = self._limit_s()
        used = memory.cuda_used_bytes() if case.device == "cuda" else None
        with tempfile.TemporaryDirectory(dir=self._folder.name, ignore_cleanup_errors=True) as private:
            # compile times want cold caches; a check has none, and the cases of one job come one after the other
            shared = f"{self._folder.name}/{threading.current_thread().name}"
            caches = Path(private if self.settings.budget_s is not None else shared) / "caches"
            ended = supervise(
                "harness.run.worker",
                request=pack(request),
                environment=child_environment(case, len(cores), Path(private), caches),
                cores=cores,
                limit_s=limit_s,
                memory_limit_bytes=self.memory_limit,
                on_line=on_line,
            )
        if used is not None:
            _settle(used)
        result = heard.result or self._unheard(ended, heard, limit_s)
        if self.settings.budget_s is not None and result.outcome == "ok" and not result.gradient_samples_s:
            result = Result(outcome="harness-error", reason="nothing was timed")
        result.description = heard.description
        gradient = None
        if self.settings.gradients and heard.result is not None and result.outcome == "ok":
            gradient = _gradient(ended.channel)
        return result, gradient

    def _limit_s(self) -> float:
        """What one case may take, the run's own end in view."""
        return max(1.0, min(self.settings.limit_s, self._deadline - time.monotonic()))

    def _unheard(self, ended: Ended, heard: _Heard, limit_s: float) -> Result:
        """The outcome of a worker that ended without a result."""
        if ended.killed == "timeout" and limit_s < self.settings.limit_s:
            return Result(outcome="skipped", reason=DEADLINE_OVER)
        outcome, words = self._ending(ended, heard, limit_s)
        last = f"; last output: {ended.tail[-TAIL_CHARACTERS:]}" if ended.tail else ""
        return Result(outcome=outcome, reason=f"{words} during {heard.phase}{last}")

    def _ending(self, ended: Ended, heard: _Heard, limit_s: float) -> tuple[Outcome, str]:
        peak, limit = (f"{size / 1e9:.2f} GB" for size in (ended.peak_bytes, self.memory_limit))
        if ended.killed == "timeout":
            return "timeout", f"ended after {limit_s:.0f} s"
        if ended.killed == "memory":
            return "out-of-memory-host", f"ended at {peak}, limit {limit},"
        if ended.killed == "output" or heard.garbled is not None:
            return "bad-output", heard.garbled or "too much output"
        if ended.returncode == -signal.SIGKILL and ended.peak_bytes > _OOM_SHARE * self.memory_limit:
            return "out-of-memory-host", f"killed by the system at {peak}"
        if is_no_space(ended.tail):
            return "harness-error", "no space was left on the disk"
        if ended.returncode < 0:
            return "crashed", f"killed by signal {-ended.returncode} ({signal.strsignal(-ended.returncode)})"
        return "crashed", f"exit status {ended.returncode} without a result"

    def gradient_scale(self, case: Case) -> float:
        """S of a case's reference, which has been evaluated before."""
        return load(Path(self._reference(case)))[0].gradient_scale

    def _reference(self, case: Case) -> Path | str:
        """File of the oracle's references for a case, evaluated once a run; or why there is none."""
        key = f"{case.scenario}-{case.n}-{case.dtype}"
        if key not in self._references:
            path = Path(self._folder.name) / f"{key}.npz"
            ended = supervise(
                "harness.check.oracle",
                case.scenario,
                str(case.n),
                case.dtype,
                str(path),
                environment=dict(os.environ),
                limit_s=self.settings.limit_s,
                memory_limit_bytes=self.memory_limit,
            )
            failed = f"the oracle ended with {ended.killed or ended.returncode}: {ended.tail[-500:]}"
            self._references[key] = path if ended.returncode == 0 else failed
        return self._references[key]

    def _device_name(self, case: Case) -> str:
        """What the outputs of a right case lay on: the worker has made sure of the device."""
        if case.device == "cpu":
            return str(self.environment["processor"])
        return str(self.environment["cuda_devices"][0]["name"])

    def _record(self, planned: Planned, result: Result, case_s: float | None) -> Record:
        case = planned.case
        description = result.description
        lines = registry.lines_of_code(case.implementation, description) if description else (None, None)
        fields: dict[str, Any] = {name: getattr(result, name) for name in result.__struct_fields__}
        return Record(
            **fields,
            run_id=self.run_id,
            case_id=case_id(case),
            round=planned.round,
            timestamp=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
            implementation=registry.row_name(case.implementation),
            scenario=case.scenario,
            n=case.n,
            params=_parameters(case),
            device=case.device,
            device_name=self._device_name(case) if result.outcome == "ok" else None,
            dtype=case.dtype,
            threads=case.threads,
            options=case.options,
            fast_math=description.fast_math if description else None,
            expected=["skipped"] if result.reason == DEADLINE_OVER else [],
            case_s=case_s,
            lines_forward=lines[0],
            lines_adjoint=lines[1],
            code_hash=registry.code_hash(case.implementation),
            environment=self.environment,
        )


class _Heard:
    """What has been heard from a worker so far."""

    def __init__(self) -> None:
        self.phase = "start"
        self.description: Description | None = None
        self.result: Result | None = None
        self.garbled: str | None = None

    def line(self, line: bytes) -> bool:
        """Take one line in; whether it was a message."""
        if self.result is not None or self.garbled is not None:
            return False  # what follows a result is its gradient
        try:
            message = msgspec.json.decode(line, type=Message)
        except msgspec.MsgspecError as error:
            self.garbled = f"garbled output ({error}): {line[:80]!r}"
            return False
        self.phase = message.phase or self.phase
        self.description = message.description or self.description
        self.result = message.result
        return True


def _parameters(case: Case) -> dict[str, float]:
    """The problem's parameters; none for the hard inputs, which have many."""
    if case.scenario == HARD_SCENARIO:
        return {}
    problem = Problem.of_size(case.n)
    return {
        "L": problem.box_length,
        "h": problem.smoothing_length,
        "m": problem.mass,
        "rho0": problem.rest_density,
        "nc": problem.cells_per_side(case.n),
    }


def _gradient(channel: bytes) -> FloatArray | None:
    """The .npy bytes that follow the result line."""
    start = channel.find(b"\x93NUMPY")
    if start < 0:
        return None
    array: FloatArray = np.load(io.BytesIO(channel[start:]), allow_pickle=False)
    return array


def _settle(used: int) -> None:
    """Wait until the accelerator's memory is back to its level before the case."""
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline and (memory.cuda_used_bytes() or 0) > used + SETTLED_BYTES:
        time.sleep(0.1)
