"""The gate has been seen to fail: each wrong row is refused, for the right reason, through the real worker."""

import pytest
from fake_cases import fake, planned

from harness.run import gate
from harness.run.runner import Runner
from harness.run.settings import Settings

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
def test_wrong_row_is_refused_for_the_right_reason(bench, name):
    record = bench(name, n=100, budget_s=None)
    outcome, words = WRONG[name]
    assert (record.outcome, words in record.reason) == (outcome, True), record.reason


@pytest.mark.parametrize("name", ["wrong_after_warm_up", "wrong_loss_after_warm_up"])
def test_row_that_turns_wrong_while_it_is_timed_is_refused(bench, name):
    assert bench(name, n=100, budget_s=None).outcome == "ok"
    record = bench(name, n=100)
    assert (record.outcome, record.forward_s, record.gradient_s) == ("disagrees", None, None)
    assert record.reason.startswith("after the samples: ")


@pytest.mark.parametrize("name", UNFIT)
def test_class_that_is_no_row_is_told_what_it_lacks(bench, name):
    record = bench(name, n=100, budget_s=None)
    assert (record.outcome, UNFIT[name] in record.reason) == ("error", True), record.reason
    assert "worker.py" not in record.reason


@pytest.mark.parametrize("n", [50, 100])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_right_row_passes(bench, dtype, n):
    record = bench("right", n=n, dtype=dtype)
    assert (record.outcome, record.reason) == ("ok", None)
    assert record.scaled_diff is not None


@pytest.mark.parametrize(
    "name", ["wrong_nan", "wrong_sign_of_one", "wrong_pair_dropped_in_gradient", "wrong_order", "wrong_stale"]
)
def test_wrong_row_is_refused_in_float32_too(bench, name):
    assert bench(name, n=100, dtype="float32").outcome == "disagrees"


@pytest.mark.parametrize("scenario", ["published", "clustered"])
@pytest.mark.parametrize(
    "name", ["wrong_mean", "wrong_without_self_term", "wrong_pairs_twice", "wrong_density_twice", "wrong_sign"]
)
def test_mistake_is_named_in_float32_too(bench, name, scenario):
    record = bench(name, n=1000, dtype="float32", scenario=scenario, budget_s=None)
    assert WRONG[name][1] in record.reason


def test_mistake_that_the_figures_do_not_single_out_is_not_named(bench):
    for name in ("wrong_loss", "wrong_unordered_pairs", "wrong_true_pairs"):
        assert "hint" not in bench(name, n=100, budget_s=None).reason


def test_cell_of_a_small_box_visited_twice_is_told(bench):
    assert bench("wrong_small_box", n=100, budget_s=None).outcome == "ok"
    record = bench("wrong_small_box", n=50, budget_s=None)
    words = "pairs too many: is a cell of a small box visited more than once? (rule 1, docs/method.md)"
    assert (record.outcome, words in record.reason) == ("disagrees", True), record.reason


def test_input_wrapped_in_place_is_refused(bench):
    assert bench("wraps_in_place", n=100, budget_s=None).outcome == "ok"
    record = bench("wraps_in_place", n=0, scenario="hard", budget_s=None)
    assert record.outcome == "disagrees"
    assert record.reason == "translated by whole boxes: loss changed its input positions"


def test_row_right_on_small_inputs_only_is_refused_on_a_large_one(bench):
    assert bench("wrong_at_large_n", n=100).outcome == "ok"
    assert bench("wrong_at_large_n", n=1000).outcome == "disagrees"


def test_hard_inputs_refuse_a_row_without_periodic_images(bench):
    record = bench("wrong_without_wrap", n=0, scenario="hard", budget_s=None)
    assert (record.outcome, record.reason.split(":")[0]) == ("disagrees", "uniform")
    assert bench("right", n=0, scenario="hard", budget_s=None).outcome == "ok"


def test_worst_particle_is_recorded(bench):
    worst = bench("wrong_sign_of_one", n=100).worst
    assert worst.index == 0
    assert worst.got == pytest.approx([-value for value in worst.expected])


def test_verdict_names_what_disagrees():
    verdict = _verdict(planned("right"), planned("wrong_scale"), planned("has_no_device"))
    assert not verdict.agree
    assert [record.outcome for record in verdict.records] == ["ok", "disagrees", "unavailable"]
    assert [problem.split("/")[0] for problem in verdict.problems] == ["wrong_scale"]


def test_verdict_needs_something_checked():
    verdict = _verdict(planned("has_no_device"))
    assert (verdict.agree, verdict.problems) == (False, ["nothing was checked: no case ended ok"])


def test_required_row_must_have_been_checked():
    assert _verdict(planned("right"), planned("has_no_device")).agree
    verdict = _verdict(planned("right"), planned("has_no_device"), required=[fake("has_no_device")])
    assert [problem.split(":")[0].split("/")[0] for problem in verdict.problems] == ["has_no_device"]


def test_cases_of_a_row_that_fail_alike_are_one_problem():
    fails = [planned("raises", n) for n in (10, 20)]
    assert _verdict(planned("right"), *fails).problems == [
        "raises, in all 2 cases: error: RuntimeError: this row has a bug (at raises.py:6)"
    ]
    assert (
        _verdict(planned("wrong_at_large_n", 50), planned("wrong_at_large_n", 1000))
        .problems[0]
        .startswith("wrong_at_large_n/published/1000/cpu/float64/1t: disagrees: ")
    )


def _verdict(*plan, required=()):
    with Runner(Settings(gradients=True), "test") as runner:
        return gate.check(runner, plan, required)
