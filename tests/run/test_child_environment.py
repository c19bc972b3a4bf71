"""A child's environment is known: no switch of the caller's reaches it; what is given on purpose does, recorded."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_cases import FAKES, copy_of_harness, fake, planned

from harness.cli import main
from harness.contract.protocol import Case
from harness.contract.records import case_id
from harness.contract.store import read_records
from harness.run import machine
from harness.run.child import LOCALE, LOCATIONS, OURS, ask
from harness.run.plan import Narrowing, plan
from harness.run.process import TAG
from harness.run.resume import split
from harness.run.runner import CheckRunner, TimeRunner
from harness.run.settings import CheckSettings, TimeSettings

SWITCHES = {
    "NUMBA_DISABLE_JIT": "1",
    "NUMBA_OPT": "0",
    "JAX_DISABLE_JIT": "1",
    "XLA_FLAGS": "--xla_cpu_enable_fast_math=true",
    "TORCHDYNAMO_DISABLE": "1",
    "TORCH_LOGS": "all",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    "WARP_MODE": "debug",
    "OMP_SCHEDULE": "dynamic,1",
    "GOMP_SPINCOUNT": "0",
    "KMP_BLOCKTIME": "0",
    "MKL_CBWR": "COMPATIBLE",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "ENZYME_PRINT": "1",
    "OPENBLAS_VERBOSE": "2",
    "NVIDIA_TF32_OVERRIDE": "1",
    "CUDA_LAUNCH_BLOCKING": "1",
    "PYTHONOPTIMIZE": "1",
    "PYTHONHASHSEED": "7",
    "PYTHONMALLOC": "debug",
    "MALLOC_ARENA_MAX": "1",
    "LD_PRELOAD": "",
    "A_FRAMEWORK_NOBODY_KNOWS_YET": "1",
}
PASSED = {
    "LD_LIBRARY_PATH": "/nowhere/lib",
    "CUDA_HOME": "/nowhere/cuda",
    "LC_NUMERIC": "C",
    "OPENBLAS_CORETYPE": "HASWELL",
    "HOME": "/nowhere/home",
}


@pytest.fixture
def caller(monkeypatch):
    """A caller's environment full of switches."""
    for name, value in (SWITCHES | PASSED).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bench():
    """Run a fake through a runner of its own: what others share would remember these callers' environments."""

    def run(name, **fields):
        with TimeRunner(TimeSettings(budget_s=0.0), "test") as runner:
            return next(iter(runner.run([planned(name, **fields)]))).record

    return run


def told(record):
    return json.loads(record.reason)


def test_no_switch_of_the_caller_reaches_a_worker(bench, caller):
    record = bench("tells_where_it_is")
    given = told(record)["environment"]
    assert not SWITCHES.keys() & given.keys()
    known = {*LOCATIONS, *LOCALE, *OURS, "OPENBLAS_CORETYPE", TAG}
    assert {name for name in given if name not in known and not name.startswith("LC_")} == set()


def test_locations_locale_and_what_openblas_needs_reach_it(bench, caller):
    given = told(bench("tells_where_it_is"))["environment"]
    assert PASSED.items() <= given.items()
    assert given["PATH"] == os.environ["PATH"]


def test_the_one_switch_passed_on_is_recorded_by_parent_and_worker(bench, caller):
    assert machine.environment()["flags"] == {"OPENBLAS_CORETYPE": "HASWELL"}
    assert bench("tells_where_it_is").observed["flags"]["OPENBLAS_CORETYPE"] == "HASWELL"


def test_a_file_of_switches_in_the_caller_s_folder_is_not_read(bench, monkeypatch, tmp_path):
    """Numba takes its switches from .numba_config.yaml of the folder it is started in, too."""
    monkeypatch.chdir(tmp_path)
    assert Path(told(bench("tells_where_it_is"))["folder"]) != tmp_path


def test_relative_module_paths_of_the_caller_still_mean_the_same(bench, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "here")
    assert str(tmp_path / "here") in told(bench("tells_where_it_is"))["environment"]["PYTHONPATH"].split(os.pathsep)


def test_every_other_child_starts_so_too(caller, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(FAKES))
    given = ask("answers", of=dict, variables={"NUMBA_OPT": "2"})
    assert not (SWITCHES.keys() - {"NUMBA_OPT"}) & given.keys()
    assert given["NUMBA_OPT"] == "2"


def test_a_child_that_does_not_answer_says_how_it_ended(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(FAKES))
    assert ask("executes", "print('all is well')", of=dict).words == "crashed: all is well"
    assert ask("executes", "pass", of=dict).words == "crashed: exit status 0"
    assert ask("executes", "import time; time.sleep(60)", of=dict, limit_s=1.0).words == "timeout: exit status -9"


