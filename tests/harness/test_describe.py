"""What the list of rows says of a row that runs here, one that cannot, and one that breaks when asked."""

import pytest
from fake_cases import fake

from harness.contract import registry
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


def test_two_modules_of_one_name_are_refused(tmp_path):
    (tmp_path / "right.py").write_text("")
    with pytest.raises(registry.UnknownImplementationError, match="2 implementations are called 'right'"):
        registry.resolve_all([fake("right"), str(tmp_path / "right.py")])


def test_a_row_named_twice_runs_once():
    assert registry.resolve_all([fake("right"), fake("right")]) == [fake("right")]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("./nope.py", "no such file: './nope.py'"),
        ("nowhere/nope", "no such file: 'nowhere/nope'"),
        ("folder", "'folder' is not a .py file"),
        ("notes.txt", "'notes.txt' is not a .py file"),
        ("warp_adjont", "no implementation 'warp_adjont': did you mean warp_adjoint? give one of "),
    ],
)
def test_what_is_no_row_is_told_for_what_it_is(tmp_path, monkeypatch, given, words):
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(registry.UnknownImplementationError) as error:
        registry.resolve(given)
    assert words in str(error.value)


def test_unknown_row_is_named():
    with pytest.raises(registry.UnknownImplementationError, match="no implementation 'nonsense': give one of "):
        registry.resolve_all(["nonsense"])
