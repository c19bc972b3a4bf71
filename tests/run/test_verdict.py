"""The verdict on a run, and the check through the real worker: a few rows, the rest in tests/check.

Most rows against the oracle accuse it, and the verdict says what it compared.
"""

import msgspec
import numpy as np
import pytest
from fake_cases import made_record, planned

from harness.check import oracle
from harness.check.judgement import accusers, largest_difference
from harness.run import verdict
from harness.run.runner import CheckRunner, Finished
from harness.run.settings import CheckSettings

RIGHT = np.array([[1.0, -2.0], [0.5, 3.0]])
LIMIT = 1e-12


@pytest.mark.parametrize(
    ("name", "scenario", "n", "reason"),
    [
        ("wrong_scale", "published", 100, "scaled by 1.000001"),
        ("wrong_without_wrap", "hard", 0, "uniform: loss "),
    ],
)
def test_wrong_row_is_refused_through_the_worker(check, name, scenario, n, reason):
    record = check(name, n=n, scenario=scenario)
    assert (record.outcome, reason in record.reason) == ("disagrees", True), record.reason


def test_row_that_turns_wrong_while_it_is_timed_has_no_time(bench):
    record = bench("wrong_after_warm_up", n=100)
    assert (record.outcome, record.forward_s, record.gradient_s) == ("disagrees", None, None)
    assert record.reason.startswith("after the samples: ")


class Ran:
    """Stands in for a runner whose cases have ended."""

    def __init__(self, *records):
        self.records = records

    def run(self, plan):
        yield from map(Finished, self.records)


def verdict_on(*records, required=()):
    plan = [planned(record.implementation, record.n) for record in records]
    return verdict.reach(Ran(*records), plan, required)


ABSENT = made_record("absent", outcome="unavailable", reason="no CUDA device")


def test_verdict_names_what_disagrees():
    reached = verdict_on(made_record("right"), made_record("wrong_scale", outcome="disagrees", reason="by 2"), ABSENT)
    assert not reached.agree
    assert [record.outcome for record in reached.records] == ["ok", "disagrees", "unavailable"]
    assert reached.problems == ["wrong_scale/published/10/cpu/float64/1t: disagrees: by 2"]


def test_verdict_needs_something_checked():
    reached = verdict_on(ABSENT)
    assert (reached.agree, reached.problems) == (False, ["nothing was checked: no case ended ok"])


def test_required_row_must_have_been_checked():
    assert verdict_on(made_record("right"), ABSENT).agree
    reached = verdict_on(made_record("right"), ABSENT, required=["absent"])
    assert reached.problems == ["absent/published/10/cpu/float64/1t: unavailable: no CUDA device"]


def test_cases_of_a_row_that_fail_alike_are_one_problem():
    fails = {n: made_record("raises", n, outcome="error", reason="a bug") for n in (10, 20)}
    right = made_record("raises", 30)
    assert verdict_on(*fails.values()).problems[0] == "raises, in all 2 cases: error: a bug"
    assert verdict_on(*fails.values(), right).problems == ["raises, in 2 of 3 cases: error: a bug"]
    assert verdict_on(fails[10], right).problems == ["raises/published/10/cpu/float64/1t: error: a bug"]


def test_rows_of_which_nothing_was_timed_are_named():
    other = made_record("other", outcome="unsupported")
    named = ["right", "absent", "other", "not_run"]
    assert verdict.nothing_timed([made_record("right"), ABSENT, other], named) == [
        "absent: nothing was timed: unavailable",
        "other: nothing was timed: unsupported",
    ]
    failed = made_record("absent", 20, outcome="error")  # which is a problem itself
    assert verdict.nothing_timed([ABSENT, failed], ["absent"]) == []


def reached(*names, **fields):
    with CheckRunner(CheckSettings(), "test") as runner:
        return verdict.reach(runner, [planned(name, 50, **fields) for name in names])


def break_oracle(monkeypatch, **factors):
    """Fields of every reference are off by these factors."""
    right = oracle.reference

    def wrong(*arguments):
        reference = right(*arguments)
        return msgspec.structs.replace(
            reference, **{name: getattr(reference, name) * factor for name, factor in factors.items()}
        )

    monkeypatch.setattr(oracle, "reference", wrong)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_most_rows_against_the_oracle_accuse_it(monkeypatch, what, dtype):
    break_oracle(monkeypatch, **{what: 1.001})
    found = reached("right", "noisy", "wrong_sign", dtype=dtype)
    assert not found.agree
    (accusation,) = (problem for problem in found.problems if "the oracle may be wrong" in problem)
    assert accusation.startswith(f"published, N = 50, {dtype}, cpu: the oracle may be wrong: {what} of ")
    assert "right, noisy" in accusation
    assert {record.outcome for record in found.records} == {"disagrees"}


def test_rows_that_are_wrong_each_in_its_own_way_accuse_themselves():
    found = reached("right", "wrong_sign", "wrong_scale", "wrong_zeros")
    assert len(found.problems) == 3
    assert not any("oracle" in problem for problem in found.problems)


def test_the_verdict_says_what_it_compared():
    found = reached("right", "noisy", "wrong_scale")
    assert found.compared[0] == "2 of 3 cases agree with the oracle"
    assert found.compared[1].startswith(
        "published, N = 50, float64, cpu: gradients of 2 rows differ from each other by "
    )
    assert reached("right").compared == ["1 of 1 cases agree with the oracle"]


def test_accusers_are_at_least_two_and_most():
    off, further = RIGHT * (1 + 1e-9), RIGHT * (1 - 1e-9)
    assert accusers({"a": off, "b": off, "c": RIGHT}, RIGHT, 1.0, LIMIT) == ["a", "b"]
    assert accusers({"a": off, "b": off, "c": RIGHT, "d": RIGHT}, RIGHT, 1.0, LIMIT) == []
    assert accusers({"a": off}, RIGHT, 1.0, LIMIT) == []
    assert accusers({"a": off, "b": further}, RIGHT, 1.0, LIMIT) == []
    assert accusers({"a": RIGHT, "b": RIGHT}, RIGHT, 1.0, LIMIT) == []
    assert accusers({}, RIGHT, 1.0, LIMIT) == []


def test_what_is_no_number_accuses_nobody():
    bad = np.full_like(RIGHT, np.nan)
    assert accusers({"a": bad, "b": bad}, RIGHT, 1.0, LIMIT) == []
    assert np.isnan(largest_difference([bad, RIGHT], 1.0))


def test_largest_difference_is_that_of_any_two():
    values = [RIGHT, RIGHT + 1.0, RIGHT - 2.0]
    assert largest_difference(values, 2.0) == 1.5
    assert largest_difference([RIGHT, RIGHT], 0.0) == 0.0
    assert largest_difference([np.zeros((0, 2))] * 2, 0.0) == 0.0
