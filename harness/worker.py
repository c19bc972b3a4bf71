"""Inside the fresh process of one case: build, compile, check, warm up, sample. Writes no files.

The parent sends one request on standard input and reads messages, one JSON document a line, from the descriptor named
on the command line: what the worker is doing, then the result; after it, where asked for, the gradient as .npy bytes.
"""

from __future__ import annotations

import io
import os
import re
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import numpy as np

from harness import agreement, measure, registry
from harness.oracle import Reference, load
from harness.problem import FloatArray, InvalidPositionsError
from harness.process import die_with_parent
from harness.protocol import (
    Array,
    CapacityOverflowError,
    Case,
    Description,
    Dtype,
    Implementation,
    UnavailableError,
)
from harness.records import Outcome, Result

PERMUTATIONS = 4
_OUT_OF_MEMORY = re.compile(r"RESOURCE_EXHAUSTED|out of memory|not enough memory|failed to allocate|bad_alloc", re.I)


class Request(msgspec.Struct, kw_only=True):
    """What the parent asks of a worker.

    Attributes:
        case: what to run.
        references: file of the oracle's references for the case's scenario, n and dtype.
        cores: processors to run on.
        budget_s: seconds for the samples of the forward pass and of the gradient, each; None checks only.
        gradient: whether to send the gradient after the result.
    """

    case: Case
    references: str
    cores: list[int]
    budget_s: float | None
    gradient: bool = False


