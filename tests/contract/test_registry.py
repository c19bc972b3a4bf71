"""Rows by name or by path: what is found, what is refused and in which words, what is theirs."""

import sys

import pytest
from fake_cases import FAKES, fake

from harness.contract import registry
from harness.contract.protocol import Description, Implementation

DESCRIBED = Description(title="", framework="", neighbours="", adjoint="", pair_slots="")


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


def test_known_names_are_the_folders_that_hold_a_row():
    names = registry.names()
    assert names == sorted(names)
    assert {"warp_adjoint", "jax_segments"} <= set(names)
    assert "segment_ops" not in names
    assert registry.resolve("warp_adjoint") == "warp_adjoint"


def test_a_module_with_the_name_of_a_row_is_refused(tmp_path):
    path = tmp_path / "warp_adjoint.py"
    path.touch()
    with pytest.raises(registry.UnknownImplementationError, match="has the name of the row 'warp_adjoint': rename"):
        registry.resolve(str(path))


def test_a_path_becomes_absolute(monkeypatch):
    monkeypatch.chdir(FAKES)
    assert registry.resolve("right.py") == fake("right")
    assert registry.row_name(fake("right")) == "right"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("has_no_subclass", "has_no_subclass.py defines no subclass of Implementation: derive one"),
        ("has_two_subclasses", "defines 2 implementations, First, Second: keep one here and import the others"),
        ("has_no_description", "class Fake has no `description`"),
    ],
)
def test_a_module_without_exactly_one_described_row_is_refused(name, words):
    with pytest.raises(TypeError, match=words):
        registry.load(fake(name))


def test_a_module_is_loaded_under_a_name_no_package_has(tmp_path):
    path = tmp_path / "json.py"
    path.write_text((FAKES / "right.py").read_text())
    standard = sys.modules.get("json")
    row = registry.load(str(path))
    assert issubclass(row, Implementation)
    assert row.__module__ == "pairgrad_plugin_json"
    assert sys.modules.get("json") is standard


def test_sources_of_an_implementation_are_told_from_those_of_packages():
    assert registry.is_source_of(fake("right"), fake("raises"))
    assert registry.is_source_of("warp_adjoint", str(registry.FOLDER / "warp_adjoint" / "forward.py"))
    assert registry.is_source_of(fake("right"), str(registry.FOLDER / "segment_ops" / "family.py"))
    assert not registry.is_source_of("warp_adjoint", fake("right"))
    assert not registry.is_source_of(fake("right"), str(registry.ROOT / "harness" / "run" / "worker.py"))


def test_lines_of_code_are_those_of_the_sources_a_row_names():
    forward, adjoint = registry.lines_of_code("jax_cell_list_adjoint", DESCRIBED)
    assert forward > 0
    assert adjoint > 0
    assert registry.lines_of_code("jax_cell_list", DESCRIBED)[1] == 0  # nobody wrote one
    assert registry.lines_of_code(fake("right"), DESCRIBED) == (None, None)
