"""Inside the fresh process of one case: build, compile, check, warm up, sample. Writes no files.

The parent sends one request on standard input and reads messages, one JSON document a line, from the descriptor named
on the command line: what the worker is doing, then the result; after it, where asked for, the gradient as .npy bytes.
"""

from __future__ import annotations

import io
import os
import sys
import time
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
from harness.contract.messages import Message, Request
from harness.contract.problem import FloatArray
from harness.contract.protocol import (
    Case,
    Implementation,
)
from harness.contract.records import Result
from harness.contract.samples import FLOOR_S_PER_SLOT, NOISY_SPREAD, Samples
from harness.run import machine, memory
from harness.run.sampling import sample, seconds


class Worker:
    """One case from build to result; `run` raises only where the channel is gone."""

    def __init__(self, request: Request, channel: io.FileIO) -> None:
        self.request = request
        self.case = request.case
        self.channel = channel
        self.gradient: FloatArray | None = None

    def run(self) -> None:
        """Do the case and send its result."""
        free = memory.free_bytes()
        try:
            result = self._case()
        except RefusedError as error:
            result = error.result
        except BaseException as error:  # SystemExit too: whatever a row does, its case has a result
            result = Result(outcome=outcome_of(error, self.case), reason=reason_of(error, self.case))
        result.observed = {**machine.observed(), **free}
        self._send(result=result)
        if self.request.gradient and result.outcome == "ok" and self.gradient is not None:
            buffer = io.BytesIO()
            np.save(buffer, self.gradient, allow_pickle=False)
            self.channel.write(buffer.getvalue())

    def _case(self) -> Result:
        self._send(phase="import")
        row = registry.load(self.case.implementation)
        self._send(description=row.description)
        unsupported = row.unsupported(self.case)
        if unsupported is not None:
            return Result(outcome="unsupported", reason=unsupported)
        references = load(Path(self.request.references))
        if len(references) == 1:
            return self._single(row, references[0])
        return checked_all(row, references, self.case, lambda name: self._send(phase=f"check: {name}"))

    def _single(self, row: type[Implementation], reference: Reference) -> Result:
        """The only input of a scenario: check it, then time it where asked."""
        level, driver_level = memory.resident_bytes(), memory.cuda_used_bytes()
        built, timed = self._built(row, reference)
        self._send(phase="check")
        result, self.gradient = checked(built, reference, self.case)
        result.capacity = built.capacity
        result.reallocations, result.recompilations = built.reallocations, built.recompilations
        if self.request.budget_s is not None:
            result.build_s, result.compile_forward_s, result.compile_gradient_s = timed
            self._time(built, reference, result, level)
        if self.case.device == "cuda" and driver_level is not None:
            result.driver_device_bytes = max(0, (memory.cuda_used_bytes() or 0) - driver_level)
        result.peak_device_bytes = built.peak_device_bytes()
        return result

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

    def _time(self, built: Implementation, reference: Reference, result: Result, level: int) -> None:
        """Time forward and gradient on permuted copies of the positions, then check once more.

        Args:
            level: resident bytes before the build.
        """
        budget_s = self.request.budget_s
        assert budget_s is not None
        orders = permutations(len(reference.positions))
        inputs = [built.to_device(reference.positions[order]) for order in orders]
        marked = memory.reset_peak_resident()
        self._send(phase="warm up")
        result.warmup_samples_s = [
            seconds(lambda: built.wait(built.loss(inputs[0]))),
            seconds(lambda: built.wait(built.grad(inputs[0]))),
        ]
        self._send(phase="forward")
        forward, last_loss = sample(built.loss, inputs, built.wait, budget_s)
        self._send(phase="gradient")
        cpu, wall = time.process_time(), time.perf_counter()
        gradient, last_gradient = sample(built.grad, inputs, built.wait, budget_s)
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

    def _send(self, **fields: Any) -> None:
        self.channel.write(encode(Message(**fields)) + b"\n")


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
    return max((device["multiprocessors"] for device in machine.cuda_devices()), default=1)


def main() -> None:
    """`python -m harness.run.worker DESCRIPTOR`, the request on standard input."""
    request = unpack(sys.stdin.buffer.read(), Request)
    Worker(request, io.FileIO(int(sys.argv[1]), "w")).run()
    os._exit(0)  # frameworks' exit hooks may hang or crash after the result is out


if __name__ == "__main__":
    main()