class Message(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line from the worker: exactly one field is set."""

    phase: str | None = None
    description: Description | None = None
    expected: tuple[str, ...] | None = None
    result: Result | None = None


class DisagreementError(Exception):
    """Carries a result that is not ok out of the check."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.reason)
        self.result = result


class Worker:
    """One case from build to result; `run` never raises."""

    def __init__(self, request: Request, channel: io.FileIO) -> None:
        self.request = request
        self.case = request.case
        self.channel = channel
        self.gradient: FloatArray | None = None

    def run(self) -> None:
        """Do the case and send its result."""
        try:
            result = self._case()
        except DisagreementError as error:
            result = error.result
        except BaseException as error:
            result = Result(outcome=_outcome(error, self.case), reason=_reason(error))
        result.observed = measure.observed()
        self._send(result=result)
        if self.request.gradient and result.outcome == "ok" and self.gradient is not None:
            buffer = io.BytesIO()
            np.save(buffer, self.gradient, allow_pickle=False)
            self.channel.write(buffer.getvalue())

    def _case(self) -> Result:
        self._send(phase="import")
        row = registry.load(self.case.implementation)
        self._send(description=row.description)
        support = row.supports(self.case)
        if support.reason is not None:
            return Result(outcome="unsupported", reason=support.reason)
        self._send(expected=support.expected)
        references = load(Path(self.request.references))
        if len(references) == 1:
            return self._single(row, references[0])
        return self._several(row, references)

    def _single(self, row: type[Implementation], reference: Reference) -> Result:
        """The only input of a scenario: check it, then time it where asked."""
        level, driver_level = measure.resident_bytes(), measure.cuda_used_bytes()
        self._send(phase="build")
        start = time.perf_counter()
        built = _build(row, reference, self.case)
        x = built.to_device(reference.positions)
        built.wait(x)
        build_s = time.perf_counter() - start
        self._send(phase="compile")
        compile_forward_s = measure.seconds(lambda: built.compile_forward(x))
        compile_gradient_s = measure.seconds(lambda: built.compile_gradient(x))
        self._send(phase="check")
        result, self.gradient = checked(built, reference, self.case.dtype)
        result.build_s = build_s
        result.compile_forward_s, result.compile_gradient_s = compile_forward_s, compile_gradient_s
        result.search_slots, result.capacity = built.search_slots(x), built.capacity
        result.device_name = _device_name(built.device_of(built.grad(x)))
        if self.request.budget_s is not None:
            self._sample(built, reference, result)
            result.peak_host_bytes = max(0, measure.peak_resident_bytes() - level)
            used = measure.cuda_used_bytes()
            if self.case.device == "cuda" and used is not None and driver_level is not None:
                result.driver_device_bytes = max(0, used - driver_level)
        result.peak_device_bytes = built.peak_device_bytes()
        result.reallocations = built.reallocations
        result.recompilations = built.recompilations + (result.recompilations or 0)
        return result

    def _several(self, row: type[Implementation], references: list[Reference]) -> Result:
        """Many small inputs in one process: each is built and checked; the result is the worst one's."""
        worst: Result | None = None
        for reference in references:
            self._send(phase=f"check: {reference.name}")
            try:
                result = _checked_anew(row, reference, self.case)
            except DisagreementError as error:
                error.result.reason = f"{reference.name}: {error.result.reason}"
                raise
            except Exception as error:
                raise DisagreementError(
                    Result(outcome=_outcome(error, self.case), reason=f"{reference.name}: {_reason(error)}")
                ) from error
            if worst is None or (result.scaled_diff or 0.0) > (worst.scaled_diff or 0.0):
                worst = result
        assert worst is not None
        worst.reason = f"{len(references)} inputs"
        return worst

    def _sample(self, built: Implementation, reference: Reference, result: Result) -> None:
        """Time forward and gradient on permuted copies of the positions, then check the last gradient again."""
        budget_s = self.request.budget_s
        assert budget_s is not None
        orders = _permutations(len(reference.positions))
        inputs = [built.to_device(reference.positions[order]) for order in orders]
        measure.reset_peak_resident()
        self._send(phase="warm up")
        warmup = [
            measure.seconds(lambda: built.wait(built.loss(inputs[0]))),
            measure.seconds(lambda: built.wait(built.grad(inputs[0]))),
        ]
        self._send(phase="forward")
        forward, last_loss = measure.sample(built.loss, inputs, built.wait, budget_s)
        self._send(phase="gradient")
        cpu, wall = time.process_time(), time.perf_counter()
        gradient, last = measure.sample(built.grad, inputs, built.wait, budget_s)
        result.cpu_over_wall = (time.process_time() - cpu) / (time.perf_counter() - wall)
        order = orders[(len(gradient.seconds) - 1) % PERMUTATIONS]
        _require_ok(_judge(built, reference, self.case.dtype, last_loss, last, order, result), "after the samples")
        cores = _parallel_units(self.case, len(self.request.cores))
        for name, samples in (("forward", forward), ("gradient", gradient)):
            if samples.below_floor(result.pair_slots or 0, cores):
                raise RuntimeError(
                    f"a {name} sample of {min(samples.seconds):.3g} s for {result.pair_slots} pair slots on {cores} "
                    f"cores is below the floor of {measure.FLOOR_S_PER_SLOT:.2g} s per slot and core: not all was done"
                )
        result.warmup_samples_s = warmup
        result.forward_s, result.forward_iqr_s, result.forward_samples_s = forward.median, forward.iqr, forward.seconds
        result.gradient_s, result.gradient_iqr_s = gradient.median, gradient.iqr
        result.gradient_samples_s = gradient.seconds
        result.noisy = max(forward.spread, gradient.spread) > measure.NOISY_SPREAD
        result.recompilations = forward.stalls + gradient.stalls

    def _send(self, **fields: Any) -> None:
        self.channel.write(msgspec.json.encode(Message(**fields)) + b"\n")


def checked(built: Implementation, reference: Reference, dtype: Dtype) -> tuple[Result, FloatArray]:
    """Loss and gradient of an implementation against a reference, on its positions and on a permutation of them.

    Args:
        built: the implementation, built for the reference's positions.
        reference: what is right.
        dtype: what was asked for.

    Returns:
        The result, its outcome ok, and the gradient (N, 2).

    Raises:
        DisagreementError: with the result that tells what is wrong.
    """
    order = _permutations(len(reference.positions))[-1]
    x, permuted = (built.to_device(reference.positions[index]) for index in (slice(None), order))
    loss, gradient = built.loss(x), built.grad(x)
    built.wait(loss, gradient)
    kept = built.to_numpy(gradient)
    snapshot = np.array(kept)
    result = _require_ok(_judge(built, reference, dtype, loss, gradient, None, None), None)
    second_loss, second = built.loss(permuted), built.grad(permuted)
    built.wait(second_loss, second)
    _require_ok(_judge(built, reference, dtype, second_loss, second, order, result), "for the positions permuted")
    if not np.array_equal(built.to_numpy(gradient), snapshot) or not np.array_equal(kept, snapshot):
        result.outcome, result.reason = "disagrees", "a later call overwrote the gradient returned earlier"
    return _require_ok(result, None), snapshot


def _checked_anew(row: type[Implementation], reference: Reference, case: Case) -> Result:
    """Build for one input and check it, its refusal where it must be refused."""
    if reference.refusal is None:
        return checked(_build(row, reference, case), reference, case.dtype)[0]
    good = np.clip(np.nan_to_num(reference.positions), 0.0, reference.problem.box_length)
    built = _build(row, msgspec.structs.replace(reference, positions=good), case)
    for call in (built.loss, built.grad, lambda x: _build(row, reference, case).loss(x)):
        _require_refusal(call, built, reference)
    return Result(outcome="ok")


def _require_refusal(call: Callable[[Array], Array], built: Implementation, reference: Reference) -> None:
    try:
        call(built.to_device(reference.positions))
    except InvalidPositionsError as error:
        if str(error) != reference.refusal:
            _disagree(f"refused with {error}; expected: {reference.refusal}")
        return
    _disagree(f"was not refused; expected: {reference.refusal}")


def _disagree(reason: str) -> NoReturn:
    raise DisagreementError(Result(outcome="disagrees", reason=reason))


def _require_ok(result: Result, where: str | None) -> Result:
    if result.outcome != "ok":
        if where:
            result.reason = f"{where}: {result.reason}"
        raise DisagreementError(result)
    return result


def _judge(
    built: Implementation,
    reference: Reference,
    dtype: Dtype,
    loss: Array,
    gradient: Array,
    order: np.ndarray | None,
    counted: Result | None,
) -> Result:
    """Judge device outputs; those of permuted positions are put back in order, with the counts known already."""
    values, slopes = built.to_numpy(loss), built.to_numpy(gradient)
    if order is not None and isinstance(slopes, np.ndarray) and slopes.shape == reference.positions.shape:
        slopes = slopes[np.argsort(order)]
    if counted is not None:
        pairs, slots, difference = counted.true_pairs or 0, counted.pair_slots or 0, None
        expected = slots
    else:
        x = built.to_device(reference.positions)
        pairs, slots = built.true_pairs(x), built.pair_slots(x)
        expected = built.expected_pair_slots(reference.counts)
        difference = _finite_difference(built, reference, slopes) if dtype == "float64" else None
    return agreement.judge(
        reference,
        dtype,
        loss=values,
        gradient=slopes,
        true_pairs=pairs,
        pair_slots=slots,
        expected_pair_slots=expected,
        fd_diff=difference,
    )


def _finite_difference(built: Implementation, reference: Reference, gradient: FloatArray) -> float | None:
    """Central difference of the row's own loss against its gradient; None where the gradient is no such array."""
    positions = reference.positions
    if not isinstance(gradient, np.ndarray) or gradient.shape != positions.shape:
        return None
    step = agreement.FINITE_DIFFERENCE_STEP * reference.problem.smoothing_length
    shift = step * agreement.direction(len(positions))
    losses = [float(built.to_numpy(built.loss(built.to_device(positions + s)))) for s in (shift, -shift)]
    return agreement.finite_difference(reference, gradient, step, (losses[0], losses[1]))


def _build(row: type[Implementation], reference: Reference, case: Case) -> Implementation:
    return row(reference.problem, reference.positions, case.device, case.dtype, **case.options)


def _permutations(n: int) -> list[np.ndarray]:
    """The identity, then three random orders of n rows, always the same."""
    rng = np.random.default_rng(n)
    return [np.arange(n), *(rng.permutation(n) for _ in range(PERMUTATIONS - 1))]


def _parallel_units(case: Case, cores: int) -> int:
    """What the floor counts: cores, or lanes of the accelerator's multiprocessors."""
    if case.device == "cpu":
        return cores
    return 128 * max((device["multiprocessors"] for device in measure.cuda_devices()), default=1)


def _device_name(device: str) -> str:
    return measure.processor_name() if device == "cpu" else str(measure.cuda_devices()[0]["name"])


def _outcome(error: BaseException, case: Case) -> Outcome:
    """Which of the closed list an exception is."""
    if isinstance(error, UnavailableError | ImportError):
        own = (getattr(error, "name", None) or "").split(".")[0] in ("harness", "implementations")
        return "error" if own else "unavailable"
    if isinstance(error, InvalidPositionsError):
        return "invalid-input"
    if isinstance(error, CapacityOverflowError):
        return "overflow"
    if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(str(error)):
        return "out-of-memory-device" if case.device == "cuda" else "out-of-memory-host"
    return "error"


def _reason(error: BaseException) -> str:
    """The error's own words, and for an unforeseen one the line it came from."""
    words = f"{type(error).__name__}: {error}".strip()[:2000]
    frames = traceback.extract_tb(error.__traceback__)
    foreseen = UnavailableError | ImportError | InvalidPositionsError | CapacityOverflowError
    if isinstance(error, foreseen) or not frames:
        return words
    return f"{words} (at {Path(frames[-1].filename).name}:{frames[-1].lineno})"


def main() -> None:
    """`python -m harness.worker DESCRIPTOR`, the request on standard input."""
    die_with_parent()
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    os.sched_setaffinity(0, request.cores)
    channel = io.FileIO(int(sys.argv[1]), "w")
    Worker(request, channel).run()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # frameworks' exit hooks may hang or crash after the result is out


if __name__ == "__main__":
    main()
