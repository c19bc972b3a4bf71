"""Memory, as the process that calls these functions sees it. Imports no framework."""

from __future__ import annotations

from pathlib import Path

import psutil

from harness.run.machine import cuda_devices


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
    """Memory in use on the first NVIDIA device, all processes together; None without one."""
    if not cuda_devices():
        return None
    import pynvml

    return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used)


def free_bytes() -> dict[str, int | None]:
    """Memory this process finds free on the host, and in use on the accelerator."""
    return {"free_host_bytes": int(psutil.virtual_memory().available), "used_device_bytes": cuda_used_bytes()}
