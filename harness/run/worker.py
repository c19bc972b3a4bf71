"""Inside a fresh process: build a row, compile, check, and time it where asked. Writes no files but gradients.

The parent sends one request on standard input and reads messages, one JSON document a line, from the descriptor named
on the command line: for each case what the worker is doing, then the result.
"""

from __future__ import annotations

import functools
import io
import os
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from harness.check.check import (
    PERMUTATIONS,
    RefusedError,
    build,
    checked,
    checked_all,
    permutations,
    refuse,
    require_still_right,
)
from harness.check.outcomes import outcome_of, reason_of
from harness.check.reference import Reference, load
from harness.contract import registry
from harness.contract.encoding import encode, unpack
from harness.contract.messages import Message, Request, TimeRequest, gradient_file
from harness.contract.problem import FloatArray
from harness.contract.protocol import Case, Implementation
from harness.contract.records import EXPECTED_OUTCOMES, Outcome, Result
from harness.contract.samples import FLOOR_S_PER_SLOT, NOISY_SPREAD, Samples
from harness.run import machine, memory
from harness.run.sampling import sample, seconds

_load = functools.cache(registry.load)  # a module given by path is otherwise executed for every case


class CaseWork(ABC):
    """One case from build to result.

    Args:
        case: what is run.
        references: file of its references.
        channel: to the parent, which is told what is being done.
    """

    def __init__(self, case: Case, references: str, channel: io.FileIO) -> None:
        self.case = case
        self.references = Path(references)
        self.channel = channel

    def run(self) -> Outcome:
        """Do the case and send its result, whatever happens; raises only where the channel is gone."""
        free = memory.free_bytes()
        try:
            result = self._result()
        except RefusedError as error:
            result = error.result
        except BaseException as error:  # SystemExit too: whatever a row does, its case has a result
            result = Result(outcome=outcome_of(error, self.case), reason=reason_of(error, self.case))
        result.observed = {**machine.observed(self.case.variables), **free}
        self._send(result=result)
        return result.outcome

    def _result(self) -> Result:
        self._send(phase="import")
        row = _load(self.case.implementation)
        self._send(description=row.description)
        unsupported = row.unsupported(self.case)
        if unsupported is not None:
            return Result(outcome="unsupported", reason=unsupported)
        return self._work(row, load(self.references))

    @abstractmethod
    def _work(self, row: type[Implementation], references: list[Reference]) -> Result:
        """What is asked for, once the row is known to support the case."""

    def _built(
        self, row: type[Implementation], reference: Reference
    ) -> tuple[Implementation, tuple[float, float, float]]:
        """The row, and the seconds of build, forward and gradient compilation."""
        self._send(phase="build")
        start = time.perf_counter()
        built = build(row, reference, self.case)
        x = built.to_device(reference.positions)
        built.wait(x)
        build_s = time.perf_counter() - start
        self._send(phase="compile")
        forward_s = seconds(lambda: built.compile_forward(x))
        gradient_s = seconds(lambda: built.compile_gradient(x))
        return built, (build_s, forward_s, gradient_s)

    def _checked(self, built: Implementation, reference: Reference) -> tuple[Result, FloatArray]:
        """Result and gradient, with the row's own figures.

        Raises:
            RefusedError: the row is wrong.
        """
        self._send(phase="check")
        result, gradient = checked(built, reference, self.case)
        result.capacity = built.capacity
        result.reallocations, result.recompilations = built.reallocations, built.recompilations
        return result, gradient

    def _send(self, **fields: Any) -> None:
        self.channel.write(encode(Message(**fields)) + b"\n")


class Check(CaseWork):
    """Checks a case, on one input or on many.

    Args:
        case, references, channel: see `CaseWork`.
        gradient: file for the gradient, where there is one input; written for a wrong one too.
    """

    def __init__(self, case: Case, references: str, channel: io.FileIO, gradient: str) -> None:
        super().__init__(case, references, channel)
        self.gradient = gradient

    def _work(self, row: type[Implementation], references: list[Reference]) -> Result:
        if len(references) != 1:
            return checked_all(row, references, self.case, lambda name: self._send(phase=f"check: {name}"))
        (reference,) = references
        built, _ = self._built(row, reference)
        try:
            result, gradient = self._checked(built, reference)
        except RefusedError as error:
            if error.gradient is not None and error.result.outcome == "disagrees":
                np.save(self.gradient, error.gradient, allow_pickle=False)
            raise
        np.save(self.gradient, gradient, allow_pickle=False)
        result.peak_device_bytes = built.peak_device_bytes()
        return result


