"""What the list of rows says of a row that runs here, one that cannot, and one that breaks when asked."""

import os

from fake_cases import fake

from harness.run import describe
from harness.run.describe import describe_all
from harness.run.process import FAMILY, tagged


def test_every_row_is_described_or_says_why_not():
    names = ["right", "has_no_device", "raises_at_build", "needs_missing_package", "aborts_at_import", "leaves_daemon"]
    rows = {row.name: row for row in describe_all([fake(name) for name in names])}
    assert list(rows) == names
    assert (rows["right"].description.title, rows["right"].missing) == ("All pairs", {"cpu": None})
    assert rows["has_no_device"].missing == {"cpu": "no CUDA device"}
    assert rows["raises_at_build"].missing == {"cpu": "RuntimeError: the build failed"}
    assert "No module named 'a_framework_that_is_not_installed'" in rows["needs_missing_package"].problem
    assert rows["aborts_at_import"].problem == "crashed: the last words"
    assert rows["leaves_daemon"].missing == {"cpu": None}
    assert tagged(FAMILY) == []


def test_as_many_are_asked_at_once_as_there_are_cores_for_this_process(monkeypatch):
    jobs = []
    monkeypatch.setattr(describe, "at_once", lambda ask, rows, number: jobs.append(number) or [])
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        describe_all(["right"])
    finally:
        os.sched_setaffinity(0, before)
    assert jobs == [1]
