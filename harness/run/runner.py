"""Runs a plan in fresh processes: each case becomes exactly one record. Imports no framework.

`TimeRunner` gives every case a process of its own, which starts from cold kernel caches. `CheckRunner` gives the cases
of a row one process as long as all goes well, several rows at once, and warm caches.
"""

from __future__ import annotations

import datetime
import os
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import msgspec
import numpy as np
from typing_extensions import override

from harness.contract import identity, registry
from harness.contract.encoding import pack
from harness.contract.messages import CheckRequest, Request, TimeRequest, gradient_file
from harness.contract.problem import FloatArray
from harness.contract.protocol import Case
from harness.contract.records import LIMIT_OUTCOMES, Record, Result, case_id
from harness.problems.sph2d import SCENARIOS
from harness.run import caches, machine, memory
from harness.run.child import child_environment
from harness.run.dialogue import Answer, Dialogue, ending
from harness.run.plan import Planned, series
from harness.run.process import Ended, at_once, supervise
from harness.run.references import OracleError, References
from harness.run.settings import CheckSettings, Settings, TimeSettings

MEMORY_SHARE = 0.9
"""Default memory limit: this share of what is available when the run starts, here and in the container or job."""
DEADLINE_OVER = "the time of the run was over"
"""Reason of a case skipped, or cut short, for that; a resumed run takes it up again."""
SETTLE_S = 10.0
SETTLED_BYTES = 64 << 20

_FOR_WANT_OF_MEMORY = frozenset({"out-of-memory-host", "out-of-memory-device", "overflow"})


class Finished(msgspec.Struct, frozen=True):
    """A case's record and, where it was checked on one input and its output is of the right form, its gradient."""

    record: Record
    gradient: FloatArray | None = None


_Settings = TypeVar("_Settings", bound=Settings)


