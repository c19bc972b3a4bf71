"""Why a result is wrong: a guess at the mistake, made only where the figures single it out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.check.judgement import pair_slack, tolerance
from harness.check.reference import Reference
from harness.contract.problem import FloatArray
from harness.contract.protocol import Dtype
from harness.contract.records import Result


def hint(
    reference: Reference, dtype: Dtype, result: Result, gradient: FloatArray, *, repeated: bool = False
) -> str | None:
    """The likeliest mistake, or None.

    Args:
        reference: what is right.
        dtype: what was asked for.
        result: how the two differ, from `judgement.judge`.
        gradient: (N, d) of the implementation, in the reference's order.
        repeated: whether it is, bit for bit, what an earlier call returned for other positions.
    """
    return next(_hints(reference, dtype, result, gradient, repeated), None)


def _hints(reference: Reference, dtype: Dtype, result: Result, gradient: FloatArray, repeated: bool) -> Iterator[str]:
    """The surest first."""
    limit = tolerance(reference.problem, dtype)
    loss_wrong = result.loss_rel_diff is not None and result.loss_rel_diff > limit
    gradient_wrong = result.scaled_diff is not None and result.scaled_diff > limit
    telling = reference.counts.n > 2  # the figures of two particles fit too many mistakes
    if gradient_wrong and repeated:
        yield "the result of an earlier call: something is cached"
    if loss_wrong and telling:
        yield from _loss_hints(reference, limit, result)
    if loss_wrong:
        yield from _pair_hints(reference, dtype, result)
    if gradient_wrong and telling:
        yield from _gradient_hints(reference, dtype, gradient.astype(np.float64))


def _loss_hints(reference: Reference, limit: float, result: Result) -> Iterator[str]:
    """The one mistake that gives this loss."""
    assert result.loss is not None
    losses = reference.problem.mistaken_losses(reference.sums)
    found = [words for words, loss in losses.items() if abs(result.loss - loss) <= limit * abs(loss)]
    if len(found) == 1:
        yield found[0]


def _pair_hints(reference: Reference, dtype: Dtype, result: Result) -> Iterator[str]:
    """What the row's own count tells, where the loss is wrong too: it counts through the cells or list of its loss."""
    pairs, right = result.true_pairs or 0, reference.counts.true_pairs
    excess, slack = pairs - right, pair_slack(reference, dtype)
    if 2 * pairs == right or excess == reference.counts.n:
        return  # unordered pairs, or the particles themselves, counted: says nothing of the loss
    if excess < -slack:
        yield f"{-excess} pairs dropped (rule 1, docs/method.md)"
    if excess > slack:
        small = reference.counts.cells_per_side < 3
        question = ": is a cell of a small box visited more than once?" if small else ""
        yield f"{excess} pairs too many{question} (rule 1, docs/method.md)"


def _gradient_hints(reference: Reference, dtype: Dtype, got: FloatArray) -> Iterator[str]:
    right, scale = reference.gradient, reference.gradient_scale
    limit = tolerance(reference.problem, dtype)
    error = np.abs(got - right).max(axis=1) / scale
    if not got.any():
        yield "every entry is zero"
    factor = float(np.vdot(got, right) / np.vdot(right, right))
    scaled = np.abs(got - factor * right).max() <= limit * scale * max(1.0, abs(factor))
    if scaled and abs(factor - 1.0) > max(limit, 1e-9):
        yield "the sign is wrong" if abs(factor + 1.0) < 1e-6 else f"scaled by {factor:.10g}"
    if np.abs(_sorted_rows(got) - _sorted_rows(right)).max() <= limit * scale:
        yield "right rows in another order (left in sorted order?)"
    off = int(np.count_nonzero(error > limit))
    if off > 2 and dtype == "float64" and 1e-9 <= error.max() <= tolerance(reference.problem, "float32"):
        yield "float32 precision (a float32 constant or step inside?)"
    yield f"{off} of {len(got)} particles differ" + (" (one pair dropped or wrong?)" if off == 2 else "")


def _sorted_rows(rows: FloatArray) -> FloatArray:
    return rows[np.lexsort(rows.T)]
