"""Several cases at once, as a check runs them: none ends another, each gets its own outcome, and nothing is timed."""

import pytest
from fake_cases import planned

from harness.run.runner import DEADLINE_OVER, Runner
from harness.run.settings import Settings


def test_cases_at_once_keep_their_order_and_leave_each_other_alone():
    """More than ten processes, a slow one from the start on: the end of number 1 must not be that of number 10."""
    names = ["right", "raises", "right", "kills_itself", *["right"] * 10]
    plan = [planned(name, n) for n, name in enumerate(names, start=20)]
    with Runner(Settings(jobs=4), "test") as runner:
        records = [finished.record for finished in runner.run(plan)]
    assert [record.n for record in records] == [each.case.n for each in plan]
    wanted = {"right": "ok", "raises": "error", "kills_itself": "crashed"}
    assert [record.outcome for record in records] == [wanted[name] for name in names]


def test_several_jobs_time_nothing():
    with pytest.raises(ValueError, match="4 jobs"):
        Settings(jobs=4, budget_s=1.0)


def test_what_a_deadline_leaves_is_skipped_and_expected():
    plan = [planned("hangs_in_native_code", 20), planned("right", 30)]
    with Runner(Settings(budget_s=0.0, within_s=3.0), "test") as runner:
        records = [finished.record for finished in runner.run(plan)]
    assert [(record.outcome, record.is_expected) for record in records] == [("skipped", True)] * 2
    assert {record.reason for record in records} == {DEADLINE_OVER}
