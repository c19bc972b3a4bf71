"""Time, memory and environment, as the process that calls these functions sees them. Imports no framework."""

from __future__ import annotations

import functools
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import psutil

MINIMUM_SAMPLES = 5
MAXIMUM_SAMPLES = 200
STEADY_SPREAD = 0.02
NOISY_SPREAD = 0.10
FLOOR_S_PER_SLOT = 0.05e-9
"""No core or multiprocessor evaluates a pair slot faster; a quicker sample did not do the work."""
STALL_RATIO, STALL_S = 5.0, 0.1
"""A sample this many times its median, and this long, looks like a compilation."""

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


class Samples(msgspec.Struct, frozen=True):
    """Seconds of repeated calls."""

    seconds: list[float]

    @property
    def median(self) -> float:
        """Median, seconds."""
        return float(np.median(self.seconds))

    @property
    def quartiles(self) -> tuple[float, float]:
        """The lower and the upper one, seconds."""
        low, high = np.percentile(self.seconds, (25, 75))
        return float(low), float(high)

    @property
    def iqr(self) -> float:
        """Interquartile range, seconds."""
        low, high = self.quartiles
        return high - low

    @property
    def spread(self) -> float:
        """Interquartile range over median."""
        return self.iqr / self.median if self.median > 0.0 else float("inf")

    @property
    def stalls(self) -> int:
        """Samples so far above the median that something was compiled, or the machine stood still."""
        return sum(s > STALL_RATIO * self.median and s > STALL_S for s in self.seconds)

    def below_floor(self, pair_slots: int, cores: int) -> bool:
        """Whether the quickest sample is quicker than the pair slots can be evaluated."""
        return min(self.seconds) < FLOOR_S_PER_SLOT * pair_slots / max(cores, 1)


def sample(
    call: Callable[[Any], Any], inputs: Sequence[Any], wait: Callable[..., None], budget_s: float
) -> tuple[Samples, Any]:
    """Time calls, each from before the call until all its outputs are there.

    Goes on until the spread is below 2 %, the budget is spent or there are 200; never fewer than five.

    Args:
        call: takes one input.
        inputs: taken in turn, so that nothing can be cached or folded.
        wait: returns when its arguments have been computed.
        budget_s: seconds for all samples together.

    Returns:
        The samples, and the last call's output.
    """
    wait(inputs)
    seconds: list[float] = []
    begin = time.perf_counter()
    while True:
        x = inputs[len(seconds) % len(inputs)]
        start = time.perf_counter()
        output = call(x)
        wait(output)
        now = time.perf_counter()
        seconds.append(now - start)
        if len(seconds) >= MINIMUM_SAMPLES:
            steady = len(seconds) % MINIMUM_SAMPLES == 0 and Samples(seconds).spread < STEADY_SPREAD
            if steady or now - begin > budget_s or len(seconds) >= MAXIMUM_SAMPLES:
                return Samples(seconds), output


def available_cores() -> list[int]:
    """Processors this process may use."""
    return sorted(os.sched_getaffinity(0))


def seconds(action: Callable[[], Any]) -> float:
    """Wall seconds of one call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def resident_bytes() -> int:
    """Resident memory of this process now."""
    return int(psutil.Process().memory_info().rss)


def reset_peak_resident() -> bool:
    """Start a new high-water mark of resident memory; whether this system lets one (Linux does)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak_resident_bytes() -> int:
    """High-water mark of resident memory since a reset that succeeded."""
    status = Path("/proc/self/status").read_text().splitlines()
    mark = next(line for line in status if line.startswith("VmHWM:"))
    return int(mark.split()[1]) * 1024


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


def cuda_used_bytes() -> int | None:
    """Memory in use on the first NVIDIA device, all processes together; None without one."""
    if not cuda_devices():
        return None
    import pynvml

    return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used)


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
    return re.sub(r"[^a-z0-9]+", "-", " ".join(names).lower()).strip("-")


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


def free_bytes() -> dict[str, int | None]:
    """Memory this process finds free on the host, and in use on the accelerator."""
    return {"free_host_bytes": int(psutil.virtual_memory().available), "used_device_bytes": cuda_used_bytes()}


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
    here = Path(__file__).parent
    try:
        commit = _git(here, "rev-parse", "HEAD")
        changed = _git(here, "status", "--porcelain", "--", "..", ":!../results", ":!../reports")
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return commit, bool(changed)


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()
