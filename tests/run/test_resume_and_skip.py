"""Planned = recorded; what is skipped says why; a resumed run does the rest and mixes nothing."""

import msgspec
import pytest
from fake_cases import LIMIT_S, made_record, planned

from harness.contract.protocol import Case
from harness.contract.records import OUTCOMES
from harness.contract.registry import code_hash
from harness.contract.store import RecordFile, read_records
from harness.run import machine
from harness.run.plan import Narrowing, Planned, plan
from harness.run.process import FAMILY, tagged
from harness.run.resume import MixedRecordsError, split
from harness.run.runner import CheckRunner, TimeRunner
from harness.run.settings import CheckSettings, TimeSettings

SLOW = TimeSettings(limit_s=LIMIT_S, budget_s=0.0)


def run(plan, settings=SLOW, earlier=()):
    kind = CheckRunner if isinstance(settings, CheckSettings) else TimeRunner
    with kind(settings, "test", earlier=earlier) as runner:
        return [finished.record for finished in runner.run(plan)]


def sweep(name, *ns):
    return [planned(name, n) for n in ns]


@pytest.mark.thorough
def test_larger_n_is_skipped_after_a_timeout_and_says_so():
    records = run([*sweep("times_out_from_200", 100, 200, 300, 400), *sweep("right", 300)])
    assert [r.outcome for r in records] == ["ok", "timeout", "skipped", "skipped", "ok"]
    assert records[2].reason == "timeout at N = 200"
    assert [r.is_expected for r in records] == [True, False, False, False, True]


def test_no_skip_runs_it():
    settings = msgspec.structs.replace(SLOW, skip_larger=False)
    assert [r.outcome for r in run(sweep("right", 300), settings, [made_record("right", 200, outcome="timeout")])] == [
        "ok"
    ]


def test_larger_n_is_skipped_after_running_out_of_memory():
    records = run(sweep("raises_memory_error", 10, 20))
    assert [r.outcome for r in records] == ["out-of-memory-host", "skipped"]


def test_other_failures_do_not_skip():
    assert [r.outcome for r in run(sweep("raises", 10, 20))] == ["error", "error"]


def test_check_leaves_a_row_that_hangs_alone():
    hung = made_record("right", 200, outcome="timeout")
    plan = [planned("right", 100, dtype="float32"), planned("raises")]
    records = run(plan, CheckSettings(limit_s=LIMIT_S), [hung])
    assert [r.outcome for r in records] == ["skipped", "error"]
    assert records[0].reason == "timeout at right/published/200/cpu/float64/1t"


def test_a_module_that_does_not_load_is_tried_once():
    records = run(sweep("has_syntax_error", 10, 20))
    assert [(r.outcome, r.case_s is None) for r in records] == [("error", False), ("error", True)]
    assert records[0].reason == records[1].reason


@pytest.fixture(scope="module")
def recorded():
    """A record as a run makes it."""
    (record,) = run([planned("raises", 10)])
    return record


def test_resume_runs_only_what_is_missing(recorded):
    whole = [planned("raises", 10, 0), planned("raises", 10, 1), planned("raises", 20)]
    assert split(whole, [recorded], machine.environment()) == (whole[1:], [recorded])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"code_hash": "0" * 12}, "code 000000000000, now "),
        ({"environment": {"packages": {"numpy": "1.0"}}}, r"packages {'numpy': '1\.0'}, now {.*'numpy': '2"),
        ({"environment": {"processor": "Z80"}}, "processor Z80, now "),
        ({"environment": {"flags": {"XLA_FLAGS": "--fast"}}}, "flags {'XLA_FLAGS': '--fast'}, now {}"),
        ({"environment": {"python": "2.7"}}, r"python 2\.7, now 3"),
    ],
)
def test_resume_refuses_to_mix_and_says_what_differs(monkeypatch, recorded, change, words):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    now = machine.environment()
    changed = {**change, "environment": {**now, **change.get("environment", {})}}
    with pytest.raises(MixedRecordsError, match=f"cannot resume: raises/published/10/.* was recorded with {words}"):
        split([planned("raises", 10)], [msgspec.structs.replace(recorded, **changed)], now)


