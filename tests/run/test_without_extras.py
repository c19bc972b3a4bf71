"""What happens without the packages of an extra: each row that needs one says so, all others go on."""

import os
import subprocess
import sys

import pytest
from fake_cases import fake, made_record
from imports import imported

from harness.contract import registry
from harness.contract.extras import EXTRAS
from harness.contract.store import RecordFile

BLOCK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""
LOAD = """
import sys
from harness.check.outcomes import outcome_of, reason_of
from harness.contract import registry
from harness.contract.protocol import Case

for name in sys.argv[1:]:
    try:
        registry.load(name)
    except Exception as error:
        case = Case(implementation=name, scenario="published", n=0)
        print(name, outcome_of(error, case), reason_of(error, case))
    else:
        print(name, "loaded")
"""
DESCRIBE = """
from harness.contract.registry import names
from harness.run.describe import describe_all

for row in describe_all(names()):
    print(row.name, row.problem)
"""


def modules_of(extra):
    return [module for module, its in EXTRAS.items() if its == extra]


def extras_of(name):
    """The extras whose modules a row's sources import."""
    files = [path for path in registry.sources(name) if path.is_relative_to(registry.FOLDER)]
    roots = {module.split(".")[0] for path in files if path.suffix == ".py" for module in imported(path)}
    return frozenset(EXTRAS[module] for module in roots & {*EXTRAS})


FRAMEWORKS = sorted({extra for name in registry.names() for extra in extras_of(name)})
NEEDS = {name: extras_of(name) for name in registry.names()}


@pytest.fixture
def without(tmp_path_factory):
    """Run a Python command as if the packages of these extras were not installed."""

    def run(extras, *arguments):
        folder = tmp_path_factory.mktemp("absent")
        absent = [module for extra in extras for module in modules_of(extra)]
        (folder / "sitecustomize.py").write_text(BLOCK.format(absent=absent))
        path = f"{folder}:{registry.ROOT}"
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.thorough
@pytest.mark.parametrize("extra", FRAMEWORKS)
def test_rows_that_need_an_extra_are_unavailable_and_name_it(without, extra):
    needing = [name for name, extras in NEEDS.items() if extra in extras]
    lines = without([extra], "-c", LOAD, *needing).stdout.splitlines()
    assert [line.split(" ", 2)[:2] for line in lines] == [[name, "unavailable"] for name in needing]
    for line in lines:
        module = next(module for module in modules_of(extra) if f"No module named '{module}" in line)
        assert line.endswith(f": pip install 'pairgrad[{extra}]'"), module


@pytest.mark.thorough
@pytest.mark.parametrize("extras", sorted({*NEEDS.values()}, key=sorted), ids=lambda extras: "-".join(sorted(extras)))
def test_rows_do_without_the_extras_that_they_do_not_import(without, extras):
    enough = [name for name, needed in NEEDS.items() if needed <= extras]
    if "enzyme" in extras:
        pytest.importorskip("enzyme_ad")
    ended = without({*EXTRAS.values()} - extras, "-c", LOAD, *enough)
    assert ended.stdout.splitlines() == [f"{name} loaded" for name in enough], ended.stderr


@pytest.mark.thorough
def test_without_any_extra_every_row_says_what_to_install(without):
    told = dict(line.split(" ", 1) for line in without({*EXTRAS.values()}, "-c", DESCRIBE).stdout.splitlines())
    assert {*told} == {*NEEDS}
    for name, problem in told.items():
        assert problem.endswith(tuple(f": pip install 'pairgrad[{extra}]'" for extra in NEEDS[name])), problem


@pytest.mark.thorough
def test_without_any_extra_a_row_in_numpy_is_checked(without):
    chosen = ("--impl", fake("right"), "--scenario", "published", "--n", "50", "--dtype", "float64")
    checked = without({*EXTRAS.values()}, "-m", "harness.cli", "check", *chosen)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.thorough
def test_reports_without_the_page_s_packages_say_that_it_is_missing(without, tmp_path):
    RecordFile(tmp_path / "results" / "one.jsonl").add(made_record("warp_adjoint"))
    out = tmp_path / "reports"
    ended = without(["page"], "-m", "harness.cli", "report", "--results", tmp_path / "results", "--out", out)
    assert ended.returncode == 0, ended.stderr
    assert "the page was not written: No module named 'plotly': pip install 'pairgrad[page]'" in ended.stdout
    assert (out / "report.md").is_file()
    assert not (out / "index.html").exists()
