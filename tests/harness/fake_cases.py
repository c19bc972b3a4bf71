"""The fakes by name, as cases of a plan, and the processes of a command that runs them."""

from pathlib import Path

import psutil

from harness.contract.protocol import Case
from harness.run.plan import Planned

FAKES = Path(__file__).parent / "fakes"
LIMIT_S = 4.0


def fake(name):
    return str(FAKES / f"{name}.py")


def planned(name, n=50, number=0, scenario="published", **fields):
    return Planned(Case(implementation=fake(name), scenario=scenario, n=n, **fields), number)


def marked(mark):
    """Living processes that inherited this TEST_MARK."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TEST_MARK") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found
