"""Capacities of padded lists: what positions need, and whether the device can hold it."""

from __future__ import annotations

import jax
import numpy as np
import psutil

from harness.contract.problem import FloatArray, Problem
from harness.contract.protocol import CapacityOverflowError


def fullest_cell(problem: Problem, positions: FloatArray, cells_per_side: int) -> int:
    """Particles in the fullest of so many cells a side, of (N, 2) NumPy positions."""
    cells = problem.cell_coordinates(positions, cells_per_side)
    _, occupancy = np.unique(cells[:, 0] + cells_per_side * cells[:, 1], return_counts=True)
    return int(occupancy.max(initial=0))


def free_bytes(device: jax.Device) -> int:
    """Memory that can still be allocated on the device."""
    stats = device.memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"] - stats["bytes_in_use"])
    return int(psutil.virtual_memory().available)


def require_memory(device: jax.Device, what: str, entries: int, bytes_per_entry: int) -> None:
    """Refuse, before allocating, what the device cannot hold.

    Args:
        device: where it would be allocated.
        what: plural name of the entries for the message.
        entries: how many.
        bytes_per_entry: the least each occupies.

    Raises:
        CapacityOverflowError: naming entries, bytes and limit.
    """
    needed, free = entries * bytes_per_entry, free_bytes(device)
    if needed > free:
        raise CapacityOverflowError(f"{entries} {what} need {needed} bytes at least; {free} bytes are free on {device}")
