"""The fakes by name, as cases of a plan."""

from pathlib import Path

from harness.plan import Planned
from harness.protocol import Case

FAKES = Path(__file__).parent / "fakes"
LIMIT_S = 4.0


def fake(name):
    return str(FAKES / f"{name}.py")


def planned(name, n=50, number=0, scenario="published", **fields):
    return Planned(Case(implementation=fake(name), scenario=scenario, n=n, **fields), number)
