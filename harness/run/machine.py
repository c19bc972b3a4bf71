"""The machine and the environment, as the process that calls these functions sees them. Imports no framework."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

from harness.contract.names import file_name
from harness.contract.registry import ROOT

ENVIRONMENT_FLAGS = (
    "CUDA_VISIBLE_DEVICES",
    "JAX_ENABLE_COMPILATION_CACHE",
    "JAX_ENABLE_X64",
    "JAX_PLATFORMS",
    "MKL_NUM_THREADS",
    "NUMBA_CPU_NAME",
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS",
    "XLA_FLAGS",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
)
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

FRAMEWORK_MODULES = ("jax", "jaxlib", "jax_md", "torch", "warp", "numba", "numpy")


def available_cores() -> list[int]:
    """Processors this process may use."""
    return sorted(os.sched_getaffinity(0))


@functools.cache
def cuda_devices() -> list[dict[str, Any]]:
    """Name, memory in bytes and driver version of each NVIDIA device; empty where there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return _cuda_devices(pynvml)
    except pynvml.NVMLError:
        return []


def _cuda_devices(pynvml: ModuleType) -> list[dict[str, Any]]:
    handles = [pynvml.nvmlDeviceGetHandleByIndex(k) for k in range(pynvml.nvmlDeviceGetCount())]
    driver = pynvml.nvmlSystemGetDriverVersion()
    return [
        {
            "name": pynvml.nvmlDeviceGetName(handle),
            "memory_bytes": int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
            "driver": driver,
            "multiprocessors": int(pynvml.nvmlDeviceGetNumGpuCores(handle)) // 128,
        }
        for handle in handles
    ]


@functools.cache
def processor_name() -> str:
    """The processor's model."""
    try:
        import cpuinfo
    except ModuleNotFoundError:
        return platform.processor() or platform.machine()
    return str(cpuinfo.get_cpu_info().get("brand_raw", platform.processor() or "unknown"))


def machine_name() -> str:
    """A folder name for this machine's records: processor and cores, with the accelerator where there is one."""
    names = [processor_name(), f"{len(available_cores())} cores", *(device["name"] for device in cuda_devices()[:1])]
    return file_name(", ".join(names))


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


def observed() -> dict[str, Any]:
    """What this process runs with: cores, flags, and what every imported framework says of itself."""
    modules = {name: sys.modules[name] for name in FRAMEWORK_MODULES if name in sys.modules}
    return {
        "python": platform.python_version(),
        "cores": available_cores(),
        "flags": _flags(),
        "versions": {name: str(m.__version__) for name, m in modules.items() if hasattr(m, "__version__")},
        "x64": bool(modules["jax"].config.jax_enable_x64) if "jax" in modules else None,
        "threads": {name: modules[name].get_num_threads() for name in ("numba", "torch") if name in modules},
    }


def _flags() -> dict[str, str]:
    return {name: os.environ[name] for name in ENVIRONMENT_FLAGS if name in os.environ}


def environment() -> dict[str, Any]:
    """This machine, its packages and the state of the sources."""
    commit, dirty = _git_state()
    return {
        "processor": processor_name(),
        "cores": len(available_cores()),
        "memory_bytes": int(psutil.virtual_memory().total),
        "os": platform.platform(),
        "python": platform.python_version(),
        "packages": package_versions(),
        "flags": _flags(),
        "cuda_devices": cuda_devices(),
        "commit": commit,
        "dirty": dirty,
    }


def _git_state() -> tuple[str | None, bool | None]:
    """Commit of the sources and whether they differ from it; None outside a repository."""
    try:
        commit = _git(ROOT, "rev-parse", "HEAD")
        changed = _git(ROOT, "status", "--porcelain", "--", ".", ":!results", ":!reports")
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return commit, bool(changed)


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()
