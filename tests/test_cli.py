"""The command line: exit codes, messages that say the way out, and a stranger's row from check to table."""

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner, Result

from harness.check.hard_cases import HARD_CASES
from harness.cli import main
from harness.contract.protocol import DTYPES
from harness.contract.store import read_records

TEMPLATE = Path(__file__).parent.parent / "docs" / "template.py"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


class Timed(NamedTuple):
    """The template of the docs, timed once."""

    command: tuple[object, ...]
    result: Result
    results: Path


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Timed:
    folder = tmp_path_factory.mktemp("timed")
    module, results = folder / "my_module.py", folder / "results"
    shutil.copy(TEMPLATE, module)
    command = ("bench", "--impl", module, "--n", "1000", "--budget", "0", "--results", results)
    return Timed(command, run(*command), results)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check", "--impl", "nope"), ["'nope'", "warp_adjoint", "path of a Python module"]),
        (("check", "--impl", "missing.py"), ["'missing.py'"]),
        (("check", "--n", "1.5"), ["'1.5'", "1e5"]),
        (("check", "--n", "-3"), ["'-3'"]),
        (("check", "--n", "many"), ["'many'"]),
        (("check", "--n", "1e12"), ["2^31"]),
        (("check", "--device", "tpu"), ["tpu", "cuda"]),
        (("check", "--dtype", "float16"), ["float16", "float32"]),
        (("check", "--threads", "0"), ["0"]),
        (("check", "--threads", "4096"), ["4096", "cores"]),
        (("bench", "--shard", "3/2"), ["3/2", "1 <= I <= K"]),
        (("bench", "--memory-limit", "lots"), ["lots", "8G"]),
        (("bench", "--scenario", "hard"), ["hard", "published"]),
        (("bench", "--profile", "huge"), ["huge", "quick"]),
        (("bench", "--results", ""), ["''", "--results", "no file or folder"]),
        (("report", "--out", ""), ["''", "--out", "no file or folder"]),
        (("report", "--results", "nowhere"), ["nowhere"]),
        (("compare", "nowhere", "nowhere"), ["nowhere"]),
        (("frobnicate",), ["frobnicate"]),
    ],
)
def test_a_users_mistake_is_told_without_a_traceback(arguments: tuple[str, ...], words: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    for word in words:
        assert word in result.output.replace("\n", " ")
    assert "Traceback" not in result.output


def test_dry_run_prints_the_plan_and_runs_nothing(tmp_path: Path) -> None:
    result = run("bench", "--dry-run", "--impl", "warp_adjoint", "--results", tmp_path / "r")
    assert result.exit_code == 0
    assert "warp_adjoint/published/100000/cpu/float64" in result.output
    assert "3 cases" in result.output
    assert not (tmp_path / "r").exists()


def test_one_case_is_no_plural(tmp_path: Path) -> None:
    result = run("bench", "--dry-run", "--impl", "warp_adjoint", "--n", "10", "--results", tmp_path / "r")
    assert result.output.splitlines()[-1] == "1 case"


@pytest.mark.parametrize("below", ["", "folder"])
@pytest.mark.parametrize("command", [("bench", "--impl", TEMPLATE, "--n", "10", "--results"), ("report", "--out")])
def test_a_file_is_no_folder_to_write_to(tmp_path: Path, timed: Timed, command: tuple[object, ...], below: str) -> None:
    taken = tmp_path / "taken.md"
    taken.write_text("mine")
    more = ("--results", timed.results) if command[0] == "report" else ()
    result = run(*command, taken / below, *more)
    assert result.exit_code == 2
    why = "Not a directory" if below else "it is a file"
    assert f"cannot write to {taken / below}: {why}; give {command[-1]} a folder" in result.output
    assert "Errno" not in result.output
    assert taken.read_text() == "mine"


def test_template_of_the_docs_is_checked(tmp_path: Path) -> None:
    verdict_file, gradients = tmp_path / "verdict.json", tmp_path / "gradients"
    checked = run("check", "--impl", TEMPLATE, "--json", verdict_file, "--save", gradients)
    assert checked.exit_code == 0, checked.output
    verdict = json.loads(verdict_file.read_text())
    assert verdict["agree"]
    assert {record["scenario"] for record in verdict["records"]} == {"published", "clustered", "hard"}
    assert len(list(gradients.glob("template_*.npy"))) == 4
    inputs = {dtype: sum(dtype in case.dtypes for case in HARD_CASES) for dtype in DTYPES}
    for dtype in DTYPES:
        below = checked.output.split(f"hard inputs, {dtype}, cpu")[1]
        assert next(line.split()[1] for line in below.splitlines() if "template" in line) == str(inputs[dtype])


def test_template_of_the_docs_is_timed_and_tabulated(timed: Timed) -> None:
    assert timed.result.exit_code == 0, timed.result.output
    assert "my_module" in timed.result.output
    (record,) = read_records([timed.results])
    assert record.outcome == "ok"
    assert record.true_pairs == 31_496
    assert record.gradient_samples_s is not None
    assert len(record.gradient_samples_s) >= 5


def test_bench_says_where_its_records_are_and_what_to_do_with_them(timed: Timed) -> None:
    lines = timed.result.output.splitlines()
    assert f"1 record in {timed.results}" in lines
    assert lines[-1] == f"tables and figures: pairgrad report --results {timed.results} --out reports/local"


def test_nothing_is_left_to_resume(timed: Timed) -> None:
    result = run(*timed.command, "--resume")
    assert result.exit_code == 0, result.output
    assert f"nothing left to run; 1 record in {timed.results}" in result.output.splitlines()
    assert "my_module" in result.output
    assert len(read_records([timed.results])) == 1


def test_report_says_what_to_open(timed: Timed, tmp_path: Path) -> None:
    out = tmp_path / "reports"
    result = run("report", "--results", timed.results, "--out", out)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [f"reports in {out}", f"open {out / 'index.html'}"]
    assert run("report", "--results", timed.results, "--out", out, "--check").exit_code == 0


def test_without_records_there_is_nothing_to_compare_or_report(timed: Timed, tmp_path: Path) -> None:
    for command in (
        ("compare", tmp_path, timed.results),
        ("compare", timed.results, tmp_path),
        ("report", "--results", tmp_path, "--out", tmp_path / "reports"),
    ):
        result = run(*command)
        assert result.exit_code == 2
        assert f"no records in {tmp_path}" in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_module_that_does_not_load_is_told_once(tmp_path: Path) -> None:
    module = tmp_path / "broken.py"
    module.write_text("def broken(:")
    result = run("check", "--impl", module)
    assert result.exit_code == 1
    assert result.output.count("SyntaxError") == 1
    assert "problem broken, in all 6 cases: error: SyntaxError" in result.output
    assert "Same gradient" not in result.output
    listed = run("list", "--impl", module)
    assert listed.exit_code == 1
    assert "SyntaxError" in listed.output


def test_a_row_asked_for_of_which_nothing_is_timed_fails(tmp_path: Path) -> None:
    cuda = run("bench", "--impl", TEMPLATE, "--n", "1000", "--device", "cuda", "--results", tmp_path / "results")
    assert cuda.exit_code == 1
    assert "problem template: nothing was timed: unsupported" in cuda.output
    assert "template: unsupported: runs on cpu only" in cuda.output


def test_template_has_at_most_fifty_lines() -> None:
    assert len(TEMPLATE.read_text().splitlines()) <= 50


def test_a_wrong_row_fails_the_gate_with_particle_values_and_hint(tmp_path: Path) -> None:
    module = tmp_path / "halved.py"
    module.write_text(TEMPLATE.read_text().replace("pull = (2 * p.mass", "pull = (1 * p.mass"))
    result = run("check", "--impl", module, "--scenario", "published", "--dtype", "float64")
    assert result.exit_code == 1
    words = result.output.replace("\n", " ")
    assert "gradient of particle" in words
    assert "expected" in words
    assert "scaled by 0.5" in words


def test_a_required_row_that_cannot_run_fails_the_gate(tmp_path: Path) -> None:
    module = tmp_path / "absent.py"
    module.write_text("import a_package_nobody_has\n" + TEMPLATE.read_text())
    result = run("check", "--impl", module, "--scenario", "published", "--dtype", "float64")
    assert result.exit_code == 1
    assert "unavailable" in result.output


def test_a_run_without_any_checked_case_fails_the_gate() -> None:
    result = run("check", "--impl", TEMPLATE, "--device", "cuda", "--scenario", "published", "--dtype", "float64")
    assert result.exit_code == 1
    assert "nothing was checked" in result.output.replace("\n", " ")


def test_env_prints_json_and_a_folder_name() -> None:
    assert json.loads(run("env").output)["packages"]["numpy"]
    name = run("env", "--name").output.strip()
    assert name == name.lower()
    assert " " not in name
