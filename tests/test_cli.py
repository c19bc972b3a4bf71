"""The command line: exit codes, messages that say the way out, and a stranger's row from check to table."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner, Result
from selection import thorough

from harness.cli import main
from harness.contract import output
from harness.contract.protocol import DTYPES
from harness.contract.store import read_records
from harness.problems.sph2d import HARD_CASES

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "docs" / "template.py"


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
        (("bench", "--shard", "²/4"), ["²/4", "2/4"]),
        (("bench", "--budget", "nan"), ["nan", "from 0 on", "inf for no limit"]),
        (("bench", "--budget", "-1"), ["-1", "from 0 on"]),
        (("bench", "--within", "nan"), ["nan", "from 1 on"]),
        (("bench", "--timeout", "nan"), ["nan", "from 1 on"]),
        (("check", "--timeout", "nan"), ["nan", "from 1 on"]),
        (("check", "--jobs", "nan"), ["nan", "from 1 on"]),
        (("bench", "--rounds", "nan"), ["nan", "from 1 on"]),
        (("bench", "--rounds", "inf"), ["inf", "2^31"]),
        (("check", "--threads", "nan"), ["nan", "from 1 on"]),
        (("check", "--n", "nan"), ["nan", "2^31"]),
        (("bench", "--memory-limit", "nan"), ["nan", "8 EiB"]),
        (("bench", "--memory-limit", "1e308T"), ["1e308T", "8 EiB"]),
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


@pytest.mark.thorough
def test_template_of_the_docs_is_checked(tmp_path: Path) -> None:
    verdict_file, gradients = tmp_path / "verdict.json", tmp_path / "gradients"
    checked = run("check", "--impl", TEMPLATE, "--json", verdict_file, "--save", gradients)
    assert checked.exit_code == 0, checked.output
    verdict = json.loads(verdict_file.read_text())
    assert verdict["agree"]
    assert {record["scenario"] for record in verdict["records"]} == {"published", "clustered", "hard"}
    assert len(list(gradients.glob("template-*.npy"))) == 4
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


@pytest.mark.thorough
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


@pytest.mark.parametrize("option", ["--budget", "--timeout", "--within"])
def test_infinity_is_no_limit_and_what_is_ok_was_timed(tmp_path: Path, option: str) -> None:
    bench = ("bench", "--impl", TEMPLATE, "--n", "10", "--threads", "1", "--results", tmp_path)
    more = () if option == "--budget" else ("--budget", "0")
    ended = run(*bench, *more, option, "inf")
    assert ended.exit_code == 0, ended.output
    (record,) = read_records([tmp_path])
    assert record.outcome == "ok"
    assert record.gradient_samples_s


OUTPUTS = [
    (("check", "--impl", TEMPLATE, "--json"), "a file that can be written"),
    (("check", "--impl", TEMPLATE, "--save"), "a folder"),
    (("bench", "--impl", TEMPLATE, "--results"), "a folder"),
    (("report", "--out"), "a folder"),
    (("compare", "--markdown"), "a file that can be written"),
]


@pytest.mark.parametrize(("command", "way_out"), OUTPUTS)
@pytest.mark.parametrize("wrong", ["of the other kind", "below a file"])
def test_every_output_is_tried_before_anything_runs(
    tmp_path: Path,
    timed: Timed,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[object, ...],
    way_out: str,
    wrong: str,
) -> None:
    for work in ("CheckRunner", "TimeRunner", "reports.write", "comparing.compare"):
        monkeypatch.setattr(f"harness.cli.{work}", lambda *arguments: pytest.fail("it ran"))
    file = tmp_path / "file"
    file.write_text("mine")
    path = file / "below" if wrong == "below a file" else tmp_path if way_out != "a folder" else file
    more = {"report": ("--results", timed.results), "compare": (timed.results, timed.results)}
    result = run(*command, path, *more.get(str(command[0]), ()))
    assert result.exit_code == 2
    assert f"cannot write to {path}: " in result.output
    assert f"give {command[-1]} {way_out}" in result.output
    assert file.read_text() == "mine"


def fail_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on the disk is full."""

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(output, "write", full)


@pytest.mark.parametrize("option", ["--json", "--save"])
def test_a_failed_write_leaves_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    fail_to_write(monkeypatch)
    what = ("--n", "10", "--scenario", "published", "--dtype", "float64")
    result = run("check", "--impl", TEMPLATE, *what, option, tmp_path / "taken")
    assert result.exit_code == 1
    assert "all agree" in result.stdout
    assert result.output.index("all agree") < result.output.index(f"error: cannot write {tmp_path / 'taken'}")
    assert "No space left on device" in result.stderr


