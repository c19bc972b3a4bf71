"""Memory, as the process that calls these functions sees it. Imports no framework."""

from __future__ import annotations

from pathlib import Path

import psutil

from harness.run import cgroup
from harness.run.machine import cuda_devices, device_handle


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


def cuda_used_bytes() -> int | None:
    """Memory in use on the device that computes, all processes together; None without one."""
    if not cuda_devices():
        return None
    import pynvml

    return int(pynvml.nvmlDeviceGetMemoryInfo(device_handle(cuda_devices()[0]["uuid"])).used)


def available_bytes() -> int:
    """Host memory that may still be taken: what is free, or what a container or job leaves of it."""
    free, left = int(psutil.virtual_memory().available), cgroup.memory_left_bytes()
    return free if left is None else min(free, left)


def free_bytes() -> dict[str, int | None]:
    """Memory this process finds free on the host, and in use on the accelerator."""
    return {"free_host_bytes": available_bytes(), "used_device_bytes": cuda_used_bytes()}
