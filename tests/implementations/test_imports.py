"""Which row may build on what: its framework's folder, the one row it is derived from, and nothing else."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from harness.contract import registry
from harness.contract.protocol import Description

FOLDER = registry.FOLDER
FRAMEWORKS = {"_jax": {"jax", "jax_md"}, "_warp": {"warp"}, "_enzyme": {"jax", "enzyme_ad"}}
"""What the folder of a framework may import; the Enzyme rows are JAX rows that call C++."""
BELOW = {"_jax": set(), "_warp": set(), "_enzyme": {"_jax"}}
MEASURED = {"jax", "jaxlib", "jax_md", "torch", "warp", "numba", "enzyme_ad"}
LIBRARIES = {*FRAMEWORKS, "segment_ops"}


def imported(folder: Path) -> set[tuple[str, ...]]:
    """Dotted names, in parts, of all that the Python files of a folder import."""
    return {name for path in folder.rglob("*.py") for name in _names(ast.parse(path.read_text()))}


def _names(tree: ast.Module) -> Iterator[tuple[str, ...]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = tuple(node.module.split("."))
            yield from ((*module, alias.name) for alias in node.names)


def siblings(names: set[tuple[str, ...]], own: str) -> set[str]:
    """Other folders of `implementations/` among them."""
    return {name[1] for name in names if name[0] == "implementations" and len(name) > 1} - {own}


def included(folder: Path, own: str) -> set[str]:
    """Folders whose C++ headers and sources a row's own include."""
    lines = [line for path in folder.glob("*.cpp") for line in path.read_text().splitlines()]
    return {line.split('"')[1].split("/")[0] for line in lines if line.startswith("#include")} - {own}


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


def wrong_derivations(derived_from: Mapping[str, str | None], rows_used: Mapping[str, set[str]]) -> set[str]:
    """Rows that use another row than the one they say, or one that is itself derived."""
    return {
        name
        for name, source in derived_from.items()
        if rows_used[name] != ({source} if source else set()) or (source and derived_from[source] is not None)
    }


def test_a_row_builds_on_no_row_but_the_one_it_says_it_is_derived_from() -> None:
    said = descriptions()
    used = {
        name: (siblings(imported(FOLDER / name), name) | included(FOLDER / name, name)) - LIBRARIES for name in said
    }
    assert not wrong_derivations({name: each.derived_from for name, each in said.items()}, used)


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
def test_a_frameworks_folder_imports_no_row_and_no_other_framework(folder: str) -> None:
    names = imported(FOLDER / folder)
    assert siblings(names, folder) <= BELOW[folder]
    assert {name[0] for name in names} & MEASURED <= FRAMEWORKS[folder]


def reached(module: str, seen: set[str]) -> set[str]:
    """Frameworks imported by a module of `implementations` and by those that it imports."""
    path = FOLDER.parent / Path(*module.split(".")).with_suffix(".py")
    if module in seen or not path.is_file():
        return set()
    seen.add(module)
    found = set()
    for name in _names(ast.parse(path.read_text())):
        found |= {name[0]} & MEASURED
        if name[0] == "implementations":  # `from a import b` names a module b or something in a
            found |= reached(".".join(name), seen) | reached(".".join(name[:-1]), seen)
    return found


@pytest.mark.parametrize("name", registry.names())
def test_a_row_imports_the_frameworks_it_names_and_no_other(name: str) -> None:
    if name not in descriptions():
        pytest.skip("its packages are not here")
    packages = {each.replace("-", "_").removesuffix("_lang") for each in descriptions()[name].packages}
    used = reached(f"implementations.{name}.implementation", set())
    assert used == packages & (MEASURED - {"jaxlib"})


def test_an_adjoint_file_is_there_exactly_where_somebody_wrote_one() -> None:
    written = {name for name, each in descriptions().items() if each.adjoint.startswith("hand-written")}
    files = {name for name in descriptions() if list((FOLDER / name).glob("adjoint.*"))}
    assert files == written
    for name, each in descriptions().items():
        forward, adjoint = registry.lines_of_code(name, each)
        assert forward
        assert bool(adjoint) == (name in written)