def test_a_failed_write_leaves_the_comparison(tmp_path: Path, timed: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_write(monkeypatch)
    result = run("compare", timed.results, timed.results, "--markdown", tmp_path / "new.md")
    assert result.exit_code == 1
    assert "my_module/published/1000" in result.stdout
    assert f"cannot write {tmp_path / 'new.md'}: No space left on device" in result.stderr


def test_a_record_that_cannot_be_written_is_shown_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_write(monkeypatch)
    result = run("bench", "--impl", TEMPLATE, "--n", "10", "--budget", "0", "--results", tmp_path)
    assert result.exit_code == 1
    assert "N = 10: published input" in result.stdout
    assert "(No space left on device); it holds the 0 records before" in result.stderr


def test_a_pipe_gets_the_verdict_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        what = ("--n", "10", "--scenario", "published", "--dtype", "float64")
        assert run("check", "--impl", TEMPLATE, *what, "--json", pipe).exit_code == 0
        assert reader.stdout is not None
        assert json.loads(reader.stdout.read())["agree"]
    assert pipe.is_fifo()


def test_a_pipe_gets_the_comparison_and_stays_a_pipe(tmp_path: Path, timed: Timed) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        assert run("compare", timed.results, timed.results, "--markdown", link).exit_code == 0
        assert reader.stdout is not None
        assert "my_module/published/1000" in reader.stdout.read()
    assert pipe.is_fifo()
    assert link.is_symlink()


NOT_UTF_8 = [
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"LC_ALL": "C"},
    {"PYTHONIOENCODING": "latin-1"},
]


@pytest.mark.parametrize(
    "environment", thorough(NOT_UTF_8, few=NOT_UTF_8[1:2]), ids=lambda variables: " ".join(variables)
)
def test_a_terminal_that_is_not_utf_8_gets_what_it_can_show(timed: Timed, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "harness.cli", "compare", timed.results, timed.results]
    ended = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=False, cwd=ROOT)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"my_module/published/1000" in ended.stdout
    assert b"1.00" in ended.stdout


@pytest.mark.thorough
def test_a_path_with_a_byte_that_is_no_utf_8_works_everywhere(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"odd\xff")
    folder.mkdir()
    module, results, verdict = folder / "mine.py", folder / "results", folder / "verdict.json"
    shutil.copy(TEMPLATE, module)
    only = ("--n", "10", "--threads", "1")
    assert run("list", "--impl", module).exit_code == 0
    assert run("check", "--impl", module, *only, "--scenario", "published", "--json", verdict).exit_code == 0
    assert json.loads(verdict.read_bytes())["agree"]
    timed = run("bench", "--impl", module, *only, "--budget", "0", "--results", results)
    assert timed.exit_code == 0
    assert "1 record in " in timed.output
    assert [record.outcome for record in read_records([results])] == ["ok"]
    assert "nothing left" in run("bench", "--impl", module, *only, "--results", results, "--resume").output
    assert run("report", "--results", results, "--out", folder / "reports").exit_code == 0
    assert run("compare", results, results, "--markdown", folder / "new.md").exit_code == 0


def test_a_path_that_is_no_utf_8_comes_into_a_record_written_out(tmp_path: Path) -> None:
    module = tmp_path / os.fsdecode(b"odd\xff") / "mine.py"
    module.parent.mkdir()
    module.write_text("raise RuntimeError(__file__)")
    assert run("bench", "--impl", module, "--n", "10", "--results", tmp_path / "results").exit_code == 1
    (record,) = read_records([tmp_path / "results"])
    assert r"odd\udcff/mine.py" in str(record.reason)
    assert r"odd\udcff/mine.py" in run("list", "--impl", module).output


def test_names_that_are_no_utf_8_are_refused_with_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / os.fsdecode(b"m\xffine.py")
    shutil.copy(TEMPLATE, module)
    result = run("check", "--impl", module)
    assert result.exit_code == 2
    assert "is no UTF-8: rename the file" in result.output
    monkeypatch.setattr(tempfile, "tempdir", os.fsdecode(b"/tmp/odd\xff"))
    result = run("check", "--impl", TEMPLATE)
    assert result.exit_code == 2
    assert "set TMPDIR to another" in result.output


LINE = "1 of 1  my_module/published/1000/cpu/float64/"


def test_output_that_is_no_terminal_gets_a_line_for_each_case(timed: Timed) -> None:
    line = timed.result.stdout.splitlines()[0]
    assert line.startswith(LINE)
    assert re.search(r"  gradient [\d.]+ .?s  ok$", line)


def test_a_check_has_a_line_for_each_case_and_quiet_has_none() -> None:
    command = ("check", "--impl", TEMPLATE, "--n", "10", "--scenario", "published", "--threads", "1")
    first, second, *rest = run(*command).stdout.splitlines()
    assert (first[:7], second[:7]) == ("1 of 2 ", "2 of 2 ")
    assert {first[8:], second[8:]} == {f"template/published/10/cpu/{dtype}/1t  ok" for dtype in DTYPES}
    assert rest[0].startswith("Same gradient from all")
    quiet = run(*command, "--quiet")
    assert f"{first[:7]} template" not in quiet.output
    assert quiet.stdout.startswith("Same gradient from all")
    assert "all agree" in quiet.stdout


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
