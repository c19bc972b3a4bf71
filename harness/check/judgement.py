"""The judgement: whether what an implementation returned is right, and if not, where.

Every comparison is written so that NaN fails it. Tolerances: float64 1e-12; float32 max(1e-5, 2 eps32 L / (2h)), the
part of the box's own rounding that reaches a pair distance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from harness.check.reference import Reference
from harness.contract.problem import FloatArray, Problem
from harness.contract.protocol import Counted, Dtype
from harness.contract.records import Result, Worst

FLOAT64_TOLERANCE = 1e-12
FLOAT32_TOLERANCE = 1e-5
FINITE_DIFFERENCE_TOLERANCE = 1e-6
FINITE_DIFFERENCE_STEP = 1e-5  # of h; truncation and rounding of the difference then both stay below the tolerance


def tolerance(problem: Problem, dtype: Dtype) -> float:
    """Largest accepted `scaled_diff` and `loss_rel_diff`."""
    if dtype == "float64":
        return FLOAT64_TOLERANCE
    return max(FLOAT32_TOLERANCE, 2.0 * float(np.finfo(np.float32).eps) * problem.box_length / problem.cutoff)


def judge(
    reference: Reference,
    dtype: Dtype,
    *,
    loss: object,
    gradient: object,
    counts: Counted,
    expected_pair_slots: int,
    fd_diff: float | None = None,
) -> Result:
    """Compare one implementation's output with the reference.

    Args:
        reference: what is right.
        dtype: what was asked for.
        loss: NumPy scalar or 0-d array.
        gradient: (N, d) NumPy array.
        counts: the row's.
        expected_pair_slots: its formula on the oracle's counts.
        fd_diff: see `finite_difference`; None where it was not taken.

    Returns:
        A result with outcome ok, disagrees, wrong-dtype or bad-output, the reason, and every figure that could be had.
    """
    wrong = malformed(reference, dtype, loss, gradient)
    if wrong is not None:
        return wrong
    result = _figures(reference, float(np.asarray(loss)), np.asarray(gradient, np.float64))
    result.true_pairs, result.pair_slots, result.search_slots = counts
    result.fd_diff = _finite(fd_diff)
    complaints = list(_complaints(reference, dtype, result, fd_diff, expected_pair_slots))
    if complaints:
        result.outcome, result.reason = "disagrees", "; ".join(complaints)
    return result


def malformed(reference: Reference, dtype: Dtype, loss: object, gradient: object) -> Result | None:
    """A result bad-output or wrong-dtype where the output is not even of the asked form."""
    for name, value, shape in (("loss", loss, ()), ("gradient", gradient, reference.positions.shape)):
        if not isinstance(value, np.ndarray | np.generic) or not np.issubdtype(value.dtype, np.number):
            return Result(outcome="bad-output", reason=f"{name} is no array of numbers: {str(value)[:80]!r}")
        if value.shape != shape:
            return Result(outcome="bad-output", reason=f"{name} has shape {value.shape}; expected {shape}")
        if value.dtype != np.dtype(dtype):
            return Result(outcome="wrong-dtype", reason=f"{name} is {value.dtype}; {dtype} was asked for")
    return None


def _figures(reference: Reference, loss: float, gradient: FloatArray) -> Result:
    error = np.abs(gradient - reference.gradient).max(axis=1, initial=0.0)
    largest = float(error.max(initial=0.0))
    scale = float(np.abs(reference.gradient).max(initial=0.0))
    return Result(
        outcome="ok",
        loss=_finite(loss),
        grad_norm=_finite(float(np.linalg.norm(gradient))),
        max_rel_diff=_finite(_ratio(largest, scale)),
        scaled_diff=_finite(_ratio(largest, reference.gradient_scale)),
        loss_rel_diff=_finite(_ratio(abs(loss - reference.loss), abs(reference.loss))),
        worst=_worst(reference, gradient, error) if len(gradient) else None,
    )


def _worst(reference: Reference, gradient: FloatArray, error: FloatArray) -> Worst:
    index = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
    got = [_finite(float(value)) for value in gradient[index]]
    return Worst(index, got, [float(value) for value in reference.gradient[index]])


def _complaints(
    reference: Reference, dtype: Dtype, result: Result, fd_diff: float | None, expected_pair_slots: int
) -> Iterator[str]:
    limit = tolerance(reference.problem, dtype)
    if result.loss is None:
        yield "the loss is not finite"
    elif not _within(result.loss_rel_diff, limit):
        yield f"loss {result.loss!r}, expected {reference.loss!r} (relative difference {_show(result.loss_rel_diff)})"
    if result.grad_norm is None:
        yield f"the gradient is not finite at particle {_index(result)}"
    elif not _within(result.scaled_diff, limit):
        assert result.worst is not None
        yield (
            f"gradient of particle {result.worst.index} is {result.worst.got}, expected {result.worst.expected} "
            f"(scaled difference {_show(result.scaled_diff)}, limit {limit:.1e})"
        )
    if fd_diff is not None and not fd_diff <= FINITE_DIFFERENCE_TOLERANCE:
        yield f"gradient is not the derivative of the row's own loss (finite difference off by {_show(fd_diff)})"
    yield from _count_complaints(reference, dtype, result, expected_pair_slots)


def _count_complaints(reference: Reference, dtype: Dtype, result: Result, expected_pair_slots: int) -> Iterator[str]:
    right, slack = reference.counts.true_pairs, pair_slack(reference, dtype)
    if result.true_pairs is None or not abs(result.true_pairs - right) <= slack:
        yield f"true_pairs is {result.true_pairs}, expected {right}"
    if dtype == "float64":
        slack = 2.0 * reference.boundary_pairs
    if result.pair_slots is None or not abs(result.pair_slots - expected_pair_slots) <= slack:
        yield f"pair_slots is {result.pair_slots}, expected {expected_pair_slots} by the row's formula"


def pair_slack(reference: Reference, dtype: Dtype) -> float:
    """By how much `true_pairs` may be off: for pairs that rounding puts on either side of the cutoff, no more."""
    slack = float(reference.boundary_pairs)
    return slack if dtype == "float64" else slack + 2.0 + 1e-6 * reference.counts.true_pairs


def direction(shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Random direction of the finite difference, of the positions' shape (n, d), standard normal, always the same."""
    return np.random.default_rng(shape[0]).standard_normal(shape)


