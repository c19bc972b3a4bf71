"""The check of one row on one input: its loss, gradient and counts against the reference, call after call.

A library: a worker process checks what it times with it, tests check in their own process.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import msgspec
import numpy as np

from harness.check import hints, judgement
from harness.check.outcomes import outcome_of, reason_of
from harness.check.reference import Reference
from harness.contract.problem import FloatArray, InvalidPositionsError
from harness.contract.protocol import Array, Case, Counted, Dtype, Implementation
from harness.contract.records import Outcome, Result

PERMUTATIONS = 4
_FAR_AWAY = 0.1
"""A move, in units of h, that no loss worth its name fails to notice."""


_Order = np.ndarray | slice


class RefusedError(Exception):
    """Carries a result that is not ok out of the check."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.reason)
        self.result = result


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
    order = permutations(len(reference.positions))[0]
    loss, gradient = _evaluated(built, reference.positions)
    kept = built.to_numpy(gradient)
    snapshot = np.array(kept)
    result = _require_ok(_judge(built, reference, case.dtype, loss, gradient), None)
    _require_on_device(built, case, loss, gradient)
    second = _evaluated(built, reference.positions[order])
    _require_ok(_judge(built, reference, case.dtype, *second, order, result, snapshot), "for the positions permuted")
    if not np.array_equal(built.to_numpy(gradient), snapshot) or not np.array_equal(kept, snapshot):
        refuse("disagrees", "a later call overwrote the gradient returned earlier")
    return result, snapshot


def checked_all(
    row: type[Implementation],
    references: Sequence[Reference],
    case: Case,
    on_input: Callable[[str], None] = lambda name: None,
) -> Result:
    """Build and check a row for each of several inputs.

    Args:
        row: the implementation.
        references: of the inputs; one that must be refused says so.
        case: what was asked for.
        on_input: told the name of each input before it is checked.

    Returns:
        The result of the input on which the row is furthest off.

    Raises:
        RefusedError: with the result of the first input on which it is wrong, its reason beginning with that name.
    """
    worst = Result(outcome="ok")
    for reference in references:
        on_input(reference.name)
        try:
            result = _checked_anew(row, reference, case)
        except RefusedError as error:
            error.result.reason = f"{reference.name}: {error.result.reason}"
            raise
        except Exception as error:
            refuse(outcome_of(error, case), f"{reference.name}: {reason_of(error, case)}")
        if (result.scaled_diff or 0.0) >= (worst.scaled_diff or 0.0):
            worst = result
    worst.reason = f"{len(references)} inputs"
    return worst


def _checked_anew(row: type[Implementation], reference: Reference, case: Case) -> Result:
    """Build for one input and check it, its refusal where it must be refused."""
    if reference.refusal is None:
        return checked(build(row, reference, case), reference, case)[0]
    usable = np.clip(np.nan_to_num(reference.positions), -1e3, 1e3)
    built = build(row, msgspec.structs.replace(reference, positions=usable), case)
    bad = reference.positions
    _require_refusal(lambda: build(row, reference, case).loss(built.to_device(bad)), reference.refusal)
    _require_refusal(lambda: built.loss(built.to_device(bad)), reference.refusal)
    _require_refusal(lambda: built.grad(built.to_device(bad)), reference.refusal)
    return Result(outcome="ok")


def _require_refusal(call: Callable[[], Any], words: str) -> None:
    try:
        call()
    except InvalidPositionsError as error:
        if str(error) != words:
            refuse("disagrees", f"refused with {error}; expected: {words}")
    else:
        refuse("disagrees", f"was not refused; expected: {words}")


def require_still_right(
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
        refuse("disagrees", f"{where}: the loss is the same for other positions")


def _require_on_device(built: Implementation, case: Case, *outputs: Array) -> None:
    for output in outputs:
        device = built.device_of(output)
        if device != case.device:
            refuse("error", f"an output lies on {device}; {case.device} was asked for")


def _require_ok(result: Result, where: str | None) -> Result:
    if result.outcome != "ok":
        if where:
            result.reason = f"{where}: {result.reason}"
        raise RefusedError(result)
    return result


def refuse(outcome: Outcome, reason: str) -> NoReturn:
    """End a check with this outcome, for this reason."""
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
        refuse("bad-output", f"{name} returned a list; return an array of the framework")
    if not np.array_equal(built.to_numpy(x), before):
        refuse("disagrees", f"{name} changed its input positions")
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
    malformed = judgement.malformed(reference, dtype, values, slopes)
    if malformed is not None:
        return malformed
    ordered = np.empty_like(slopes)
    ordered[order] = slopes
    difference = None
    if counted is None:
        counts = built.counts(built.to_device(reference.positions))
        expected_slots = built.expected_pair_slots(reference.counts)
        if dtype == "float64":
            difference = _finite_difference(built, reference, slopes)
    else:
        counts = Counted(counted.true_pairs or 0, counted.pair_slots or 0, counted.search_slots or 0)
        expected_slots = counts.pair_slots
    result = judgement.judge(
        reference,
        dtype,
        loss=values,
        gradient=ordered,
        counts=counts,
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
    step = judgement.FINITE_DIFFERENCE_STEP
    shift = _move(reference, step)
    losses = [float(built.to_numpy(built.loss(built.to_device(reference.positions + s)))) for s in (shift, -shift)]
    return judgement.finite_difference(
        reference, gradient, step * reference.problem.smoothing_length, (losses[0], losses[1])
    )


def _move(reference: Reference, distance: float) -> FloatArray:
    """A random displacement (N, 2) of about so many smoothing lengths, of the positions' dtype."""
    positions = reference.positions
    step = distance * reference.problem.smoothing_length
    return (step * judgement.direction(len(positions))).astype(positions.dtype)


def build(row: type[Implementation], reference: Reference, case: Case) -> Implementation:
    """The row built for a reference's positions.

    Raises:
        RefusedError: its constructor does not take what the protocol says.
    """
    names = ("problem", "positions", "device", "dtype")
    try:
        inspect.signature(row).bind(*names, **case.options)
    except TypeError:
        refuse("error", f"{row.__name__}.__init__ must take ({', '.join((*names, *case.options))})")
    return row(reference.problem, reference.positions, case.device, case.dtype, **case.options)


def permutations(n: int) -> list[np.ndarray]:
    """Random orders of n rows, always the same."""
    rng = np.random.default_rng(n)
    return [rng.permutation(n) for _ in range(PERMUTATIONS)]