class Runner(ABC, Generic[_Settings]):
    """Runs planned cases, with the references they share.

    Use as a context manager: references and what is private to a worker live in a temporary folder until it is left.

    Args:
        settings: how.
        run_id: goes into every record.
        on_phase: told what is being done.
        earlier: records of the same plan from a run that this one resumes.
    """

    def __init__(
        self,
        settings: _Settings,
        run_id: str,
        on_phase: Callable[[Planned, str], None] = lambda planned, phase: None,
        earlier: Iterable[Record] = (),
    ) -> None:
        self.settings = settings
        self.run_id = run_id
        self.on_phase = on_phase
        self._deadline = time.monotonic() + settings.within_s
        self.environment = machine.environment()
        available = int(MEMORY_SHARE * memory.available_bytes())
        self.memory_limit = available if settings.memory_limit_bytes is None else settings.memory_limit_bytes
        self._stopped: dict[tuple[str, int], Record] = {}
        self._unloadable: dict[str, Result] = {}
        for record in earlier:
            self._note(record)
        self._folder = tempfile.TemporaryDirectory(prefix="pairgrad-", ignore_cleanup_errors=True)
        self.references = References(Path(self._folder.name), self.memory_limit)
        self._evaluating = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._folder.cleanup()

    @abstractmethod
    def run(self, plan: Iterable[Planned]) -> Iterator[Finished]:
        """Run a plan in order; every planned case gives exactly one record, whatever happens to its process."""

    @abstractmethod
    def _request(self, batch: Sequence[Planned], files: Sequence[Path], private: str) -> CheckRequest | TimeRequest:
        """What is asked of the worker of these cases, whose private folder this is."""

    @abstractmethod
    def _environment(self, case: Case, threads: int, private: str) -> dict[str, str]:
        """The whole environment of that worker."""

    def _run(self, group: Sequence[Planned]) -> Iterator[Finished]:
        """Run cases of one row, in one process as long as all goes well."""
        left = list(group)
        while left:
            skipped = self._answer_without_process(left[0])
            if skipped is not None:
                answers = [skipped]
            else:
                more = takewhile(lambda each: self._answer_without_process(each) is None, left[1:])
                answers = self._answers([left[0], *more])
            for planned, answer in zip(left, answers, strict=False):
                record = self._record(planned, answer)
                self._note(record)
                if answer.case_s is not None and record.outcome == "error" and record.description is None:
                    self._unloadable[record.implementation] = answer.result
                yield Finished(record, answer.gradient)
            left = left[len(answers) :]

    def _answer_without_process(self, planned: Planned) -> Answer | None:
        """What becomes of a case without a process; None if it is run, and then its references stand ready."""
        name = registry.row_name(planned.case.implementation)
        if name in self._unloadable:
            return Answer(result=self._unloadable[name])
        stopped = self._limit_met(planned)
        if stopped is not None and self.settings.skip_larger:
            where = stopped.case_id if series(stopped.case) != series(planned.case) else f"N = {stopped.n:,}"
            return Answer(result=Result(outcome="skipped", reason=f"{stopped.outcome} at {where}"))
        if time.monotonic() > self._deadline:
            return _over()
        self.on_phase(planned, "reference")
        try:
            with self._evaluating:
                self.references.file(planned.case, self._limit_s())
        except OracleError as error:
            out_of_time = error.timed_out and time.monotonic() > self._deadline
            return _over() if out_of_time else _harness_error(str(error))
        return None

    def _limit_met(self, planned: Planned) -> Record | None:
        """The record after which this case is not worth trying."""
        return self._stopped.get((series(planned.case), planned.round))

    def _note(self, record: Record) -> None:
        """Remember where a series came to its end."""
        if record.outcome in LIMIT_OUTCOMES:
            self._stopped[series(record.case), record.round] = record

    def _answers(self, batch: Sequence[Planned]) -> list[Answer]:
        """What becomes of the first of these cases, and of as many more as their process gets to."""
        return self._try(batch, self.memory_limit)

    def _try(self, batch: Sequence[Planned], memory_limit: int) -> list[Answer]:
        """`_answers`, from one process that may take so much memory."""
        try:
            return self._ask(batch, memory_limit)
        except OSError as error:
            return [_harness_error(f"no process could be run for it: {error}")]

    def _ask(self, batch: Sequence[Planned], memory_limit: int) -> list[Answer]:
        case = batch[0].case
        cores = machine.available_cores()[: case.threads]
        files = [self.references.file(each.case, self._limit_s()) for each in batch]
        used = memory.cuda_used_bytes() if case.device == "cuda" else None
        dialogue = Dialogue(batch, self.on_phase, self._limit_s)
        with tempfile.TemporaryDirectory(dir=self._folder.name, ignore_cleanup_errors=True) as private:
            ended = supervise(
                "harness.run.worker",
                request=pack(Request(self._request(batch, files, private))),
                environment=self._environment(case, len(cores), private),
                folder=Path(private),
                cores=cores,
                limit_s=dialogue.limit_s,
                memory_limit_bytes=memory_limit,
                on_line=dialogue.line,
            )
            for number, answer in enumerate(dialogue.answers):
                answer.gradient = _gradient(answer.result, gradient_file(private, number))
        if dialogue.is_waiting:
            dialogue.answers.append(self._answer_of_ended(ended, dialogue, memory_limit))
        if used is not None:
            _settle(used)
        return dialogue.answers

    def _limit_s(self) -> float:
        """What one case may take, the run's own end in view."""
        return max(1.0, min(self.settings.limit_s, self._deadline - time.monotonic()))

    def _answer_of_ended(self, ended: Ended, dialogue: Dialogue, memory_limit: int) -> Answer:
        """What becomes of the case that a worker was at when it ended."""
        out_of_time = ended.killed == "timeout" and dialogue.garbled is None
        if out_of_time and dialogue.limit_s < self.settings.limit_s:
            return _over(dialogue.case_s)
        return Answer(result=ending(ended, dialogue, memory_limit), case_s=dialogue.case_s)

    def _device_name(self, case: Case) -> str | None:
        """What the outputs of a right case lay on: the worker has made sure of the device."""
        if case.device == "cpu":
            return str(self.environment["processor"])
        return identity.accelerator(self.environment)

    def _record(self, planned: Planned, answer: Answer) -> Record:
        case, result = planned.case, answer.result
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
            variables=case.variables,
            fast_math=description.fast_math if description else None,
            expected=["skipped"] if result.reason == DEADLINE_OVER else [],
            case_s=answer.case_s,
            lines_forward=lines[0],
            lines_adjoint=lines[1],
            code_hash=registry.code_hash(case.implementation),
            environment=self.environment,
        )


class TimeRunner(Runner[TimeSettings]):
    """Times each case, and checks it, in a process of its own."""

    @override
    def run(self, plan: Iterable[Planned]) -> Iterator[Finished]:
        for planned in plan:
            yield from self._run([planned])

    @override
    def _answers(self, batch: Sequence[Planned]) -> list[Answer]:
        (answer,) = super()._answers(batch)
        result = answer.result
        if result.outcome == "ok" and not result.gradient_samples_s:
            answer.result = Result(outcome="harness-error", reason="nothing was timed", description=result.description)
        return [answer]

    @override
    def _request(self, batch: Sequence[Planned], files: Sequence[Path], private: str) -> TimeRequest:
        (planned,), (file,) = batch, files
        return TimeRequest(case=planned.case, references=str(file), budget_s=self.settings.budget_s)

    @override
    def _environment(self, case: Case, threads: int, private: str) -> dict[str, str]:
        """With cold caches: compilation is timed too."""
        folder = Path(private)
        return child_environment(case.device, threads, folder, folder / "caches", case.variables)


