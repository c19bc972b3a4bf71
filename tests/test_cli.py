"""The command line: exit codes, messages that say the way out, and a stranger's row from check to table."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli import main
from harness.records import read_records

TEMPLATE = Path(__file__).parent.parent / "docs" / "template.py"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


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


def test_template_of_the_docs_is_checked_timed_and_tabulated(tmp_path: Path) -> None:
    module = tmp_path / "my_module.py"
    shutil.copy(TEMPLATE, module)
    verdict_file, gradients, results = tmp_path / "verdict.json", tmp_path / "gradients", tmp_path / "results"
    checked = run("check", "--impl", module, "--json", verdict_file, "--save", gradients)
    assert checked.exit_code == 0, checked.output
    verdict = json.loads(verdict_file.read_text())
    assert verdict["agree"]
    assert {record["scenario"] for record in verdict["records"]} == {"published", "clustered", "hard"}
    assert len(list(gradients.glob("my_module_*.npy"))) == 4
    timed = run("bench", "--impl", module, "--n", "1000", "--budget", "0", "--results", results)
    assert timed.exit_code == 0, timed.output
    assert "my_module" in timed.output
    (record,) = read_records([results])
    assert record.outcome == "ok"
    assert record.true_pairs == 31_496
    assert record.gradient_samples_s is not None
    assert len(record.gradient_samples_s) >= 5
    reported = run("report", "--results", results, "--out", tmp_path / "reports")
    assert reported.exit_code == 0, reported.output
    assert run("report", "--results", results, "--out", tmp_path / "reports", "--check").exit_code == 0


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