def test_resume_refuses_times_of_a_plug_in_whose_helper_was_edited(tmp_path):
    row, helper = tmp_path / "mine.py", tmp_path / "helper.py"
    row.write_text("import helper")
    helper.touch()
    case = Planned(Case(implementation=str(row), scenario="published", n=10), 0)
    environment = machine.environment()
    record = made_record("mine", code_hash=code_hash(str(row)), environment=environment, gradient_samples_s=[1.0])
    assert split([case], [record], environment) == ([], [record])
    helper.write_text("FACTOR = 2")
    code_hash.cache_clear()  # as in another process
    with pytest.raises(MixedRecordsError, match=f"recorded with code {record.code_hash}, now "):
        split([case], [record], environment)


def test_shards_are_disjoint_and_complete():
    names, narrowing = ["a", "b", "c"], Narrowing(dtypes=("float64", "float32"))
    whole = plan("study", names, narrowing, rounds=2)
    parts = [plan("study", names, narrowing, 2, (index, 4)) for index in range(1, 5)]
    assert sum(map(len, parts)) == len(whole) == 3 * 2 * 4 * 2
    key = msgspec.json.encode
    assert sorted(key(each) for part in parts for each in part) == sorted(map(key, whole))


def test_n_ascends_within_a_series_and_rounds_are_shuffled():
    whole = plan("study", [*"abcdef"], Narrowing(threads=(1,)), rounds=2)
    for k in range(0, len(whole), 4):
        group = whole[k : k + 4]
        assert len({(each.case.implementation, each.round) for each in group}) == 1
        assert [each.case.n for each in group] == [1_000, 10_000, 100_000, 1_000_000]
    first, second = ([each.case.implementation for each in whole[k : k + 24 : 4]] for k in (0, 24))
    assert sorted(first) == sorted(second) == [*"abcdef"]
    assert first != second


FAILING = {
    "hangs_at_import": "timeout",
    "ignores_sigterm": "timeout",
    "leaves_daemon_and_hangs": "timeout",
    "segfaults": "crashed",
    "aborts": "crashed",
    "kills_itself": "crashed",
    "exits_quietly": "crashed",
    "raises": "error",
    "fails_to_build": "error",
    "raises_memory_error": "out-of-memory-host",
    "garbles_channel": "bad-output",
    "wrong_scale": "disagrees",
    "wrong_dtype": "wrong-dtype",
    "overflows": "overflow",
    "refuses_input": "invalid-input",
}


@pytest.mark.thorough
def test_sixty_cases_a_quarter_of_which_fail(tmp_path):
    right = [planned("right", 45, number) for number in range(45)]
    broken = [planned(name, 45) for name in FAILING]
    whole = [each for k, bad in enumerate(broken) for each in (bad, *right[3 * k : 3 * k + 3])]
    file = RecordFile(tmp_path / "run.jsonl")
    with CheckRunner(CheckSettings(limit_s=LIMIT_S, jobs=4), "test") as runner:  # those that hang, one beside the other
        for finished in runner.run(whole):
            file.add(finished.record)
    records = read_records([tmp_path])
    assert len(records) == len(whole) == 60
    assert {r.outcome for r in records} <= set(OUTCOMES)
    assert [r.outcome for r in records] == [FAILING.get(r.implementation, "ok") for r in records], [
        (r.implementation, r.outcome, r.reason) for r in records if r.outcome != FAILING.get(r.implementation, "ok")
    ]
    assert tagged(FAMILY) == []
    left, done = split(whole, records, runner.environment)
    assert (left, len(done)) == (right, len(FAILING))  # what was only checked is still to be timed