class Timing(CaseWork):
    """Checks a case of one input, times it, and checks it once more.

    Args:
        case, references, channel: see `CaseWork`.
        budget_s: seconds for the samples of the forward pass and of the gradient, each.
    """

    def __init__(self, case: Case, references: str, channel: io.FileIO, budget_s: float) -> None:
        super().__init__(case, references, channel)
        self.budget_s = budget_s

    def _work(self, row: type[Implementation], references: list[Reference]) -> Result:
        (reference,) = references
        level, driver_level = memory.resident_bytes(), memory.cuda_used_bytes()
        built, compiled = self._built(row, reference)
        result, _ = self._checked(built, reference)
        result.build_s, result.compile_forward_s, result.compile_gradient_s = compiled
        self._time(built, reference, result, level)
        if self.case.device == "cuda" and driver_level is not None:
            result.driver_device_bytes = max(0, (memory.cuda_used_bytes() or 0) - driver_level)
        result.peak_device_bytes = built.peak_device_bytes()
        return result

    def _time(self, built: Implementation, reference: Reference, result: Result, level: int) -> None:
        """Time forward and gradient on permuted copies of the positions, then check once more.

        Args:
            level: resident bytes before the build.
        """
        orders = permutations(len(reference.positions))
        inputs = [built.to_device(reference.positions[order]) for order in orders]
        marked = memory.reset_peak_resident()
        self._send(phase="warm up")
        result.warmup_samples_s = [
            seconds(lambda: built.wait(built.loss(inputs[0]))),
            seconds(lambda: built.wait(built.grad(inputs[0]))),
        ]
        self._send(phase="forward")
        forward, last_loss = sample(built.loss, inputs, built.wait, self.budget_s)
        self._send(phase="gradient")
        cpu, wall = time.process_time(), time.perf_counter()
        gradient, last_gradient = sample(built.grad, inputs, built.wait, self.budget_s)
        result.cpu_over_wall = (time.process_time() - cpu) / (time.perf_counter() - wall)
        result.peak_host_bytes = max(0, memory.peak_resident_bytes() - level) if marked else None
        result.reallocations = built.reallocations  # what the check that follows causes is not the samples'
        result.recompilations = built.recompilations + forward.stalls + gradient.stalls
        self._send(phase="check again")
        order = orders[(len(gradient.seconds) - 1) % PERMUTATIONS]
        require_still_right(built, reference, self.case, (last_loss, last_gradient, order), result)
        _require_possible(forward, self.case, result)
        _require_possible(gradient, self.case, result)
        result.forward_s, result.forward_iqr_s, result.forward_samples_s = forward.median, forward.iqr, forward.seconds
        result.gradient_s, result.gradient_iqr_s = gradient.median, gradient.iqr
        result.gradient_samples_s = gradient.seconds
        result.noisy = max(forward.spread, gradient.spread) > NOISY_SPREAD


def _require_possible(samples: Samples, case: Case, result: Result) -> None:
    """Refuse a time in which no machine evaluates that many pair slots."""
    units, slots = _parallel_units(case), result.pair_slots or 0
    if samples.below_floor(slots, units):
        refuse(
            "error",
            f"a sample took {min(samples.seconds):.3g} s for {slots} pair slots on {units} cores: below the floor "
            f"of {FLOOR_S_PER_SLOT:.2g} s per slot and core, so not all of it was done",
        )


def _parallel_units(case: Case) -> int:
    """What the floor counts: cores, or the accelerator's multiprocessors."""
    if case.device == "cpu":
        return len(machine.available_cores())
    return next((device["multiprocessors"] for device in machine.cuda_devices()), 1)


def main() -> None:
    """`python -m harness.run.worker DESCRIPTOR`, the request on standard input."""
    work = unpack(sys.stdin.buffer.read(), Request).work
    channel = io.FileIO(int(sys.argv[1]), "w")
    if isinstance(work, TimeRequest):
        Timing(work.case, work.references, channel, work.budget_s).run()
    else:
        for number, (case, references) in enumerate(zip(work.cases, work.references, strict=True)):
            gradient = gradient_file(work.gradients, number)
            if Check(case, references, channel, gradient).run() not in EXPECTED_OUTCOMES:
                break  # what a failure leaves behind is not for the next case
    os._exit(0)  # frameworks' exit hooks may hang or crash after the result is out


if __name__ == "__main__":
    main()
