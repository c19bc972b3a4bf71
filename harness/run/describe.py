"""What each implementation says of itself and whether it could run here, asked in a process of its own.

The parent imports no framework, so importing an implementation happens elsewhere: `python -m harness.run.describe` is
that process.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np

from harness.contract import registry
from harness.contract.encoding import encode
from harness.contract.extras import missing_module
from harness.contract.problem import Problem
from harness.contract.protocol import Case, Description, Device, Implementation, UnavailableError
from harness.run.child import child_environment
from harness.run.process import supervise

_LIMIT_S = 120.0
_MEMORY_LIMIT_BYTES = 8 << 30


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
    """Ask every implementation, as many at once as there are cores."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(_ask, implementations))


def _ask(implementation: str) -> Availability:
    name = registry.row_name(implementation)
    case = Case(implementation=implementation, scenario="published", n=0, device="cuda")
    with tempfile.TemporaryDirectory(prefix="pairgrad-") as private:
        ended = supervise(
            "harness.run.describe",
            implementation,
            environment=child_environment(case, 1, Path(private), Path(private)),
            limit_s=_LIMIT_S,
            memory_limit_bytes=_MEMORY_LIMIT_BYTES,
        )
    try:
        return msgspec.json.decode(ended.channel, type=Availability)
    except msgspec.MsgspecError:
        last = ended.tail.strip().splitlines()[-1:] or [f"exit status {ended.returncode}"]
        return Availability(name=name, problem=f"{ended.killed or 'crashed'}: {last[0]}")


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
        row(Problem.of_size(1), np.zeros((1, 2), dtype), device, dtype)
    except UnavailableError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def main() -> None:
    """`python -m harness.run.describe CHANNEL IMPLEMENTATION`."""
    channel = io.FileIO(int(sys.argv[1]), "w")
    channel.write(encode(_describe(sys.argv[2])))
    os._exit(0)


if __name__ == "__main__":
    main()
