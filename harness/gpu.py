"""One command for a machine with an NVIDIA GPU, within eight minutes, the most important first.

Agreement on the device, the tests that need one, the rows, the segment operations. It uses the Python and the packages
that are installed there: no set-up, no network. What is missing is `unavailable`. Records and log are written as they
come, and every step has its time, so a run cut short keeps what it has.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TextIO

from harness.contract import output
from harness.signals import Interrupted, interrupting

NEEDED = {
    "click": "click",
    "jinja2": "jinja2",
    "msgspec": "msgspec",
    "numpy": "numpy",
    "pandas": "pandas",
    "psutil": "psutil",
    "pynvml": "nvidia-ml-py",
    "rich": "rich",
    "scipy": "scipy",
    "tabulate": "tabulate",
    "typing_extensions": "typing_extensions",
}
"""Modules the harness itself cannot run without, and the packages that have them; frameworks may be absent."""

BUDGET_S = 465.0
"""Seconds for the whole run; what one step leaves is for the later ones."""
CHECK_S, TESTS_S, SEGMENTS_S = 100.0, 50.0, 80.0
"""Seconds of each step; the rows have all that the other steps leave."""
CHECKED_CASE_S, TIMED_CASE_S = 45.0, 75.0
"""Seconds of one case, so that one that hangs costs its own row only."""
GRACE_S = 25.0
"""Seconds for a step that knows its time to finish what it is at, and to write and print what it has."""

SEGMENT_SIZES = "100000,1000000"
TIME_OVER = "skipped: the time of the run was over"

_PAIRGRAD = (sys.executable, "-m", "harness.cli")
_PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
_PYTEST_ENVIRONMENT = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""No plug-in but those named, whatever is installed; frameworks share the memory."""


def main() -> int:
    """Run every step.

    Returns:
        0 if all ran and agreed; 1 if not; 2 if this machine cannot run it.
    """
    start = time.monotonic()
    if missing := _absent(*NEEDED):
        packages = [NEEDED[name] for name in missing]
        print(f"bench-gpu needs {', '.join(missing)} in {sys.executable}, without which nothing can be measured:")
        print(f"  {shlex.join([sys.executable, '-m', 'pip', 'install', *packages])}\nor put them on PYTHONPATH")
        return 2
    from harness.console import replace_what_cannot_be_shown
    from harness.run import machine

    replace_what_cannot_be_shown()
    if not machine.cuda_devices():
        print("bench-gpu needs an NVIDIA GPU and its driver; none answers here. `make bench` measures the CPU")
        return 2
    results = Path("results") / machine.machine_name()
    try:
        output.require_writable_folder(results)
        log = (results / "bench-gpu.log").open("a", encoding="utf-8", errors="replace")
    except OSError as error:
        print(f"bench-gpu cannot write to {results}: {error.strerror}; run it in a folder where it can")
        return 2
    with log:
        run = Run(results, log, start + BUDGET_S)
        codes = [run.check(), run.tests(), run.rows(), run.segments()]
        run.say(f"{time.monotonic() - start:.0f} s; records, log and the check in {results}")
    return 1 if any(codes) else 0


def _absent(*modules: str) -> list[str]:
    return [name for name in modules if find_spec(name) is None]


