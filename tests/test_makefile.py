"""Every target of the Makefile runs in a folder whose name the shell would take apart, with tools in such a folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = [name for name in re.findall(r"^([a-z-]+):", MAKEFILE, re.M) if name != "clean"]
TOOLS = ("python", "pairgrad", "ruff", "mypy")
STUB = """#!{python}
# Notes how it was called, and does what a recipe needs of it.
import json, os, sys
note = {{"tool": os.path.basename(sys.argv[0]), "arguments": sys.argv[1:],
         "environment": {{name: os.environ.get(name, "") for name in ("PYTHONPATH", "WARP_CACHE_PATH")}}}}
with open({log!r}, "a") as log:
    log.write(json.dumps(note) + "\\n")
if sys.argv[1:] == ["env", "--name"]:
    print("a machine")
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make here")


class Call(NamedTuple):
    """One call of a tool by a recipe."""

    tool: str
    arguments: list[str]
    environment: dict[str, str]


class Project(NamedTuple):
    """A folder with the Makefile and tools that only note their calls."""

    folder: Path
    temporary: Path
    python: Path

    def make(self, *arguments: str) -> list[Call]:
        """Run make; what its recipes called."""
        log = self.folder / "calls"
        log.unlink(missing_ok=True)
        ended = subprocess.run(
            ["make", *arguments, f"PYTHON={self.python}"],
            cwd=self.folder,
            env={**os.environ, "TMPDIR": str(self.temporary)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ended.returncode, ended.stderr) == (0, ""), ended
        return [Call(**json.loads(line)) for line in log.read_text().splitlines()]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    folder, temporary = tmp_path / "it's a $(folder)", tmp_path / "a temporary folder"
    temporary.mkdir()
    for place in (folder / ".venv" / "bin", tmp_path / "somebody's python"):
        place.mkdir(parents=True)
        for tool in TOOLS:
            (place / tool).write_text(STUB.format(python=sys.executable, log=str(folder / "calls")))
            (place / tool).chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    (folder / "docs").mkdir()
    (folder / ".venv" / ".ready").touch()
    return Project(folder, temporary, tmp_path / "somebody's python" / "python")


@pytest.mark.parametrize("target", [name for name in TARGETS if name != "help"])
def test_a_target_runs_in_a_folder_with_a_space(project: Project, target: str) -> None:
    assert project.make(target)
    assert list(project.temporary.iterdir()) == []


def test_the_environment_is_set_up_there(project: Project) -> None:
    (project.folder / ".venv" / ".ready").unlink()
    calls = project.make("report")
    assert ["-m", "venv", ".venv"] in [call.arguments for call in calls]
    assert calls[-1].arguments == ["report"]


def test_paths_stay_whole(project: Project) -> None:
    (gpu,) = project.make("bench-gpu")
    assert gpu.environment["PYTHONPATH"] == str(project.folder)
    (micro,) = project.make("bench-micro")
    assert micro.environment["WARP_CACHE_PATH"].startswith(str(project.temporary))
    study = project.make("bench-study")[1]
    assert study.arguments[-2:] == ["--results", "results/a machine"]
    segments = next(call for call in project.make("bench-segments") if "json.tool" in call.arguments)
    assert segments.arguments[-1] == "results/segments/a machine.json"


def test_arguments_reach_the_benchmark(project: Project) -> None:
    assert project.make("bench", "ARGS=--quiet")[0].arguments == ["bench", "--profile", "quick", "--quiet"]


def test_help_shows_every_target_that_says_what_it_does() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    described = re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.M)
    assert [line.split()[0] for line in shown.splitlines()] == described
