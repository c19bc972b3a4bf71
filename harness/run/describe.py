"""What each implementation says of itself and whether it could run here, asked in a process of its own.

The parent imports no framework, so importing an implementation happens elsewhere: `python -m harness.run.describe` is
that process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec
import numpy as np

from harness.contract import registry
from harness.contract.extras import missing_module
from harness.contract.protocol import Description, Device, Implementation, UnavailableError
from harness.problems.sph2d import Sph2d
from harness.run.child import answer, ask
from harness.run.machine import available_cores
from harness.run.process import Ended, at_once

_LIMIT_S = 120.0


class Availability(msgspec.Struct, frozen=True, kw_only=True):
    """An implementation as `pairgrad list` shows it.

    Attributes:
        name: of the row.
        description: in its own words; None where it could not be imported.
        missing: for each device it names, why it cannot run there; None where it can.
        problem: why there is no description.
    """

    name: str
    description: Description | None = None
    missing: dict[str, str | None] = {}
    problem: str | None = None


def describe_all(implementations: Sequence[str]) -> list[Availability]:
    """Ask every implementation, as many at once as there are cores for this process."""
    return list(at_once(_asked, implementations, len(available_cores())))


def _asked(implementation: str) -> Availability:
    found = ask("harness.run.describe", implementation, of=Availability, device="cuda", limit_s=_LIMIT_S)
    if isinstance(found, Ended):
        return Availability(name=registry.row_name(implementation), problem=found.words)
    return found


def _describe(implementation: str) -> Availability:
    name = registry.row_name(implementation)
    try:
        row = registry.load(implementation)
    except ModuleNotFoundError as error:
        return Availability(name=name, problem=missing_module(error))
    except Exception as error:
        return Availability(name=name, problem=f"{type(error).__name__}: {error}")
    missing: dict[str, str | None] = {device: _missing(row, device) for device in row.description.devices}
    return Availability(name=name, description=row.description, missing=missing)


def _missing(row: type[Implementation], device: Device) -> str | None:
    """Why the row cannot be built on a device, tried with a problem of one particle."""
    dtype = row.description.dtypes[0]
    try:
        row(Sph2d.of_size(1), np.zeros((1, 2), dtype), device, dtype)
    except UnavailableError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def main() -> None:
    """`python -m harness.run.describe CHANNEL IMPLEMENTATION`."""
    answer(_describe(sys.argv[2]))


if __name__ == "__main__":
    main()