def test_what_is_given_on_purpose_is_set_recorded_and_part_of_the_case(bench):
    record = bench("tells_where_it_is", variables={"NUMBA_OPT": "2"})
    assert told(record)["environment"]["NUMBA_OPT"] == "2"
    assert (record.variables, record.observed["flags"]["NUMBA_OPT"]) == ({"NUMBA_OPT": "2"}, "2")
    assert record.case_id == "tells_where_it_is/published/50/cpu/float64/1t/$NUMBA_OPT=2"
    assert record.case.variables == {"NUMBA_OPT": "2"}


def test_two_settings_are_two_cases_whatever_they_hold():
    given = [{}, {"A": "1"}, {"A": "2"}, {"A": "1/$B=2"}, {"A": "1", "B": "2"}, {"A": ""}, {"A": "1%2F$B=2"}]
    cases = [Case(implementation="right", scenario="published", n=1, variables=each) for each in given]
    assert len({case_id(case) for case in cases}) == len(given)
    same = Case(implementation="right", scenario="published", n=1, options={"A": 1.0})
    assert case_id(same) not in {case_id(case) for case in cases}


def test_resume_does_not_take_one_setting_for_another(bench):
    record = bench("right", variables={"NUMBA_OPT": "2"})
    for variables, is_left in (({"NUMBA_OPT": "2"}, False), ({"NUMBA_OPT": "3"}, True), ({}, True)):
        whole = [planned("right", variables=variables)]
        assert split(whole, [record], machine.environment())[0] == (whole if is_left else [])


def test_a_check_keeps_what_a_switch_compiled_to_itself():
    """Numba's cache, for one, is not keyed by its level of optimisation."""
    with CheckRunner(CheckSettings(), "test") as runner:
        plan = [planned("tells_where_it_is", variables=variables) for variables in ({}, {"NUMBA_OPT": "0"})]
        plain, given = (told(each.record)["environment"] for each in runner.run(plan))
    assert plain["NUMBA_CACHE_DIR"] != given["NUMBA_CACHE_DIR"]
    assert given["NUMBA_CACHE_DIR"].startswith(given["TMPDIR"])


def test_every_case_of_a_plan_has_what_was_given():
    whole = plan("full", ["a", "jax_neighbor_list"], Narrowing(variables={"NUMBA_OPT": "2"}))
    assert {tuple(each.case.variables.items()) for each in whole} == {(("NUMBA_OPT", "2"),)}


def test_the_command_line_passes_it_on(tmp_path):
    row, results = fake("tells_where_it_is"), tmp_path / "results"
    given = ("--env", "NUMBA_OPT=2", "--env", "XLA_FLAGS=--a=1 --b=/c")
    run(*("bench", "--impl", row, "--n", "10", "--results", results), *given)
    (record,) = read_records([results])
    assert record.variables == {"NUMBA_OPT": "2", "XLA_FLAGS": "--a=1 --b=/c"}
    assert told(record)["environment"]["XLA_FLAGS"] == "--a=1 --b=/c"
    verdict = tmp_path / "verdict.json"
    run("check", "--impl", row, "--scenario", "published", "--dtype", "float64", *given, "--json", verdict)
    (checked,) = json.loads(verdict.read_text())["records"]
    assert checked["variables"] == record.variables


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("NUMBA_OPT", "'NUMBA_OPT' is no setting NAME=VALUE of a variable"),
        ("=1", "'=1' is no setting NAME=VALUE"),
        ("A B=1", "'A B=1' is no setting NAME=VALUE"),
        ("TMPDIR=/tmp", "TMPDIR is set by pairgrad itself"),
        ("OMP_NUM_THREADS=1", "OMP_NUM_THREADS is set by pairgrad itself"),
        ("PYTHONPATH=.", "PYTHONPATH is set by pairgrad itself"),
        ("A=\x1b[31m", "in characters that can be shown"),
        ("A=\udc80", "in characters that can be shown"),
        ("WARP_CACHE_PATH=/tmp", "WARP_CACHE_PATH is set by pairgrad itself"),
    ],
)
def test_what_sets_no_variable_is_a_usage_error(given, words):
    result = run("check", "--env", given)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())


@pytest.mark.thorough
def test_children_of_a_checkout_that_is_not_installed_run_its_own_modules(tmp_path, monkeypatch):
    """The interpreter finds `harness` in the folder it is started in; a child has another."""
    checkout, verdict = tmp_path / "a checkout", tmp_path / "verdict.json"
    copy_of_harness(checkout)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    what = ("--impl", fake("tells_where_it_is"), "--scenario", "published", "--dtype", "float64")
    command = [sys.executable, "-m", "harness.cli", "check", *what, "--json", str(verdict)]
    subprocess.run(command, cwd=checkout, check=False, capture_output=True)
    (record,) = json.loads(verdict.read_text())["records"]
    assert json.loads(record["reason"])["harness"] == str(checkout / "harness" / "__init__.py")


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])
