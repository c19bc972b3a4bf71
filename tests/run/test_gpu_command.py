"""`make bench-gpu` without a GPU: what it refuses, its steps with commands that stand in for them, what it needs."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path

import psutil
import pytest
from imports import imported
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness import gpu
from harness.contract.sources import closure, module_files
from harness.run import machine

ROOT = Path(__file__).parents[2]
H200 = {"name": "NVIDIA H200", "memory_bytes": 1, "driver": "1", "multiprocessors": 132}
NO_TIME_LIMIT = 1e9


def run_until(seconds: float, folder: Path) -> gpu.Run:
    """A run that is over after these seconds, its log in memory."""
    return gpu.Run(folder, io.StringIO(), time.monotonic() + seconds)


def python(code: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *arguments)


# -- what it refuses ---------------------------------------------------------------------------------------------------


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(machine, "cuda_devices", list)
    assert gpu.main() == 2
    assert "needs an NVIDIA GPU" in capsys.readouterr().out


def test_what_the_harness_needs_is_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "NEEDED", {"numpy": "numpy", "a_module_nobody_has": "its-package"})
    assert gpu.main() == 2
    told = capsys.readouterr().out
    assert "needs a_module_nobody_has in" in told
    assert "-m pip install its-package\n" in told


def test_results_that_cannot_be_written_are_told_before_the_first_step(
    steps: Steps, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results").write_text("mine")
    assert gpu.main() == 2
    assert steps.asked == []
    assert "bench-gpu cannot write to results/" in capsys.readouterr().out


# -- its steps ---------------------------------------------------------------------------------------------------------


class Steps:
    """Stands in for `Run.step`: keeps what is asked for, and runs nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, tuple[str, ...], dict[str, str]]] = []
        self.codes: dict[str, int] = {}
        self.on_command: Callable[..., None] = lambda *command: None

    def __call__(self, run: gpu.Run, limit_s: float, *command: str, **environment: str) -> int:
        self.asked.append((limit_s, command, environment))
        self.on_command(*command)
        return next((code for word, code in self.codes.items() if word in command), 0)

    @property
    def commands(self) -> list[tuple[str, ...]]:
        return [command for _, command, _ in self.asked]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Steps:
    """Stand-ins for the steps of a machine with a GPU, in an empty folder."""
    stand_in = Steps()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "cuda_devices", lambda: [H200])
    monkeypatch.setattr(gpu.Run, "step", lambda *arguments, **environment: stand_in(*arguments, **environment))
    return stand_in


def test_steps_come_in_the_order_of_their_importance(steps: Steps) -> None:
    assert gpu.main() == 0
    check, tests, bench, segments = steps.commands
    assert check[3:6] == ("check", "--device", "cuda")
    assert tests[-3:] == ("-m", "gpu", "tests/gpu")
    assert bench[3:6] == ("bench", "--profile", "gpu")
    assert "benchmarks/test_segments.py" in segments
    results = Path("results") / machine.machine_name()
    assert check[check.index("--json") + 1] == str(results / "check-cuda.json")
    assert bench[bench.index("--results") + 1] == str(results)
    assert (results / "bench-gpu.log").is_file()
    environment = steps.asked[-1][2]
    assert environment["PAIRGRAD_SEGMENT_DEVICE"] == "cuda"
    assert environment["PAIRGRAD_SEGMENT_SIZES"] == "100000,1000000"


def test_every_step_has_its_time_and_all_keep_within_eight_minutes(steps: Steps) -> None:
    assert gpu.main() == 0
    limits = [limit_s for limit_s, _, _ in steps.asked]
    assert limits[0] + limits[1] + gpu.SEGMENTS_S < limits[2] < gpu.BUDGET_S
    assert limits[2] + gpu.SEGMENTS_S <= gpu.BUDGET_S < 480.0 - 2.0 * len(limits)  # a step is ended within two seconds
    bench = steps.commands[2]
    assert float(bench[bench.index("--within") + 1]) == pytest.approx(limits[2] - gpu.GRACE_S, abs=1.0)
    assert float(steps.asked[3][2]["PAIRGRAD_SEGMENT_WITHIN"]) == pytest.approx(limits[3] - gpu.GRACE_S, abs=1.0)


