"""`make bench-gpu` where there is no GPU, or where the harness itself cannot run: says so, and times nothing."""

import pytest

from harness import gpu, measure


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(measure, "cuda_devices", list)
    assert gpu.main() == 2
    assert "needs an NVIDIA GPU" in capsys.readouterr().out


def test_without_what_the_harness_needs_it_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "NEEDED", ("numpy", "a_package_nobody_has"))
    assert gpu.main() == 2
    assert "a_package_nobody_has" in capsys.readouterr().out


def test_with_a_gpu_every_step_runs_in_its_order_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """The steps' commands are replaced by echoes: order, log and exit code are what is tested."""
    monkeypatch.chdir(tmp_path)  # type: ignore[arg-type]
    device = {"name": "H200", "memory_bytes": 1, "driver": "1", "multiprocessors": 132}
    monkeypatch.setattr(measure, "cuda_devices", lambda: [device])
    steps: list[tuple[str, ...]] = []

    def step(log: object, limit_s: float, *command: str) -> int:
        steps.append(command)
        return int("pytest" in command)

    monkeypatch.setattr(gpu, "_step", step)
    assert gpu.main() == 1
    assert ["check" in steps[0], "pytest" in steps[1], "bench" in steps[2]] == [True] * 3
    assert all("cuda" in step or "gpu" in step for step in steps)


def test_a_step_beyond_its_limit_is_ended_and_its_output_kept(tmp_path: object) -> None:
    import sys

    path = tmp_path / "log"  # type: ignore[operator]
    with path.open("w") as log:
        code = gpu._step(log, 2.0, sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)")
    assert code != 0
    assert "begun" in path.read_text()
