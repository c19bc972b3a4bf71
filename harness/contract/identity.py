"""What makes two machines the same, and two set-ups of one: the one rule of resume, compare, env and the reports.

Not all that is recorded decides. Total memory wavers by what the kernel keeps for itself and decides whether a case
fits, not how long it takes; the kernel's patch level changes with every update; a device's number depends on who
counts. None of them makes another machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

UNKNOWN = "unknown"
_SYSTEM = re.compile(r"(?P<system>\w+-\d+\.\d+)\S*?(?P<library>-with-.*)?$")
"""Of `platform.platform()`: system with major and minor version, then the C library."""
_LOCATING_FLAGS = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""They say which device computes; the device itself is part of the machine."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where times may be set against each other.

    Attributes:
        processor: its model.
        cores: that the run may use; None where it is not recorded.
        cpu_quota: processors' worth of time that a container or job allows; None without a quota.
        accelerator: what computes, by its name; None for a case on the processor.
    """

    processor: str
    cores: int | None
    cpu_quota: float | None
    accelerator: str | None

    @property
    def name(self) -> str:
        """Processor, cores and quota, as in headings."""
        processor = "unknown processor" if self.processor == UNKNOWN else self.processor
        cores = f", {self.cores} {'core' if self.cores == 1 else 'cores'}" if self.cores else ""
        quota = "" if self.cpu_quota is None else f", quota of {self.cpu_quota:g}"
        return f"{processor}{cores}{quota}"


def machine(environment: Mapping[str, Any], device: str = "cpu") -> Machine:
    """The machine of a record.

    Args:
        environment: what a record holds of machine, packages and flags.
        device: that the case runs on.
    """
    return Machine(
        processor=str(environment.get("processor") or UNKNOWN),
        cores=environment.get("cores"),
        cpu_quota=environment.get("cpu_quota"),
        accelerator=None if device == "cpu" else accelerator(environment) or UNKNOWN,
    )


def accelerator(environment: Mapping[str, Any]) -> str | None:
    """Name of the accelerator that computes, which is recorded first; None where there is none."""
    devices = environment.get("cuda_devices") or [{}]
    return devices[0].get("name")


def software(environment: Mapping[str, Any], device: str = "cpu") -> dict[str, Any]:
    """What else must be equal before records of one machine may stand for one run; arguments as for `machine`."""
    flags: Mapping[str, str] = environment.get("flags") or {}
    devices = environment.get("cuda_devices") or [{}]
    return {
        "os": _system(str(environment.get("os") or UNKNOWN)),
        "python": environment.get("python", UNKNOWN),
        "packages": environment.get("packages", {}),
        "flags": {name: value for name, value in flags.items() if name not in _LOCATING_FLAGS},
        "driver": None if device == "cpu" else devices[0].get("driver"),
    }


def _system(platform: str) -> str:
    found = _SYSTEM.match(platform)
    return f"{found['system']}{found['library'] or ''}" if found else platform