@pytest.mark.parametrize("wrong", ["check", "tests/gpu", "bench", "benchmarks/test_segments.py"])
def test_what_goes_wrong_stops_no_later_step_and_is_the_answer(steps: Steps, wrong: str) -> None:
    steps.codes = {wrong: 1}
    assert gpu.main() == 1
    assert len(steps.asked) == 4


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("pytest_benchmark", ["segment operations: unavailable: pytest_benchmark is not installed"]),
        ("torch", ["segment operations: unavailable: torch is not installed"]),
        ("pytest", ["tests: unavailable: pytest is not", "segment operations: unavailable: pytest is not installed"]),
    ],
)
def test_a_step_that_lacks_a_package_is_unavailable(
    steps: Steps, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: str, told: list[str]
) -> None:
    monkeypatch.setattr(gpu, "_absent", lambda *modules: [name for name in modules if name == missing])
    assert gpu.main() == 0
    assert len(steps.asked) == 4 - len(told)
    (log,) = Path("results").glob("*/bench-gpu.log")
    for text in (capsys.readouterr().out, log.read_text()):
        assert all(line in text for line in told)


def test_segment_operations_are_skipped_when_the_time_is_over(steps: Steps, tmp_path: Path) -> None:
    run = run_until(gpu.GRACE_S - 1.0, tmp_path)
    assert run.segments() == 0
    assert steps.asked == []
    assert "segment operations: skipped: the time of the run was over" in run.log.getvalue()  # type: ignore[attr-defined]


def segment_timings(ours_s: float, plain_s: float) -> str:
    """What pytest-benchmark writes of one input, on a machine with a GPU."""
    of = {"op": "segmented_sum", "stage": "forward", "n": 100_000, "segments": 1000, "order": "sorted"}
    of |= {"dtype": "float64", "framework": "jax", "device": "cuda"}
    seconds = {"segment_ops": ours_s, "plain": plain_s}
    benchmarks = [
        {"extra_info": {**of, "library": library}, "stats": {"median": median}} for library, median in seconds.items()
    ]
    machine = {"processor": "EPYC", "cores": 16, "cuda_devices": [H200]}
    return json.dumps(
        {"machine_info": machine, "commit_info": {}, "datetime": "2026-01-01T00:00:00", "benchmarks": benchmarks}
    )


def test_segment_timings_are_kept_and_shown_though_the_step_failed(steps: Steps, tmp_path: Path) -> None:
    def write(*command: str) -> None:
        Path(command[command.index("--benchmark-json") + 1]).write_text(segment_timings(1e-3, 3e-3))

    steps.on_command, steps.codes = write, {"benchmarks/test_segments.py": 1}
    run = run_until(NO_TIME_LIMIT, tmp_path)
    assert run.segments() == 1
    assert (tmp_path / "segments-cuda.json").read_text() == segment_timings(1e-3, 3e-3)
    told = run.log.getvalue()  # type: ignore[attr-defined]
    assert "N = 100,000" in told
    assert "3.00" in told


def test_segment_timings_that_cannot_be_kept_are_shown_all_the_same(steps: Steps, tmp_path: Path) -> None:
    def write(*command: str) -> None:
        Path(command[command.index("--benchmark-json") + 1]).write_text(segment_timings(1e-3, 3e-3))

    steps.on_command = write
    (tmp_path / "segments-cuda.json").mkdir()
    run = run_until(NO_TIME_LIMIT, tmp_path)
    assert run.segments() == 1
    told = run.log.getvalue()  # type: ignore[attr-defined]
    assert f"cannot write {tmp_path / 'segments-cuda.json'}: it is a folder" in told
    assert "N = 100,000" in told


def test_what_another_run_timed_is_left_alone_where_nothing_was(steps: Steps, tmp_path: Path) -> None:
    (tmp_path / "segments-cuda.json").write_text("earlier")
    run = run_until(NO_TIME_LIMIT, tmp_path)
    assert run.segments() == 0
    assert (tmp_path / "segments-cuda.json").read_text() == "earlier"
    assert "3.00" not in run.log.getvalue()  # type: ignore[attr-defined]


# -- one step ----------------------------------------------------------------------------------------------------------

