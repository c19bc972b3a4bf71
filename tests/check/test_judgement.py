"""The judgement itself, on outputs made by hand from the reference: what passes, what does not, in which words."""

import msgspec
import numpy as np
import pytest
from in_process import right

from harness.check import judgement
from harness.check.judgement import judge, tolerance
from harness.contract.protocol import Counted
from harness.problems.sph2d import Sph2d

N = 50
(REFERENCE,) = right("published", N, "float64")
(SINGLE,) = right("published", N, "float32")


def judged(reference=REFERENCE, dtype="float64", **changed):
    """The judgement of right outputs, but for what is changed."""
    outputs = {
        "loss": np.dtype(dtype).type(reference.loss),
        "gradient": reference.gradient.astype(dtype),
        "counts": Counted(reference.counts.true_pairs, pair_slots=7),
        "expected_pair_slots": 7,
    }
    return judge(reference, dtype, **{**outputs, **changed})


def off_by(share):
    """The right gradient with one component off by a share of the gradient's scale."""
    gradient = REFERENCE.gradient.copy()
    gradient[3, 1] += share * REFERENCE.gradient_scale
    return gradient


def test_right_outputs_pass_with_every_figure():
    result = judged(fd_diff=1e-8)
    assert (result.outcome, result.reason) == ("ok", None)
    assert (result.loss, result.scaled_diff, result.max_rel_diff, result.loss_rel_diff) == (REFERENCE.loss, 0, 0, 0)
    assert result.grad_norm == pytest.approx(np.linalg.norm(REFERENCE.gradient))
    assert (result.true_pairs, result.pair_slots, result.fd_diff) == (REFERENCE.counts.true_pairs, 7, 1e-8)


@pytest.mark.parametrize(("share", "outcome"), [(0.5, "ok"), (2.0, "disagrees")])
def test_limit_of_the_gradient_lies_at_the_tolerance(share, outcome):
    result = judged(gradient=off_by(share * judgement.FLOAT64_TOLERANCE))
    assert result.outcome == outcome
    assert result.worst.index == 3


@pytest.mark.parametrize(("share", "outcome"), [(0.5, "ok"), (2.0, "disagrees")])
def test_limit_of_the_loss_lies_at_the_tolerance(share, outcome):
    loss = np.float64(REFERENCE.loss * (1.0 + share * judgement.FLOAT64_TOLERANCE))
    assert judged(loss=loss).outcome == outcome


@pytest.mark.parametrize(("fd_diff", "outcome"), [(1e-7, "ok"), (1e-5, "disagrees"), (float("nan"), "disagrees")])
def test_finite_difference_has_its_limit(fd_diff, outcome):
    result = judged(fd_diff=fd_diff)
    assert result.outcome == outcome
    assert ("not the derivative of the row's own loss" in (result.reason or "")) is (outcome == "disagrees")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_never_passes(value):
    gradient = REFERENCE.gradient.copy()
    gradient[5, 0] = value
    result = judged(gradient=gradient)
    assert (result.outcome, result.reason) == ("disagrees", "the gradient is not finite at particle 5")
    assert result.worst.got[0] is None
    assert judged(loss=np.float64(value)).reason == "the loss is not finite"


@pytest.mark.parametrize(
    ("changed", "outcome", "words"),
    [
        ({"loss": "fine"}, "bad-output", "loss is no array of numbers: 'fine'"),
        ({"loss": 1.0}, "bad-output", "loss is no array of numbers"),
        ({"loss": np.ones(1)}, "bad-output", "loss has shape (1,); expected ()"),
        ({"gradient": None}, "bad-output", "gradient is no array of numbers: 'None'"),
        ({"gradient": REFERENCE.gradient.T}, "bad-output", "gradient has shape (2, 50); expected (50, 2)"),
        ({"gradient": SINGLE.gradient.astype("float32")}, "wrong-dtype", "gradient is float32; float64 was asked for"),
        ({"loss": np.float32(REFERENCE.loss)}, "wrong-dtype", "loss is float32; float64 was asked for"),
    ],
)
def test_outputs_of_another_form_are_told(changed, outcome, words):
    result = judged(**changed)
    assert (result.outcome, words in result.reason) == (outcome, True), result.reason


def test_counts_are_exact_in_float64():
    pairs = REFERENCE.counts.true_pairs
    assert judged(counts=Counted(pairs + 2, 7)).reason == f"true_pairs is {pairs + 2}, expected {pairs}"
    assert (
        judged(counts=Counted(REFERENCE.counts.true_pairs, 8)).reason
        == "pair_slots is 8, expected 7 by the row's formula"
    )


def test_pairs_at_the_cutoff_may_fall_on_either_side():
    doubtful = msgspec.structs.replace(REFERENCE, boundary_pairs=2)
    pairs = doubtful.counts.true_pairs
    assert judged(doubtful, counts=Counted(pairs - 2, 7)).outcome == "ok"
    assert judged(doubtful, counts=Counted(pairs - 3, 7)).outcome == "disagrees"
    assert judgement.pair_slack(SINGLE, "float32") >= 2.0
    assert judged(SINGLE, "float32", counts=Counted(SINGLE.counts.true_pairs + 2, 7)).outcome == "ok"


def test_every_complaint_is_made():
    result = judged(loss=np.float64(0.0), gradient=off_by(1.0), counts=Counted(1, 1))
    assert [each.split()[0] for each in result.reason.split("; ")] == ["loss", "gradient", "true_pairs", "pair_slots"]


def test_tolerance_of_float32_grows_with_the_box():
    assert tolerance(Sph2d(10.0), "float64") == 1e-12
    assert tolerance(Sph2d(10.0), "float32") == 1e-5
    assert tolerance(Sph2d(1e4), "float32") > tolerance(Sph2d(1e3), "float32") > 1e-5


def test_nothing_differs_from_nothing():
    """A gradient that vanishes has no scale: no difference is right, any is wrong."""
    lone = msgspec.structs.replace(REFERENCE, gradient=np.zeros((N, 2)), gradient_scale=0.0)
    assert judged(lone).outcome == "ok"
    result = judged(lone, gradient=off_by(0.0))
    assert (result.outcome, result.scaled_diff) == ("disagrees", None)
