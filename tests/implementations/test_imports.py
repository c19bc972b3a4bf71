"""Which row may build on what: its framework's folder, the one row it is derived from, and no other row."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import pytest
from imports import imported

from harness.contract import registry
from harness.contract.protocol import Description
from harness.contract.sources import closure

FOLDER = registry.FOLDER
MEASURED = {"jax", "jax_md", "torch", "warp", "numba", "enzyme_ad"}
FRAMEWORKS = {"_jax": {"jax", "jax_md"}, "_warp": {"warp"}, "_enzyme": {"jax", "jax_md", "enzyme_ad"}}
"""What the folder of each framework may reach; the Enzyme rows are JAX rows that call C++."""


@functools.cache
def descriptions() -> dict[str, Description]:
    """Of the rows whose packages are here."""
    found = {}
    for name in registry.names():
        try:
            found[name] = registry.load(name).description
        except ModuleNotFoundError:
            continue
    return found


@functools.cache
def reached(*start: Path) -> set[Path]:
    """Files of `implementations/` that these import, include or name, themselves among them."""
    return {path for path in closure(start, [FOLDER.parent], [FOLDER]) if path.is_relative_to(FOLDER)}


def of_row(name: str) -> set[Path]:
    return reached(*sorted((FOLDER / name).glob("*.*")))


def rows_among(paths: set[Path]) -> set[str]:
    return {path.relative_to(FOLDER).parts[0] for path in paths} & set(registry.names())


def frameworks_of(paths: set[Path]) -> set[str]:
    python = (path for path in paths if path.suffix == ".py")
    return {name.split(".")[0] for path in python for name in imported(path)} & MEASURED


def wrong_derivations(derived_from: Mapping[str, str | None], used: Mapping[str, set[str]]) -> set[str]:
    """Rows that use another row than the one they say, or one that is itself derived."""
    return {
        name
        for name, source in derived_from.items()
        if used[name] != ({source} if source else set()) or (source and derived_from[source] is not None)
    }


def test_a_row_builds_on_no_row_but_the_one_it_says_it_is_derived_from() -> None:
    said = {name: each.derived_from for name, each in descriptions().items()}
    assert not wrong_derivations(said, {name: rows_among(of_row(name)) - {name} for name in said})


@pytest.mark.parametrize(
    ("derived_from", "used"),
    [
        ({"a": None, "b": None}, {"a": set(), "b": {"a"}}),  # does not say so
        ({"a": None, "b": "a"}, {"a": set(), "b": set()}),  # says so and does not
        ({"a": None, "b": "a", "c": "b"}, {"a": set(), "b": {"a"}, "c": {"b"}}),  # two deep
        ({"a": "b", "b": "a"}, {"a": {"b"}, "b": {"a"}}),  # a circle
    ],
)
def test_wrong_derivations_are_seen(derived_from: dict[str, str | None], used: dict[str, set[str]]) -> None:
    assert wrong_derivations(derived_from, used)


@pytest.mark.parametrize("folder", FRAMEWORKS)
def test_a_frameworks_folder_reaches_no_row_and_no_other_framework(folder: str) -> None:
    paths = of_row(folder)
    assert not rows_among(paths)
    assert frameworks_of(paths) <= FRAMEWORKS[folder]


@pytest.mark.parametrize("name", registry.names())
def test_a_row_imports_the_frameworks_it_names_and_no_other(name: str) -> None:
    if name not in descriptions():
        pytest.skip("its packages are not here")
    packages = {each.replace("-", "_").removesuffix("_lang") for each in descriptions()[name].packages}
    assert frameworks_of(of_row(name)) == packages & MEASURED


def test_an_adjoint_file_is_there_exactly_where_somebody_wrote_one() -> None:
    written = {name for name, each in descriptions().items() if each.adjoint.startswith("hand-written")}
    assert {name for name in descriptions() if list((FOLDER / name).glob("adjoint.*"))} == written
    for name, each in descriptions().items():
        forward, adjoint = registry.lines_of_code(name, each)
        assert forward
        assert bool(adjoint) == (name in written)
