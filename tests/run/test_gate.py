"""The verdict on a run, and the check through the real worker: a few rows, the rest in tests/check."""

import pytest
from fake_cases import made_record, planned

from harness.run import verdict
from harness.run.runner import Finished


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
