"""Inside the fresh process of one case: build, compile, check, warm up, sample. Writes no files.

The parent sends one request on standard input and reads messages, one JSON document a line, from the descriptor named
on the command line: what the worker is doing, then the result; after it, where asked for, the gradient as .npy bytes.
"""

from __future__ import annotations

import inspect
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

from harness import agreement, hints, measure, registry
from harness.oracle import Reference, load
from harness.problem import FloatArray, InvalidPositionsError
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
_OUT_OF_MEMORY = re.compile(
    r"RESOURCE_EXHAUSTED|out of memory|not enough memory|bad_alloc|(can't|cannot|failed to|unable to) allocate", re.I
)
_FAR_AWAY = 0.1
"""A move, in units of h, that no loss worth its name fails to notice."""

_Order = np.ndarray | slice


class Request(msgspec.Struct, kw_only=True):
    """What the parent asks of a worker.

    Attributes:
        case: what to run.
        references: file of the oracle's references for the case's scenario, n and dtype.
        budget_s: seconds for the samples of the forward pass and of the gradient, each; None checks only.
        gradient: whether to send the gradient after the result.
    """

    case: Case
    references: str
    budget_s: float | None
    gradient: bool = False


class Message(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line from the worker: exactly one field is set."""

    phase: str | None = None
    description: Description | None = None
    expected: tuple[str, ...] | None = None
    result: Result | None = None


class RefusedError(Exception):
    """Carries a result that is not ok out of the check."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.reason)
        self.result = result


class Worker:
    """One case from build to result; `run` raises only where the channel is gone."""

    def __init__(self, request: Request, channel: io.FileIO) -> None:
        self.request = request
        self.case = request.case
        self.channel = channel
        self.gradient: FloatArray | None = None

    def run(self) -> None:
        """Do the case and send its result."""
        free = measure.free_bytes()
        try:
            result = self._case()
        except RefusedError as error:
            result = error.result
        except BaseException as error:  # SystemExit too: whatever a row does, its case has a result
            result = Result(outcome=_outcome(error, self.case), reason=_reason(error, self.case))
        result.observed = {**measure.observed(), **free}
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
        built, x, seconds = self._built(row, reference)
        self._send(phase="check")
        result, self.gradient = checked(built, reference, self.case)
        result.search_slots, result.capacity = built.search_slots(x), built.capacity
        result.reallocations, result.recompilations = built.reallocations, built.recompilations
        if self.request.budget_s is not None:
            result.build_s, result.compile_forward_s, result.compile_gradient_s = seconds
            self._time(built, reference, result, level)
        if self.case.device == "cuda" and driver_level is not None:
            result.driver_device_bytes = max(0, (measure.cuda_used_bytes() or 0) - driver_level)
        result.peak_device_bytes = built.peak_device_bytes()
        return result

    def _built(
        self, row: type[Implementation], reference: Reference
    ) -> tuple[Implementation, Array, tuple[float, float, float]]:
        """The row and its positions on the device, and the seconds of build, forward and gradient compilation."""
        self._send(phase="build")
        start = time.perf_counter()
        built = _build(row, reference, self.case)
        x = built.to_device(reference.positions)
        built.wait(x)
        build_s = time.perf_counter() - start
        self._send(phase="compile")
        forward_s = measure.seconds(lambda: built.compile_forward(x))
        gradient_s = measure.seconds(lambda: built.compile_gradient(x))
        return built, x, (build_s, forward_s, gradient_s)

    def _several(self, row: type[Implementation], references: list[Reference]) -> Result:
        """Many small inputs in one process: each is built and checked; the result is the worst one's."""
        worst: Result | None = None
        for reference in references:
            self._send(phase=f"check: {reference.name}")
            try:
                result = _checked_anew(row, reference, self.case)
            except RefusedError as error:
                error.result.reason = f"{reference.name}: {error.result.reason}"
                raise
            except Exception as error:
                _refuse(_outcome(error, self.case), f"{reference.name}: {_reason(error, self.case)}")
            if worst is None or (result.scaled_diff or 0.0) > (worst.scaled_diff or 0.0):
                worst = result
        assert worst is not None
        worst.reason = f"{len(references)} inputs"
        return worst

    def _time(self, built: Implementation, reference: Reference, result: Result, level: int) -> None:
        """Time forward and gradient on permuted copies of the positions, then check once more.

        Args:
            level: resident bytes before the build.
        """
        budget_s = self.request.budget_s
        assert budget_s is not None
        orders = _permutations(len(reference.positions))
        inputs = [built.to_device(reference.positions[order]) for order in orders]
        marked = measure.reset_peak_resident()
        self._send(phase="warm up")
        result.warmup_samples_s = [
            measure.seconds(lambda: built.wait(built.loss(inputs[0]))),
            measure.seconds(lambda: built.wait(built.grad(inputs[0]))),
        ]
        self._send(phase="forward")
        forward, last_loss = measure.sample(built.loss, inputs, built.wait, budget_s)
        self._send(phase="gradient")
        cpu, wall = time.process_time(), time.perf_counter()
        gradient, last_gradient = measure.sample(built.grad, inputs, built.wait, budget_s)
        result.cpu_over_wall = (time.process_time() - cpu) / (time.perf_counter() - wall)
        result.peak_host_bytes = max(0, measure.peak_resident_bytes() - level) if marked else None
        result.reallocations = built.reallocations  # what the check that follows causes is not the samples'
        result.recompilations = built.recompilations + forward.stalls + gradient.stalls
        self._send(phase="check again")
        order = orders[(len(gradient.seconds) - 1) % PERMUTATIONS]
        _require_still_right(built, reference, self.case, (last_loss, last_gradient, order), result)
        _require_possible(forward, self.case, result)
        _require_possible(gradient, self.case, result)
        result.forward_s, result.forward_iqr_s, result.forward_samples_s = forward.median, forward.iqr, forward.seconds
        result.gradient_s, result.gradient_iqr_s = gradient.median, gradient.iqr
        result.gradient_samples_s = gradient.seconds
        result.noisy = max(forward.spread, gradient.spread) > measure.NOISY_SPREAD

    def _send(self, **fields: Any) -> None:
        self.channel.write(msgspec.json.encode(Message(**fields)) + b"\n")


def checked(built: Implementation, reference: Reference, case: Case) -> tuple[Result, FloatArray]:
    """Loss and gradient of an implementation against a reference, on its positions and on a permutation of them.

    Args:
        built: the implementation, built for the reference's positions.
        reference: what is right.
        case: what was asked for.

    Returns:
        The result, its outcome ok, and the gradient (N, 2).

    Raises:
        RefusedError: with the result that tells what is wrong.
    """
    order = _permutations(len(reference.positions))[0]
    loss, gradient = _evaluated(built, reference.positions)
    kept = built.to_numpy(gradient)
    snapshot = np.array(kept)
    result = _require_ok(_judge(built, reference, case.dtype, loss, gradient), None)
    _require_on_device(built, case, loss, gradient)
    second = _evaluated(built, reference.positions[order])
    _require_ok(_judge(built, reference, case.dtype, *second, order, result, snapshot), "for the positions permuted")
    if not np.array_equal(built.to_numpy(gradient), snapshot) or not np.array_equal(kept, snapshot):
        _refuse("disagrees", "a later call overwrote the gradient returned earlier")
    return result, snapshot


def _checked_anew(row: type[Implementation], reference: Reference, case: Case) -> Result:
    """Build for one input and check it, its refusal where it must be refused."""
    if reference.refusal is None:
        return checked(_build(row, reference, case), reference, case)[0]
    usable = np.clip(np.nan_to_num(reference.positions), -1e3, 1e3)
    built = _build(row, msgspec.structs.replace(reference, positions=usable), case)
    bad = reference.positions
    _require_refusal(lambda: _build(row, reference, case).loss(built.to_device(bad)), reference.refusal)
    _require_refusal(lambda: built.loss(built.to_device(bad)), reference.refusal)
    _require_refusal(lambda: built.grad(built.to_device(bad)), reference.refusal)
    return Result(outcome="ok")


def _require_refusal(call: Callable[[], Any], words: str) -> None:
    try:
        call()
    except InvalidPositionsError as error:
        if str(error) != words:
            _refuse("disagrees", f"refused with {error}; expected: {words}")
    else:
        _refuse("disagrees", f"was not refused; expected: {words}")


def _require_still_right(
    built: Implementation,
    reference: Reference,
    case: Case,
    last: tuple[Array, Array, _Order],
    counted: Result,
) -> None:
    """After the samples: their last outputs are right, and later calls still follow the positions.

    Whatever was captured, cached or folded on the way is then wrong for one input or another. The loss is the same for
    every order of the particles, so it is asked for moved ones.
    """
    where = "after the samples"
    _require_ok(_judge(built, reference, case.dtype, *last, counted), where)
    loss, gradient = _evaluated(built, reference.positions)
    _require_ok(_judge(built, reference, case.dtype, loss, gradient, counted=counted), where)
    moved = reference.positions + _move(reference, _FAR_AWAY)
    if reference.gradient.any() and built.to_numpy(built.loss(built.to_device(moved))) == built.to_numpy(loss):
        _refuse("disagrees", f"{where}: the loss is the same for other positions")


def _require_possible(samples: measure.Samples, case: Case, result: Result) -> None:
    """Refuse a time in which no machine evaluates that many pair slots."""
    units, slots = _parallel_units(case), result.pair_slots or 0
    if samples.below_floor(slots, units):
        _refuse(
            "error",
            f"a sample took {min(samples.seconds):.3g} s for {slots} pair slots on {units} cores: below the floor "
            f"of {measure.FLOOR_S_PER_SLOT:.2g} s per slot and core, so not all of it was done",
        )


def _require_on_device(built: Implementation, case: Case, *outputs: Array) -> None:
    for output in outputs:
        device = built.device_of(output)
        if device != case.device:
            _refuse("error", f"an output lies on {device}; {case.device} was asked for")


def _require_ok(result: Result, where: str | None) -> Result:
    if result.outcome != "ok":
        if where:
            result.reason = f"{where}: {result.reason}"
        raise RefusedError(result)
    return result


def _refuse(outcome: Outcome, reason: str) -> NoReturn:
    raise RefusedError(Result(outcome=outcome, reason=reason))


def _evaluated(built: Implementation, positions: FloatArray) -> tuple[Array, Array]:
    """Loss and gradient, on the device, computed."""
    x = built.to_device(positions)
    return _called(built, "loss", x), _called(built, "grad", x)


def _called(built: Implementation, name: str, x: Array) -> Array:
    """What `loss` or `grad` returns, computed; refused if that is a list, or if the call changed its positions."""
    before = np.array(built.to_numpy(x))
    output = getattr(built, name)(x)
    built.wait(output)
    if isinstance(output, list):
        _refuse("bad-output", f"{name} returned a list; return an array of the framework")
    if not np.array_equal(built.to_numpy(x), before):
        _refuse("disagrees", f"{name} changed its input positions")
    return output


def _judge(
    built: Implementation,
    reference: Reference,
    dtype: Dtype,
    loss: Array,
    gradient: Array,
    order: _Order = slice(None),
    counted: Result | None = None,
    earlier: FloatArray | None = None,
) -> Result:
    """Judge device outputs.

    Args:
        order: of the particles the outputs are for.
        counted: a result that has the counts already; without one they and the finite difference are taken.
        earlier: gradient (N, 2) of an earlier call, for the particles in another order.
    """
    values, slopes = built.to_numpy(loss), built.to_numpy(gradient)
    malformed = agreement.malformed(reference, dtype, values, slopes)
    if malformed is not None:
        return malformed
    ordered = np.empty_like(slopes)
    ordered[order] = slopes
    difference = None
    if counted is None:
        x = built.to_device(reference.positions)
        pairs, slots = built.true_pairs(x), built.pair_slots(x)
        expected_slots = built.expected_pair_slots(reference.counts)
        if dtype == "float64":
            difference = _finite_difference(built, reference, slopes)
    else:
        pairs, slots = counted.true_pairs or 0, counted.pair_slots or 0
        expected_slots = slots
    result = agreement.judge(
        reference,
        dtype,
        loss=values,
        gradient=ordered,
        true_pairs=pairs,
        pair_slots=slots,
        expected_pair_slots=expected_slots,
        fd_diff=difference,
    )
    if result.outcome == "disagrees":
        repeated = earlier is not None and np.array_equal(slopes, earlier)
        hint = hints.hint(reference, dtype, result, ordered, repeated=repeated)
        result.reason = f"{result.reason}; hint: {hint}" if hint else result.reason
    return result


def _finite_difference(built: Implementation, reference: Reference, gradient: FloatArray) -> float:
    """Distance of a gradient from the central difference of the row's own loss."""
    step = agreement.FINITE_DIFFERENCE_STEP
    shift = _move(reference, step)
    losses = [float(built.to_numpy(built.loss(built.to_device(reference.positions + s)))) for s in (shift, -shift)]
    return agreement.finite_difference(
        reference, gradient, step * reference.problem.smoothing_length, (losses[0], losses[1])
    )


def _move(reference: Reference, distance: float) -> FloatArray:
    """A random displacement (N, 2) of about so many smoothing lengths, of the positions' dtype."""
    positions = reference.positions
    step = distance * reference.problem.smoothing_length
    return (step * agreement.direction(len(positions))).astype(positions.dtype)


def _build(row: type[Implementation], reference: Reference, case: Case) -> Implementation:
    names = ("problem", "positions", "device", "dtype")
    try:
        inspect.signature(row).bind(*names, **case.options)
    except TypeError:
        _refuse("error", f"{row.__name__}.__init__ must take ({', '.join((*names, *case.options))})")
    return row(reference.problem, reference.positions, case.device, case.dtype, **case.options)


def _permutations(n: int) -> list[np.ndarray]:
    """Random orders of n rows, always the same."""
    rng = np.random.default_rng(n)
    return [rng.permutation(n) for _ in range(PERMUTATIONS)]


def _parallel_units(case: Case) -> int:
    """What the floor counts: cores, or the accelerator's multiprocessors."""
    if case.device == "cpu":
        return len(measure.available_cores())
    return max((device["multiprocessors"] for device in measure.cuda_devices()), default=1)


def _outcome(error: BaseException, case: Case) -> Outcome:
    """Which of the closed list an exception is."""
    if isinstance(error, UnavailableError | ModuleNotFoundError):
        own = (getattr(error, "name", None) or "").split(".")[0] in ("harness", "implementations")
        return "error" if own else "unavailable"
    if isinstance(error, InvalidPositionsError):
        return "invalid-input"
    if isinstance(error, CapacityOverflowError):
        return "overflow"
    if isinstance(error, MemoryError):
        return "out-of-memory-host"
    if _OUT_OF_MEMORY.search(str(error)):
        return "out-of-memory-device" if case.device == "cuda" else "out-of-memory-host"
    return "error"


def _reason(error: BaseException, case: Case) -> str:
    """The error's own words, and for an unforeseen one the innermost line of the implementation that it passed."""
    words = f"{type(error).__name__}: {error}".strip()[:2000]
    if isinstance(error, UnavailableError | ImportError | InvalidPositionsError | CapacityOverflowError):
        return words
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if registry.is_source_of(case.implementation, frame.filename)]
    return f"{words} (at {Path(own[-1].filename).name}:{own[-1].lineno})" if own else words


def main() -> None:
    """`python -m harness.worker DESCRIPTOR`, the request on standard input."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    Worker(request, io.FileIO(int(sys.argv[1]), "w")).run()
    os._exit(0)  # frameworks' exit hooks may hang or crash after the result is out


if __name__ == "__main__":
    main()