def finite_difference(reference: Reference, gradient: FloatArray, step: float, losses: tuple[float, float]) -> float:
    """Distance of a gradient from a central difference along `direction`, relative to |g|_2.

    Rounding of the two losses, which the difference magnifies, is allowed for: it adds to the denominator, so that a
    vanishing gradient is held to an absolute error.

    Args:
        reference: of the input.
        gradient: (N, d) float64 of the implementation, in float64.
        step: displacement per unit of the direction.
        losses: the implementation's loss at x + step d and x - step d.
    """
    slope = (losses[0] - losses[1]) / (2.0 * step)
    rounding = 64.0 * float(np.finfo(np.float64).eps) * reference.problem.magnitude(reference.sums) / step
    scale = float(np.linalg.norm(reference.gradient)) + rounding / FINITE_DIFFERENCE_TOLERANCE
    return _ratio(abs(slope - float(np.vdot(gradient, direction(gradient.shape)))), scale)


def largest_difference(values: Iterable[FloatArray], scale: float) -> float:
    """max |a - b| / scale over every two of several arrays of one shape, and all their entries; NaN if one is NaN."""
    stacked = np.stack([np.asarray(value, np.float64) for value in values])
    return _ratio(float(np.ptp(stacked, axis=0).max(initial=0.0)), scale)


def accusers(values: Mapping[str, FloatArray], right: FloatArray, scale: float, limit: float) -> list[str]:
    """Rows that agree with each other and not with what is held to be right, where they are the majority.

    One row that is off is wrong. Where most are off in the same way, they share a mistake or the oracle is wrong: no
    comparison with the oracle alone can tell.

    Args:
        values: of each row for the same input, all of one shape.
        right: the oracle's, of that shape.
        scale: of the differences.
        limit: largest scaled difference from the oracle that is accepted; rows agree with each other at a tenth of it.

    Returns:
        Names in the order of `values`; at least two and more than half of all, or none.
    """
    off = [name for name, value in values.items() if not largest_difference((value, right), scale) <= limit]

    def like(one: str) -> list[str]:
        return [name for name in off if largest_difference((values[name], values[one]), scale) <= 0.1 * limit]

    alike = max(map(like, off), key=len, default=[])
    return alike if len(alike) >= 2 and 2 * len(alike) > len(values) else []


def _ratio(difference: float, scale: float) -> float:
    """difference / scale, where no difference is none at any scale."""
    if difference == 0.0:
        return 0.0
    return difference / scale if scale > 0.0 else float("inf")


def _within(value: float | None, limit: float) -> bool:
    return value is not None and value <= limit


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None


def _show(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.1e}"


def _index(result: Result) -> int | None:
    return result.worst.index if result.worst else None
