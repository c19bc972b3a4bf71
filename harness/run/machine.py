"""The machine and the environment, as the process that calls these functions sees them. Imports no framework."""

from __future__ import annotations

import functools
import itertools
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

from harness.contract import identity
from harness.contract.names import file_name
from harness.contract.registry import ROOT
from harness.run import cgroup

PASSED_SWITCHES = ("OPENBLAS_CORETYPE",)
"""The only switches of a library that go from this process's environment to its children's, and are recorded.

An OpenBLAS older than the processor may crash on it as soon as NumPy is imported, here as in every child, unless told
what to take it for: who has to set this has to set it everywhere.
"""
DEVICE_CHOICE = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
ENVIRONMENT_FLAGS = (
    *PASSED_SWITCHES,
    *DEVICE_CHOICE,
    "JAX_ENABLE_COMPILATION_CACHE",
    "JAX_PLATFORMS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
)
"""What of a worker's environment decides how it computes; what its case sets comes on top."""
PACKAGES = (
    "enzyme-ad",
    "jax",
    "jax-md",
    "jaxlib",
    "numba",
    "numpy",
    "nvalchemi-toolkit-ops",
    "scipy",
    "torch",
    "warp-lang",
)

_CORES_OF_A_MULTIPROCESSOR = 128
FRAMEWORK_MODULES = ("jax", "jaxlib", "jax_md", "torch", "warp", "numba", "numpy")


def available_cores() -> list[int]:
    """Processors this process may use."""
    return sorted(os.sched_getaffinity(0))


def cuda_devices() -> list[dict[str, Any]]:
    """The NVIDIA devices that CUDA_VISIBLE_DEVICES leaves, the one that computes first; empty where there is no driver.

    Numbers count in the order of the PCI bus, as `nvidia-smi` does.

    Returns:
        Of each: name, UUID, memory in bytes, driver version and multiprocessors.
    """
    return list(_cuda_devices(os.environ.get("CUDA_VISIBLE_DEVICES")))


def device_handle(uuid: str) -> Any:
    """The driver's handle of a device that `cuda_devices` gave."""
    import pynvml

    return pynvml.nvmlDeviceGetHandleByUUID(uuid)


@functools.cache
def _cuda_devices(visible: str | None) -> tuple[dict[str, Any], ...]:
    import pynvml

    try:
        pynvml.nvmlInit()
        return tuple(_described(pynvml, handle) for handle in _visible(pynvml, visible))
    except pynvml.NVMLError:
        return ()


def _visible(nvml: ModuleType, visible: str | None) -> list[Any]:
    """Handles of the devices that CUDA_VISIBLE_DEVICES leaves, in its order, up to an entry that names none."""
    handles = [nvml.nvmlDeviceGetHandleByIndex(k) for k in range(nvml.nvmlDeviceGetCount())]
    if visible is None:
        return handles
    words = [word.strip() for word in visible.split(",")]
    chosen = (_chosen(nvml, handles, word) for word in words)
    return list(itertools.takewhile(lambda handle: handle is not None, chosen))


def _chosen(nvml: ModuleType, handles: Sequence[Any], word: str) -> Any:
    """The handle that one entry names: a number, the beginning of a device's UUID, or the UUID of a part of one."""
    if word.isdigit():
        return handles[int(word)] if int(word) < len(handles) else None
    if word.startswith("MIG-"):
        try:
            return nvml.nvmlDeviceGetHandleByUUID(word)
        except nvml.NVMLError:
            return None
    found = [handle for handle in handles if word and nvml.nvmlDeviceGetUUID(handle).startswith(word)]
    return found[0] if len(found) == 1 else None


def _described(nvml: ModuleType, handle: Any) -> dict[str, Any]:
    return {
        "name": nvml.nvmlDeviceGetName(handle),
        "uuid": nvml.nvmlDeviceGetUUID(handle),
        "memory_bytes": int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        "driver": nvml.nvmlSystemGetDriverVersion(),
        "multiprocessors": _multiprocessors(nvml, handle),
    }


def _multiprocessors(nvml: ModuleType, handle: Any) -> int:
    """Of a device, or of the part of one that was made apart (MIG), which has no number of cores."""
    try:
        return int(nvml.nvmlDeviceGetNumGpuCores(handle)) // _CORES_OF_A_MULTIPROCESSOR
    except nvml.NVMLError:
        return int(nvml.nvmlDeviceGetAttributes(handle).multiprocessorCount)


@functools.cache
def processor_name() -> str:
    """The processor's model."""
    try:
        import cpuinfo
    except ModuleNotFoundError:
        return platform.processor() or platform.machine()
    return str(cpuinfo.get_cpu_info().get("brand_raw", platform.processor() or "unknown"))


def machine_name() -> str:
    """A folder name for this machine's records: processor, cores and quota, with the accelerator where there is one."""
    where = identity.machine(environment(), "cuda" if cuda_devices() else "cpu")
    return file_name(", ".join(filter(None, (where.name, where.accelerator))))


def package_versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Installed version of each package, without importing it."""
    from importlib import metadata  # here, because workers do without it

    versions = {}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def observed(variables: Iterable[str] = ()) -> dict[str, Any]:
    """What this process runs with: cores, flags, and what every imported framework says of itself.

    Args:
        variables: names of flags besides `ENVIRONMENT_FLAGS`.
    """
    modules = {name: sys.modules[name] for name in FRAMEWORK_MODULES if name in sys.modules}
    return {
        "python": platform.python_version(),
        "cores": available_cores(),
        "flags": _flags(*ENVIRONMENT_FLAGS, *variables),
        "versions": {name: str(m.__version__) for name, m in modules.items() if hasattr(m, "__version__")},
        "x64": bool(modules["jax"].config.jax_enable_x64) if "jax" in modules else None,
        "threads": {name: modules[name].get_num_threads() for name in ("numba", "torch") if name in modules},
    }


def _flags(*names: str) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


def environment() -> dict[str, Any]:
    """This machine, its packages and the state of the sources; flags are those of this process that reach a child."""
    commit, dirty = git_state(ROOT)
    return {
        "processor": processor_name(),
        "cores": len(available_cores()),
        "cpu_quota": cgroup.cpu_quota(),
        "memory_bytes": int(psutil.virtual_memory().total),
        "memory_limit_bytes": cgroup.memory_limit_bytes(),
        "os": platform.platform(),
        "python": platform.python_version(),
        "packages": package_versions(),
        "flags": _flags(*PASSED_SWITCHES, *DEVICE_CHOICE),
        "cuda_devices": cuda_devices(),
        "commit": commit,
        "dirty": dirty,
    }


def git_state(root: Path) -> tuple[str | None, bool | None]:
    """Commit of the sources in a folder and whether they differ from it; None unless it is a repository of theirs.

    An installed copy may lie inside somebody else's repository, whose commit says nothing of it.
    """
    try:
        if Path(_git(root, "rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return None, None
        _git(root, "ls-files", "--error-unmatch", "--", "harness/__init__.py")
        commit = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", ".", ":!results", ":!reports")
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return commit, bool(changed)


def _git(folder: Path, *words: str) -> str:
    """Output of git in a folder; a hook's variables, which name another repository, are left out."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    run = subprocess.run(["git", *words], cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return run.stdout.strip()
