"""Several cases in one process and several processes at once, as a check runs them: each gets its own outcome."""

from types import SimpleNamespace

import psutil
import pytest
from fake_cases import FAKES, LIMIT_S, planned

from harness.run import references, runner
from harness.run.process import supervise
from harness.run.runner import DEADLINE_OVER, CheckRunner, TimeRunner
from harness.run.settings import CheckSettings, TimeSettings

MEMORY = 1 << 30
"""What is available in some of these tests, in bytes; a job of three has three tenths of it."""


class Started:
    """Counts the workers that are started, and those at work at once."""

    def __init__(self, monkeypatch):
        self.limits, self.at_work, self.beside = [], 0, []
        monkeypatch.setattr(runner, "supervise", self)

    def __call__(self, *arguments, **keywords):
        self.at_work += 1
        self.limits.append(keywords["memory_limit_bytes"])
        self.beside.append(self.at_work)
        try:
            return supervise(*arguments, **keywords)
        finally:
            self.at_work -= 1


@pytest.fixture
def started(monkeypatch):
    return Started(monkeypatch)


@pytest.fixture
def available(monkeypatch):
    total = psutil.virtual_memory().total
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=total, available=MEMORY))


def check(plan, **settings):
    with CheckRunner(CheckSettings(**settings), "test") as checking:
        return list(checking.run(plan))


def test_cases_at_once_keep_their_order_and_leave_each_other_alone():
    """More than ten processes, a slow one from the start on: the end of number 1 must not be that of number 10."""
    names = ["right", "raises", "right", "kills_itself", *["right"] * 10]
    plan = [planned(name, n, number=n) for n, name in enumerate(names, start=20)]  # a round has its own processes
    records = [finished.record for finished in check(plan, jobs=4)]
    assert [record.n for record in records] == [each.case.n for each in plan]
    wanted = {"right": "ok", "raises": "error", "kills_itself": "crashed"}
    assert [record.outcome for record in records] == [wanted[name] for name in names]


@pytest.mark.thorough
def test_what_a_deadline_leaves_is_skipped_and_expected():
    plan = [planned("hangs_in_native_code", 20), planned("right", 30)]
    with TimeRunner(TimeSettings(budget_s=0.0, within_s=3.0), "test") as timing:
        records = [finished.record for finished in timing.run(plan)]
    assert [(record.outcome, record.is_expected) for record in records] == [("skipped", True)] * 2
    assert {record.reason for record in records} == {DEADLINE_OVER}


def test_a_check_of_a_row_takes_one_process_for_each_dtype(started):
    inputs = (("published", 50), ("clustered", 50), ("hard", 0))
    dtypes = ("float64", "float32")
    plan = [planned("right", n, scenario=scenario, dtype=dtype) for dtype in dtypes for scenario, n in inputs]
    finished = check(plan)
    assert len(started.limits) == 2
    assert [(each.record.scenario, each.record.dtype) for each in finished] == [
        (scenario, dtype) for dtype in dtypes for scenario, _ in inputs
    ]
    assert {each.record.outcome for each in finished} == {"ok"}
    assert [each.gradient is not None for each in finished] == [True, True, False] * 2
    assert all(each.record.description is not None and each.record.case_s > 0.0 for each in finished)


@pytest.mark.parametrize(
    ("name", "outcome", "words"),
    [
        ("aborts_at_20", "crashed", "Aborted) during compile"),
        ("garbles_at_20", "bad-output", "garbled output"),
        ("raises_at_20", "error", "RuntimeError: not with twenty (at raises_at_20.py:"),
    ],
)
def test_a_failure_is_that_of_its_case_and_the_rest_runs_in_a_fresh_process(started, name, outcome, words):
    records = [finished.record for finished in check([planned(name, n) for n in (10, 20, 30, 40)])]
    assert [record.outcome for record in records] == ["ok", outcome, "ok", "ok"]
    assert words in records[1].reason
    assert len(started.limits) == 2


@pytest.mark.thorough
def test_every_case_of_a_process_has_the_whole_time_limit():
    """Three cases that take half of it each."""
    records = [finished.record for finished in check([planned("sleeps", n) for n in (10, 20, 30)], limit_s=LIMIT_S)]
    assert [record.outcome for record in records] == ["ok"] * 3
    assert sum(record.case_s for record in records) > LIMIT_S


@pytest.mark.thorough
def test_a_case_that_outgrows_its_share_runs_again_alone_before_it_is_judged(started, available):
    plan = [planned("right", 20), planned("needs_much_memory", 20), *(planned("sleeps", 20, n) for n in range(4))]
    records = [finished.record for finished in check(plan, jobs=3)]
    assert [record.outcome for record in records] == ["ok"] * 6
    whole = int(runner.MEMORY_SHARE * MEMORY)
    assert sorted(started.limits) == [whole // 3] * 6 + [whole]
    assert started.beside[started.limits.index(whole)] == 1


@pytest.mark.thorough
def test_a_case_that_outgrows_the_whole_is_out_of_memory(started, available):
    (finished,) = check([planned("allocates", 20)], jobs=3)
    assert (finished.record.outcome, "limit 0.97 GB" in finished.record.reason) == ("out-of-memory-host", True)
    assert len(started.limits) == 2


@pytest.mark.thorough
def test_what_earlier_cases_left_in_a_process_is_not_held_against_a_case(started):
    plan = [planned("keeps_much_memory", n) for n in (10, 20)]
    records = [finished.record for finished in check(plan, memory_limit_bytes=600 << 20)]
    assert [record.outcome for record in records] == ["ok", "ok"]
    assert len(started.limits) == 2


def test_small_references_take_no_process(monkeypatch):
    monkeypatch.setattr(references, "ask", None)
    (published, hard) = check([planned("right", 50), planned("right", 0, scenario="hard")])
    assert (published.record.outcome, hard.record.outcome) == ("ok", "ok")


def test_references_are_small_up_to_4096_particles(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(references, "ask", lambda *arguments, **_: asked.append(arguments))
    found = references.References(tmp_path, memory_limit_bytes=1)
    for n in (4096, 4097, 4097):
        found.file(planned("right", n).case, limit_s=1.0)
    assert [(module, n) for module, _, n, *_ in asked] == [(references.ORACLE, "4097")]
    assert found.of(planned("right", 4096).case)[0].counts.n == 4096


def test_the_oracle_ends_with_the_time_of_the_run(monkeypatch):
    monkeypatch.setattr(references, "ORACLE", "hangs_as_an_oracle")
    monkeypatch.setenv("PYTHONPATH", str(FAKES))
    with TimeRunner(TimeSettings(budget_s=0.0, within_s=1.0), "test") as timing:
        (finished,) = timing.run([planned("right", 5000)])
    assert (finished.record.outcome, finished.record.reason) == ("skipped", DEADLINE_OVER)
    assert finished.record.is_expected


def test_an_oracle_that_fails_is_told_and_not_held_against_the_row(monkeypatch):
    monkeypatch.setattr(references, "ORACLE", "no_such_oracle")
    with TimeRunner(TimeSettings(budget_s=0.0), "test") as timing:
        records = [finished.record for finished in timing.run([planned("right", 5000), planned("right", 50)])]
    assert [record.outcome for record in records] == ["harness-error", "ok"]
    assert "the oracle did not answer: crashed: " in records[0].reason
    assert "no_such_oracle" in records[0].reason
