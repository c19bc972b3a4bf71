"""The environment of a process started from here, and one that answers a question and ends.

A child inherits no variable but those on a list: a framework's switch in the caller's environment reaches none, so
that equal records mean equal settings. What is to reach a row on purpose is part of its case.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from harness.contract.encoding import encode
from harness.contract.protocol import Device
from harness.run import caches
from harness.run.machine import PASSED_SWITCHES, cuda_devices
from harness.run.process import TAG, Ended, supervise

LOCATIONS = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONUSERBASE",
    "PYTHONNOUSERSITE",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_LOG_DIRECTORY",
)
"""Passed on: where programs, packages and libraries are."""
LOCALE = ("LANG", "LANGUAGE", "TZ")
"""Passed on, and so is all that begins with LC_."""

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
_ANSWER_LIMIT_S = 300.0
_ANSWER_MEMORY_BYTES = 8 << 30

_Answer = TypeVar("_Answer")


def child_environment(
    device: Device, threads: int, private: Path, cold: Path, variables: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The whole environment of a child, complete before its interpreter starts.

    Args:
        device: what it will compute on; on cuda it sees the first of the devices visible here and no other.
        threads: cores it will run on.
        private: an empty folder of its own for temporary files.
        cold: for kernel caches; no other process uses it at the same time.
        variables: further ones, none of them in `OURS`.
    """
    return {**_passed_on(), **(variables or {}), **_ours(device, threads, private, cold)}


def _passed_on() -> dict[str, str]:
    names = {*LOCATIONS, *LOCALE, *PASSED_SWITCHES}
    return {name: value for name, value in os.environ.items() if name in names or name.startswith("LC_")}


def _ours(device: Device, threads: int, private: Path, cold: Path) -> dict[str, str]:
    """What is set here, whatever the caller's environment says."""
    return {
        **dict.fromkeys(_THREAD_VARIABLES, str(threads)),
        **({"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else _computing_device()),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "JAX_PLATFORMS": "cpu" if device == "cpu" else "cuda,cpu",
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "NUMBA_CACHE_DIR": str(cold / "numba"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TMPDIR": str(private),
        "WARP_CACHE_PATH": str(cold / "warp"),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }


def _computing_device() -> dict[str, str]:
    """The accelerator by its own name, which means the same to every framework; the caller's words where none is known.

    A number would not do: CUDA counts the fastest device first unless told otherwise, the driver's tools do not.
    """
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    chosen = next((device["uuid"] for device in cuda_devices()), given)
    return {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}


OURS = frozenset({*_ours("cpu", 1, Path(), Path()), *caches.variables(Path()), "PYTHONPATH", TAG})
"""Variables that are set here: nobody else's value of them reaches a child."""


def ask(
    module: str,
    *arguments: str,
    of: type[_Answer],
    device: Device = "cpu",
    threads: int = 1,
    variables: Mapping[str, str] | None = None,
    warm: bool = False,
    limit_s: float = _ANSWER_LIMIT_S,
    memory_limit_bytes: int = _ANSWER_MEMORY_BYTES,
) -> _Answer | Ended:
    """Run `python -m module CHANNEL arguments...`, which answers with one JSON document, in a folder of its own.

    Args:
        module: to run; it ends with `answer`.
        arguments: of the module, after the channel.
        of: type of the answer.
        device, threads, variables: as in `child_environment`.
        warm: whether it has the kernel caches that processes share which time nothing.
        limit_s: wall seconds it may take.
        memory_limit_bytes: resident memory it may take.

    Returns:
        Its answer, or how it ended without one.
    """
    with tempfile.TemporaryDirectory(prefix="pairgrad-", ignore_cleanup_errors=True) as private:
        folder = Path(private)
        environment = child_environment(device, threads, folder, folder, variables)
        ended = supervise(
            module,
            *arguments,
            environment=caches.shared(environment) if warm else environment,
            folder=folder,
            limit_s=limit_s,
            memory_limit_bytes=memory_limit_bytes,
        )
    try:
        return msgspec.json.decode(ended.channel, type=of)
    except msgspec.MsgspecError:
        return ended


def answer(value: Any) -> NoReturn:
    """In a process that `ask` started: send the answer and end."""
    io.FileIO(int(sys.argv[1]), "w").write(encode(value))
    os._exit(0)  # frameworks' exit hooks may hang or crash after it is out
