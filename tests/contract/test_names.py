"""Names made from texts: one each, readable, and the text itself where that is a name."""

from __future__ import annotations

import pytest

from harness.contract.names import file_name, number_name
from harness.contract.protocol import Case
from harness.contract.records import case_id
from harness.run import machine

ALIKE = [f"{name}, 2 cores" for name in ("CPU-1", "CPU 1", "CPU (1)", "cpu 1", "CPU 1 ", "CPU\x1b1")]


def test_texts_that_differ_in_punctuation_or_case_alone_have_names_of_their_own() -> None:
    names = {file_name(text) for text in ALIKE}
    assert len(names) == len(ALIKE)
    assert all(name.startswith("cpu-1-2-cores-") for name in names)


@pytest.mark.parametrize("text", ["warp_adjoint", "a.b-c", "x1"])
def test_a_plain_name_stands_for_itself(text: str) -> None:
    assert file_name(text) == text


def test_no_plain_name_is_another_texts_name() -> None:
    made = file_name("CPU 1")
    assert file_name(made) != made


@pytest.mark.parametrize("text", ["", ".", "..", "///", "-", "漢字", "a/../b", "x" * 300 + "!"])
def test_any_text_is_one_file_in_a_folder(text: str) -> None:
    name = file_name(text)
    assert 0 < len(name) <= 100
    assert name.strip(".-") == name
    assert "/" not in name


def test_machines_that_differ_in_punctuation_have_folders_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    names = set()
    for processor in ("CPU-1", "CPU 1"):
        monkeypatch.setattr(machine, "processor_name", lambda processor=processor: processor)
        names.add(machine.machine_name())
    assert len(names) == 2


@pytest.mark.parametrize(("value", "words"), [(2.0, "2"), (1.05, "1.05"), (1.0000001, "1.0000001"), (1e300, "1e+300")])
def test_numbers_are_short_and_never_another(value: float, words: str) -> None:
    assert number_name(value) == words


def test_options_that_differ_in_the_eighth_digit_are_other_cases() -> None:
    options = [{"capacity_multiplier": value} for value in (1.0000001, 1.0000002)]
    ids = {case_id(Case(implementation="a", scenario="published", n=10, options=each)) for each in options}
    assert len(ids) == 2
