"""The check has been seen to fail: each wrong row is refused, for the right reason; a right one passes."""

import pytest
from fake_cases import planned
from in_process import compiled, judged, right, row

from harness.check.check import RefusedError, checked, permutations, require_still_right

WRONG = {
    "wrong_nan": ("disagrees", "the gradient is not finite at particle 50"),
    "wrong_zeros": ("disagrees", "every entry is zero"),
    "wrong_pair_dropped": ("disagrees", "hint: 2 pairs dropped (rule 1, docs/method.md)"),
    "wrong_pair_dropped_in_gradient": ("disagrees", "2 of 100 particles differ (one pair dropped or wrong?)"),
    "wrong_sign": ("disagrees", "the sign is wrong"),
    "wrong_sign_of_one": ("disagrees", "gradient of particle 0 is"),
    "wrong_scale": ("disagrees", "scaled by 1.000001"),
    "wrong_dtype": ("wrong-dtype", "gradient is float32; float64 was asked for"),
    "wrong_precision": ("disagrees", "float32 precision"),
    "wrong_order": ("disagrees", "right rows in another order"),
    "wrong_stale": ("disagrees", "for the positions permuted: gradient of particle"),
    "wrong_folded": ("disagrees", "hint: the result of an earlier call: something is cached"),
    "wrong_loss_folded": ("disagrees", "gradient is not the derivative of the row's own loss"),
    "wrong_accumulating": ("disagrees", "hint: scaled by 2"),
    "wrong_overwriting": ("disagrees", "a later call overwrote the gradient returned earlier"),
    "wrong_pair_slots": ("disagrees", "pair_slots is 10001, expected 10000 by the row's formula"),
    "wrong_true_pairs": ("disagrees", "true_pairs is"),
    "wrong_loss": ("disagrees", "(relative difference 1.0e-09)"),
    "wrong_gradient_of_other_loss": ("disagrees", "gradient is not the derivative of the row's own loss"),
    "wrong_without_wrap": ("disagrees", "pairs dropped"),
    "wrong_mean": ("disagrees", "hint: mean instead of sum?"),
    "wrong_without_self_term": ("disagrees", "hint: the self term m W(0) is missing"),
    "wrong_pairs_twice": ("disagrees", "hint: every pair counted twice?"),
    "wrong_density_twice": ("disagrees", "hint: every pair and the self term counted twice?"),
    "wrong_pair_twice": ("disagrees", "hint: 2 pairs too many (rule 1, docs/method.md)"),
    "changes_input": ("disagrees", "grad changed its input positions"),
    "returns_list": ("bad-output", "grad returned a list; return an array of the framework"),
    "returns_empty": ("bad-output", "gradient has shape (0, 2); expected (100, 2)"),
    "diverges": ("disagrees", "the loss is not finite"),
}

UNFIT = {
    "has_two_subclasses": "defines 2 implementations, First, Second: keep one here and import the others from files",
    "has_no_description": "class Fake has no `description`; see docs/template.py",
    "lacks_a_method": "Can't instantiate abstract class Fake",
    "takes_other_arguments": "Fake.__init__ must take (problem, positions, device, dtype)",
    "raises_type_error_at_build": "(at raises_type_error_at_build.py:6)",
    "raises_inside_numpy": "(at raises_inside_numpy.py:7)",
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_row_is_refused_for_the_right_reason(name):
    result = judged(name)
    outcome, words = WRONG[name]
    assert (result.outcome, words in result.reason) == (outcome, True), result.reason


@pytest.mark.parametrize("name", ["wrong_after_warm_up", "wrong_loss_after_warm_up"])
def test_row_that_turns_wrong_while_it_is_timed_is_refused(name):
    case = planned(name, 100).case
    (reference,) = right("published", 100, "float64")
    built = compiled(row(name), reference, case)
    result, _ = checked(built, reference, case)
    assert result.outcome == "ok"
    for order in permutations(100):  # the samples
        last = built.loss(reference.positions[order]), built.grad(reference.positions[order]), order
    with pytest.raises(RefusedError, match="after the samples: ") as refused:
        require_still_right(built, reference, case, last, result)
    assert refused.value.result.outcome == "disagrees"


@pytest.mark.parametrize("name", UNFIT)
def test_class_that_is_no_row_is_told_what_it_lacks(name):
    result = judged(name)
    assert (result.outcome, UNFIT[name] in result.reason) == ("error", True), result.reason
    assert "check.py" not in result.reason


@pytest.mark.parametrize("n", [50, 100])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_right_row_passes(dtype, n):
    result = judged("right", n, dtype=dtype)
    assert (result.outcome, result.reason) == ("ok", None)
    assert result.scaled_diff is not None


@pytest.mark.parametrize(
    "name", ["wrong_nan", "wrong_sign_of_one", "wrong_pair_dropped_in_gradient", "wrong_order", "wrong_stale"]
)
def test_wrong_row_is_refused_in_float32_too(name):
    assert judged(name, dtype="float32").outcome == "disagrees"


@pytest.mark.parametrize("scenario", ["published", "clustered"])
@pytest.mark.parametrize(
    "name", ["wrong_mean", "wrong_without_self_term", "wrong_pairs_twice", "wrong_density_twice", "wrong_sign"]
)
def test_mistake_is_named_in_float32_too(name, scenario):
    assert WRONG[name][1] in judged(name, 1000, dtype="float32", scenario=scenario).reason


@pytest.mark.parametrize("name", ["wrong_loss", "wrong_unordered_pairs", "wrong_true_pairs"])
def test_mistake_that_the_figures_do_not_single_out_is_not_named(name):
    assert "hint" not in judged(name).reason


def test_cell_of_a_small_box_visited_twice_is_told():
    assert judged("wrong_small_box").outcome == "ok"
    result = judged("wrong_small_box", 50)
    words = "pairs too many: is a cell of a small box visited more than once? (rule 1, docs/method.md)"
    assert (result.outcome, words in result.reason) == ("disagrees", True), result.reason


def test_input_wrapped_in_place_is_refused():
    assert judged("wraps_in_place").outcome == "ok"
    result = judged("wraps_in_place", 0, scenario="hard")
    assert result.outcome == "disagrees"
    assert result.reason == "translated by whole boxes: loss changed its input positions"


def test_row_right_on_small_inputs_only_is_refused_on_a_large_one():
    assert judged("wrong_at_large_n").outcome == "ok"
    assert judged("wrong_at_large_n", 1000).outcome == "disagrees"


def test_hard_inputs_refuse_a_row_without_periodic_images():
    result = judged("wrong_without_wrap", 0, scenario="hard")
    assert (result.outcome, result.reason.split(":")[0]) == ("disagrees", "uniform")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_hard_inputs_pass_a_right_row(dtype):
    result = judged("right", 0, scenario="hard", dtype=dtype)
    assert (result.outcome, result.reason) == ("ok", f"{len(right('hard', 0, dtype))} inputs")


def test_output_on_another_device_is_no_result_of_this_one():
    result = judged("on_another_device", device="cuda")
    assert (result.outcome, result.reason) == ("error", "an output lies on cpu; cuda was asked for")


def test_worst_particle_is_recorded():
    worst = judged("wrong_sign_of_one").worst
    assert worst.index == 0
    assert worst.got == pytest.approx([-value for value in worst.expected])