class CheckRunner(Runner[CheckSettings]):
    """Checks the cases of one row, device and dtype in one process, and several such groups at once.

    A row that hangs is left alone from then on. A case that runs out of memory while it shares it, with other processes
    or with what the cases before left in its own, runs again alone.
    """

    def __init__(self, settings: CheckSettings, *arguments: Any, **keywords: Any) -> None:
        self._hung: dict[str, Record] = {}
        self._slots = threading.Semaphore(settings.jobs)
        self._turnstile = threading.Lock()
        super().__init__(settings, *arguments, **keywords)
        shared = settings.memory_limit_bytes is None
        self._memory_share = self.memory_limit // settings.jobs if shared else self.memory_limit

    @override
    def run(self, plan: Iterable[Planned]) -> Iterator[Finished]:
        # cases that may share a process follow each other in the plan
        groups = [list(group) for _, group in groupby(plan, key=_worker)]
        if self.settings.jobs == 1:
            for group in groups:
                yield from self._run(group)
            return
        for finished in at_once(lambda group: list(self._run(group)), groups, self.settings.jobs):
            yield from finished

    @override
    def _request(self, batch: Sequence[Planned], files: Sequence[Path], private: str) -> CheckRequest:
        cases = [planned.case for planned in batch]
        return CheckRequest(cases=cases, references=[str(file) for file in files], gradients=private)

    @override
    def _environment(self, case: Case, threads: int, private: str) -> dict[str, str]:
        """With the caches that all share who time nothing; not where a switch may change what is compiled."""
        folder = Path(private)
        environment = child_environment(case.device, threads, folder, folder / "caches", case.variables)
        return environment if case.variables else caches.shared(environment, case.implementation)

    @override
    def _limit_met(self, planned: Planned) -> Record | None:
        hung = self._hung.get(registry.row_name(planned.case.implementation))
        return super()._limit_met(planned) or hung

    @override
    def _note(self, record: Record) -> None:
        super()._note(record)
        if record.outcome == "timeout":
            self._hung[record.implementation] = record

    @override
    def _answers(self, batch: Sequence[Planned]) -> list[Answer]:
        with self._slot():
            answers = self._try(batch, self._memory_share)
        shared = self.settings.jobs > 1 or len(answers) > 1
        if shared and answers[-1].result.outcome in _FOR_WANT_OF_MEMORY:
            with self._alone():
                answers[-1:] = self._try(batch[len(answers) - 1 : len(answers)], self.memory_limit)
        return answers

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """While one of the jobs runs."""
        with self._turnstile:
            self._slots.acquire()
        try:
            yield
        finally:
            self._slots.release()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While no other job runs: those at work end first, and none starts."""
        with self._turnstile:
            for _ in range(self.settings.jobs):
                self._slots.acquire()
            try:
                yield
            finally:
                self._slots.release(self.settings.jobs)


def _over(case_s: float | None = None) -> Answer:
    """A case that the end of the run left out, or cut short after so many seconds."""
    return Answer(result=Result(outcome="skipped", reason=DEADLINE_OVER), case_s=case_s)


def _harness_error(reason: str) -> Answer:
    """A case of which nothing can be said, for no fault of its row."""
    return Answer(result=Result(outcome="harness-error", reason=reason))


def _worker(planned: Planned) -> tuple[str, str, int]:
    """What is the same of all cases that one process may check."""
    any_input = msgspec.structs.replace(planned.case, scenario="", n=0)
    return planned.case.implementation, case_id(any_input), planned.round


def _parameters(case: Case) -> dict[str, float]:
    """The problem's parameters; none where the scenario's inputs have several problems."""
    problem = SCENARIOS[case.scenario].only_problem(case.n)
    if problem is None:
        return {}
    return {**problem.parameters, "nc": problem.cells_per_side(case.n)}


def _gradient(result: Result, path: str) -> FloatArray | None:
    """What a worker left there, if it is the gradient of a result of the right form."""
    if result.outcome not in ("ok", "disagrees") or not os.path.exists(path):
        return None
    array: FloatArray = np.load(path, allow_pickle=False)
    return array


def _settle(used: int) -> None:
    """Wait until the accelerator's memory is back to its level before the case."""
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline and (memory.cuda_used_bytes() or 0) > used + SETTLED_BYTES:
        time.sleep(0.1)
