"""One command for a machine with an NVIDIA GPU: agreement on the device first, then the rows, within eight minutes.

It uses the Python and the packages that are installed there: no set-up, no network. What is missing is `unavailable`.
Everything is written as it comes, so a run cut short leaves its records and its log.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

NEEDED = ("click", "msgspec", "numpy", "psutil", "pynvml", "rich", "scipy", "tabulate")
"""What the harness itself cannot run without; frameworks may be absent."""

BUDGET_S = 460.0
CHECK_S = 110.0
SEGMENTS_S = 45.0
_PAIRGRAD = (sys.executable, "-m", "harness.cli")


def main() -> int:
    """Run every step, the most important first.

    Returns:
        0 if all ran and agreed; 1 if not; 2 if this machine cannot run it.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(f"bench-gpu needs {', '.join(missing)} in {sys.executable}: install them, or put them on PYTHONPATH")
        return 2
    from harness import measure

    if not measure.cuda_devices():
        print("bench-gpu needs an NVIDIA GPU and its driver; none answers here. `make bench` measures the CPU")
        return 2
    results = Path("results") / measure.machine_name()
    results.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + BUDGET_S
    with (results / "bench-gpu.log").open("a") as log:
        codes = [
            _step(log, CHECK_S, *_PAIRGRAD, "check", *("--device", "cuda"), *("--scenario", "published")),
            _step(log, SEGMENTS_S, sys.executable, "-m", "pytest", "-m", "gpu", "-q", "tests"),
        ]
        left = max(30.0, deadline - time.monotonic())
        bench = ("bench", "--profile", "gpu", "--results", str(results), "--within", f"{left - 15.0:.0f}")
        codes.append(_step(log, left, *_PAIRGRAD, *bench))
    return 1 if any(codes) else 0


def _step(log: TextIO, limit_s: float, *command: str) -> int:
    """Run one command, ended at its limit, its output on the screen and in the log as it comes."""
    print(f"$ {' '.join(command[1:])}", flush=True)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    clock = threading.Timer(limit_s, process.kill)
    clock.start()
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        log.write(line)
        log.flush()
    clock.cancel()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
