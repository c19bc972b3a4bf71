"""The house: which wing may import which, how many floors it has, and which frameworks stay outside."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from imports import imported

ROOT = Path(__file__).parents[1]
HARNESS = ROOT / "harness"
FRAMEWORKS = {"jax", "jaxlib", "jax_md", "torch", "warp", "numba", "enzyme_ad"}
BELOW = {
    "contract": set(),
    "problems": {"contract"},
    "check": {"contract", "problems"},
    "run": {"contract", "problems", "check"},
    "report": {"contract", "check"},
}
"""What the modules of each wing may import besides their own."""
MOST_FLOORS = 6


def modules() -> dict[str, Path]:
    """Every module of the harness by its dotted name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in HARNESS.rglob("*.py")
    }


def room(module: str) -> str:
    """A wing, or the module itself where it stands beside the wings."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def floors(graph: dict[str, set[str]]) -> int:
    """Length of the longest chain of imports."""
    height: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():
        height[name] = 1 + max((height[below] for below in graph.get(name, ())), default=0)
    return max(height.values())


def arrows(known: dict[str, Path]) -> dict[str, set[str]]:
    """Imports inside the harness, module by module; the package itself left out."""
    return {
        name: {other for other in imported(path, known) if other in known and other not in ("harness", name)}
        for name, path in known.items()
        if name != "harness"
    }


@pytest.mark.parametrize("wing", sorted(BELOW))
def test_a_wing_imports_only_those_below_it(wing: str) -> None:
    allowed = BELOW[wing] | {wing}
    above = {
        f"{name} imports {other}"
        for name, others in arrows(modules()).items()
        if room(name) == wing
        for other in others
        if room(other) not in allowed
    }
    assert not above


def test_no_module_of_the_harness_imports_a_framework() -> None:
    found = {
        f"{name} imports {other}"
        for name, path in modules().items()
        for other in imported(path)
        if other.split(".")[0] in FRAMEWORKS
    }
    assert not found


def test_modules_import_each_other_in_no_circle() -> None:
    TopologicalSorter(arrows(modules())).prepare()


def test_rooms_stand_on_at_most_six_floors() -> None:
    graph: dict[str, set[str]] = {}
    for name, others in arrows(modules()).items():
        graph.setdefault(room(name), set()).update(room(other) for other in others if room(other) != room(name))
    assert floors(graph) <= MOST_FLOORS


def test_a_circle_and_a_long_chain_are_seen() -> None:
    with pytest.raises(CycleError):
        floors({"a": {"b"}, "b": {"a"}})
    assert floors({"a": {"b"}, "b": {"c"}, "c": set()}) == 3