@dataclass(frozen=True)
class Run:
    """The steps of one run. Each returns 0 if it ran and all was right, or could not run for want of a package.

    Attributes:
        results: folder the records go to.
        log: gets all that is printed.
        deadline: when the run is over, by `time.monotonic`.
    """

    results: Path
    log: TextIO
    deadline: float

    def check(self) -> int:
        """Agreement of every row on the device."""
        file = self.results / "check-cuda.json"
        what = ("--device", "cuda", "--scenario", "published", "--timeout", f"{CHECKED_CASE_S:.0f}")
        return self.step(CHECK_S, *_PAIRGRAD, "check", *what, "--json", str(file))

    def tests(self) -> int:
        """The tests that need a GPU: those of one folder, which ask for nothing but pytest and what they test."""
        if self.lacks("tests", "pytest"):
            return 0
        return self.step(TESTS_S, *_PYTEST, "-m", "gpu", "tests/gpu", **_PYTEST_ENVIRONMENT)

    def rows(self) -> int:
        """The study's rows, until only the segment operations' time is left."""
        within_s = self.left_s() - SEGMENTS_S - GRACE_S
        what = ("--profile", "gpu", "--results", str(self.results))
        limits = ("--within", f"{within_s:.0f}", "--timeout", f"{TIMED_CASE_S:.0f}")
        return self.step(within_s + GRACE_S, *_PAIRGRAD, "bench", *what, *limits)

    def segments(self) -> int:
        """The segment operations, in what is left of the time."""
        if self.lacks("segment operations", "pytest", "pytest_benchmark", "jax", "torch", "warp"):
            return 0
        within_s = self.left_s() - GRACE_S
        if within_s <= 0.0:
            self.say(f"segment operations: {TIME_OVER}")
            return 0
        with tempfile.TemporaryDirectory(prefix="pairgrad-", ignore_cleanup_errors=True) as folder:
            written = Path(folder) / "segments-cuda.json"
            code = self.step(
                within_s + GRACE_S,
                *(*_PYTEST, "-p", "pytest_benchmark.plugin", "benchmarks/test_segments.py", "-rs"),
                *("--benchmark-json", str(written), "--benchmark-quiet"),
                *("--benchmark-max-time", "0.05", "--benchmark-min-rounds", "5"),
                **_PYTEST_ENVIRONMENT,
                PAIRGRAD_SEGMENT_DEVICE="cuda",
                PAIRGRAD_SEGMENT_SIZES=SEGMENT_SIZES,
                PAIRGRAD_SEGMENT_WITHIN=f"{within_s:.0f}",
                WARP_CACHE_PATH=f"{folder}/warp",
            )
            if written.exists():
                code = self._keep(written) or code
                self._show_segments(Path(folder))
        return code

    def _keep(self, file: Path) -> int:
        """Copy a file to the results; 1 where that fails, which is said."""
        try:
            output.write(self.results / file.name, file.read_bytes())
        except OSError as error:
            self.say(f"cannot write {self.results / file.name}: {error.strerror}")
            return 1
        return 0

    def _show_segments(self, folder: Path) -> None:
        from harness.report.segments import provenance, read_runs, summary

        for run in read_runs([folder]):
            self.say(f"segment operations: {provenance(run)}\n\n{summary(run)}\n")

    def left_s(self) -> float:
        """Seconds left of the run."""
        return self.deadline - time.monotonic()

    def lacks(self, step: str, *modules: str) -> bool:
        """Whether a module that a step needs is missing; says which."""
        missing = _absent(*modules)
        if missing:
            self.say(f"{step}: unavailable: {', '.join(missing)} is not installed")
        return bool(missing)

    def say(self, text: str) -> None:
        """Print a line and log it."""
        self._write(f"{text}\n")

    def step(self, limit_s: float, *command: str, **environment: str) -> int:
        """Run one command, its output on the screen and in the log as it comes.

        It ends at its limit or with the run, and all it has started ends with it.

        Returns:
            Its exit status; 1 if it had to be ended.
        """
        self.say(f"$ {shlex.join(command[1:])}")
        limit_s = min(limit_s, self.left_s())
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, **environment},
            start_new_session=True,
        )
        copying = threading.Thread(target=self._copy, args=[process.stdout], daemon=True)
        copying.start()
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.say(f"ended after {limit_s:.0f} s")
            return 1
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what `bench` supervises, its guard ends
            with contextlib.suppress(subprocess.TimeoutExpired):  # one that hangs in the driver is left to it
                process.wait(1.0)
            copying.join(1.0)

    def _copy(self, output: IO[str]) -> None:
        for line in output:
            self._write(line)

    def _write(self, text: str) -> None:
        print(text, end="", flush=True)
        self.log.write(text)
        self.log.flush()


if __name__ == "__main__":
    try:
        with interrupting():  # so that the step under way is ended
            sys.exit(main())
    except Interrupted as asked:
        sys.exit(asked.exit_code)