STARTS_A_CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(float(sys.argv[1]))
"""


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(("sleeps", "right"), [pytest.param("600", False, marks=pytest.mark.thorough), ("0", True)])
def test_a_step_ends_with_all_it_started_and_its_output_is_kept(tmp_path: Path, sleeps: str, right: bool) -> None:
    """The child has its parent's standard output: reading that to its end would wait for the child."""
    run = run_until(NO_TIME_LIMIT, tmp_path)
    code = run.step(3.0, *python(STARTS_A_CHILD, sleeps))
    assert (code == 0) is right
    said = run.log.getvalue().removeprefix(f"$ {shlex.join(('-c', STARTS_A_CHILD, sleeps))}\n")  # type: ignore[attr-defined]
    child, *rest = said.splitlines()
    assert rest == ([] if right else ["ended after 3 s"])
    deadline = time.monotonic() + 10.0
    while is_alive(int(child)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(int(child))


def test_no_step_outlasts_the_run(tmp_path: Path) -> None:
    run = run_until(-1.0, tmp_path)
    assert run.step(600.0, *python("import time; time.sleep(600)")) == 1


def test_a_step_has_its_environment_and_its_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_until(NO_TIME_LIMIT, tmp_path)
    command = python("import os; print(os.environ['GIVEN'], 'PATH' in os.environ); exit(3)")
    assert run.step(60.0, *command, GIVEN="42") == 3
    assert "42 True\n" in run.log.getvalue()  # type: ignore[attr-defined]
    assert run.log.getvalue() == capsys.readouterr().out  # type: ignore[attr-defined]


# -- what the harness needs --------------------------------------------------------------------------------------------

HIDE = """
import sys
from importlib.machinery import PathFinder
find_spec = PathFinder.find_spec

def installed(name, path=None, target=None):
    spec = find_spec(name, path, target)
    if path is not None or spec is None or "site-packages" not in str(spec.origin):
        return spec
    return spec if name in VISIBLE else None

PathFinder.find_spec = installed
"""


RUNS = """
import subprocess, sys

def run(*command):
    subprocess.run([sys.executable, *command], check=True)

row = ("--impl", "tests/harness/fakes/right.py", "--scenario", "published", "--n", "50", "--dtype", "float64")
run("-m", "harness.cli", "check", *row)
run("-m", "harness.cli", "bench", "--profile", "gpu", "--device", "cpu", "--results", sys.argv[1], *row)
run("-c", "from harness.check.oracle import references; next(references('published', 10_000, 'float64'))")
"""


def modules_of(packages: Iterable[str]) -> set[str]:
    """Top-level modules of these packages and of all that they require."""
    found, left = set(), list(packages)
    while left:
        name = canonicalize_name(left.pop())
        if name not in found:
            found.add(name)
            required = map(Requirement, metadata.requires(name) or ())
            left += [each.name for each in required if each.marker is None or each.marker.evaluate({"extra": ""})]
    owners = metadata.packages_distributions()
    return {module for module, names in owners.items() if found & set(map(canonicalize_name, names))}


def checked_and_timed(tmp_path: Path, packages: Iterable[str]) -> subprocess.CompletedProcess[str]:
    """A row in NumPy through the gate and a timed run, and a large reference, with nothing else installed."""
    (tmp_path / "sitecustomize.py").write_text(f"VISIBLE = {modules_of(packages)!r}\n{HIDE}")
    return subprocess.run(
        python(RUNS, str(tmp_path)),
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.thorough
def test_the_harness_runs_with_no_more_than_it_says_it_needs(tmp_path: Path) -> None:
    ended = checked_and_timed(tmp_path, gpu.NEEDED.values())
    assert ended.returncode == 0, ended.stderr
    assert len(list(tmp_path.glob("*.jsonl"))) == 1


def test_it_runs_with_no_less() -> None:
    """What its commands import, a worker and the oracle with them, has all that it asks for."""
    commands = ("harness.cli", "harness.run.worker", "harness.check.oracle")
    files = closure([file for name in commands for file in module_files(name, [ROOT])], [ROOT])
    assert {*gpu.NEEDED} <= {name.split(".")[0] for file in files if file.suffix == ".py" for name in imported(file)}
