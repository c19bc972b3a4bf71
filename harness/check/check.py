"""The check of one row on one input: its loss, gradient and counts against the reference, call after call.

A library: a worker process checks what it times with it, tests check in their own process.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

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
"""A move, in the problem's unit of length, that no loss worth its name fails to notice."""


_Order = np.ndarray | slice


class RefusedError(Exception):
    """Carries a result that is not ok out of the check.

    Attributes:
        result: its outcome and reason.
        gradient: (N, d) of the row, where there is one; other rows' gradients may be compared with it.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(result.reason)
        self.result = result
        self.gradient: FloatArray | None = None


class _Output(NamedTuple):
    """What one call of `loss` and one of `grad` returned, on the device, computed."""

    loss: Array
    gradient: Array


def checked(built: Implementation, reference: Reference, case: Case) -> tuple[Result, FloatArray]:
    """Loss and gradient of an implementation against a reference, on its positions and on a permutation of them.

    Args:
        built: the implementation, built for the reference's positions.
        reference: what is right.
        case: what was asked for.

    Returns:
        The result, its outcome ok, and the gradient (N, d).

    Raises:
        RefusedError: with the result that tells what is wrong.
    """
    first = _evaluated(built, reference.positions)
    kept = built.to_numpy(first.gradient)
    snapshot = np.array(kept)
    try:
        result = _Judge(built, reference, case.dtype).first(first)
        _require_on_device(built, case, *first)
        _require_repeatable(built, reference, case, result, snapshot)
        if not np.array_equal(built.to_numpy(first.gradient), snapshot) or not np.array_equal(kept, snapshot):
            refuse("disagrees", "a later call overwrote the gradient returned earlier")
    except RefusedError as error:
        error.gradient = snapshot
        raise
    return result, snapshot


def _require_repeatable(
    built: Implementation, reference: Reference, case: Case, counted: Result, earlier: FloatArray
) -> None:
    """A second call, with the particles in another order, is right too."""
    order = permutations(len(reference.positions))[0]
    second = _evaluated(built, reference.positions[order])
    _Judge(built, reference, case.dtype).later(second, counted, "for the positions permuted", order, earlier)


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
    judge = _Judge(built, reference, case.dtype)
    loss, gradient, order = last
    judge.later(_Output(loss, gradient), counted, where, order)
    now = _evaluated(built, reference.positions)
    judge.later(now, counted, where)
    moved = reference.positions + _move(reference, _FAR_AWAY)
    if reference.gradient.any() and built.to_numpy(built.loss(built.to_device(moved))) == built.to_numpy(now.loss):
        refuse("disagrees", f"{where}: the loss is the same for other positions")


def _require_on_device(built: Implementation, case: Case, *outputs: Array) -> None:
    for output in outputs:
        device = built.device_of(output)
        if device != case.device:
            refuse("error", f"an output lies on {device}; {case.device} was asked for")


def refuse(outcome: Outcome, reason: str) -> NoReturn:
    """End a check with this outcome, for this reason."""
    raise RefusedError(Result(outcome=outcome, reason=reason))


def _evaluated(built: Implementation, positions: FloatArray) -> _Output:
    x = built.to_device(positions)
    return _Output(_called(built, "loss", x), _called(built, "grad", x))


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


class _Judge(NamedTuple):
    """Judges what a built row returns for one input; whatever is wrong is raised as `RefusedError`."""

    built: Implementation
    reference: Reference
    dtype: Dtype

    def first(self, output: _Output) -> Result:
        """The result of a first call, with the row's counts and, in float64, the finite difference of its loss."""
        loss, gradient = self._on_host(output)
        result = judgement.judge(
            self.reference,
            self.dtype,
            loss=loss,
            gradient=gradient,
            counts=self.built.counts(self.built.to_device(self.reference.positions)),
            expected_pair_slots=self.built.expected_pair_slots(self.reference.counts),
            fd_diff=_finite_difference(self.built, self.reference, gradient) if self.dtype == "float64" else None,
        )
        self._require_ok(result, gradient)
        return result

    def later(
        self,
        output: _Output,
        counted: Result,
        where: str,
        order: _Order = slice(None),
        earlier: FloatArray | None = None,
    ) -> None:
        """A later call is right too.

        Args:
            output: of that call.
            counted: result of the first call, whose counts hold for every order of the particles.
            where: begins the reason.
            order: of the particles in that call.
            earlier: gradient (N, d) of an earlier call with another order, which it must not repeat.
        """
        loss, gradient = self._on_host(output, where)
        ordered = np.empty_like(gradient)
        ordered[order] = gradient
        counts = Counted(counted.true_pairs or 0, counted.pair_slots or 0, counted.search_slots or 0)
        result = judgement.judge(
            self.reference,
            self.dtype,
            loss=loss,
            gradient=ordered,
            counts=counts,
            expected_pair_slots=counts.pair_slots,
        )
        repeated = earlier is not None and np.array_equal(gradient, earlier)
        self._require_ok(result, ordered, where, repeated=repeated)

    def _on_host(self, output: _Output, where: str = "") -> tuple[FloatArray, FloatArray]:
        """Loss and gradient as NumPy arrays of the form asked for."""
        loss, gradient = (self.built.to_numpy(array) for array in output)
        malformed = judgement.malformed(self.reference, self.dtype, loss, gradient)
        if malformed is not None:
            raise _refusal(malformed, where)
        return loss, gradient

    def _require_ok(self, result: Result, gradient: FloatArray, where: str = "", *, repeated: bool = False) -> None:
        if result.outcome == "ok":
            return
        hint = hints.hint(self.reference, self.dtype, result, gradient, repeated=repeated)
        result.reason = f"{result.reason}; hint: {hint}" if hint else result.reason
        raise _refusal(result, where)


def _refusal(result: Result, where: str) -> RefusedError:
    if where:
        result.reason = f"{where}: {result.reason}"
    return RefusedError(result)


def _finite_difference(built: Implementation, reference: Reference, gradient: FloatArray) -> float:
    """Distance of a gradient from the central difference of the row's own loss."""
    step = judgement.FINITE_DIFFERENCE_STEP
    shift = _move(reference, step)
    losses = [float(built.to_numpy(built.loss(built.to_device(reference.positions + s)))) for s in (shift, -shift)]
    return judgement.finite_difference(reference, gradient, step * reference.problem.unit, (losses[0], losses[1]))


def _move(reference: Reference, distance: float) -> FloatArray:
    """A random displacement (N, d) of about so many of the problem's units of length, of the positions' dtype."""
    positions = reference.positions
    step = distance * reference.problem.unit
    return (step * judgement.direction(positions.shape)).astype(positions.dtype)


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
