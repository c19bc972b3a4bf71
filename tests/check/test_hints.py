"""Hints on outputs made by hand: each mistake has its own, and what the figures do not single out has none."""

import numpy as np
import pytest
from in_process import right

from harness.check.hints import hint
from harness.check.judgement import judge
from harness.contract.protocol import Counted

N = 60
(REFERENCE,) = right("clustered", N, "float64")
RHO_0 = REFERENCE.problem.rest_density
SELF_TERM = REFERENCE.problem.self_term


def loss_of(density):
    return float(np.sum((density - RHO_0) ** 2))


def hinted(loss=REFERENCE.loss, gradient=REFERENCE.gradient, pairs=0, *, repeated=False):
    """The hint for a loss and a gradient, with so many pairs too many."""
    result = judge(
        REFERENCE,
        "float64",
        loss=np.float64(loss),
        gradient=gradient,
        counts=Counted(REFERENCE.counts.true_pairs + pairs, pair_slots=0),
        expected_pair_slots=0,
    )
    return hint(REFERENCE, "float64", result, gradient, repeated=repeated)


def test_what_is_right_has_no_hint():
    assert hinted() is None


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (REFERENCE.loss / N, "mean instead of sum?"),
        (loss_of(REFERENCE.sums - SELF_TERM), "the self term m W(0) is missing"),
        (loss_of(2 * REFERENCE.sums - SELF_TERM), "every pair counted twice?"),
        (loss_of(2 * REFERENCE.sums), "every pair and the self term counted twice?"),
        (1.01 * REFERENCE.loss, None),
    ],
)
def test_a_loss_tells_the_one_mistake_that_gives_it(loss, words):
    assert hinted(loss) == words


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (-2, "2 pairs dropped (rule 1, docs/method.md)"),
        (4, "4 pairs too many"),
        (N, None),  # the particles themselves counted: says nothing of the loss
        (-REFERENCE.counts.true_pairs // 2, None),  # unordered pairs counted: neither
    ],
)
def test_pairs_are_told_where_the_loss_is_wrong_too(pairs, words):
    told = hinted(1.01 * REFERENCE.loss, pairs=pairs)
    assert told is None if words is None else told.startswith(words)
    assert hinted(pairs=pairs) is None


def swapped_rows():
    return REFERENCE.gradient[::-1].copy()


def one_pair_off():
    gradient = REFERENCE.gradient.copy()
    gradient[0] += 1.0
    gradient[1] -= 1.0
    return gradient


@pytest.mark.parametrize(
    ("gradient", "words"),
    [
        (0.0 * REFERENCE.gradient, "every entry is zero"),
        (-REFERENCE.gradient, "the sign is wrong"),
        (0.5 * REFERENCE.gradient, "scaled by 0.5"),
        (swapped_rows(), "right rows in another order (left in sorted order?)"),
        (REFERENCE.gradient.astype(np.float32).astype(np.float64), "float32 precision (a float32 constant or step"),
        (one_pair_off(), "2 of 60 particles differ (one pair dropped or wrong?)"),
        (REFERENCE.gradient + 1.0, "60 of 60 particles differ"),
    ],
)
def test_a_gradient_tells_its_mistake(gradient, words):
    assert hinted(gradient=gradient).startswith(words)


def test_what_an_earlier_call_returned_is_told_before_all_else():
    assert hinted(gradient=-REFERENCE.gradient, repeated=True) == "the result of an earlier call: something is cached"
    assert hinted(repeated=True) is None  # right it is all the same
