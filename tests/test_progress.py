"""What is told while a plan runs: a display on a terminal, a line for each case elsewhere, nothing if quiet."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from harness import terminal
from harness.contract.protocol import Case
from harness.contract.records import Outcome, Record, case_id
from harness.run.plan import Planned


class Terminal(io.StringIO):
    """What is written to it, as to a terminal."""

    def isatty(self) -> bool:
        return True


def planned(n: int) -> Planned:
    return Planned(Case(implementation="a_row", scenario="published", n=n), 0)


def record(n: int, outcome: Outcome, gradient_s: float | None = None) -> Record:
    case = planned(n).case
    known = {"scenario": case.scenario, "n": n, "device": case.device, "dtype": case.dtype, "threads": case.threads}
    return Record(
        outcome=outcome, gradient_s=gradient_s, case_id=case_id(case), implementation=case.implementation, **known
    )


LINES = [
    "1 of 2  a_row/published/1000/cpu/float64/1t  gradient 12.3 ms  ok",
    "2 of 2  a_row/published/100000/cpu/float64/1t  out-of-memory-host",
]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch):
    """Run a plan of two cases; what its standard output and standard error got."""
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)

    def tell(output: io.StringIO, errors: io.StringIO, quiet: bool = False) -> tuple[str, str]:
        monkeypatch.setattr(sys, "stdout", output)
        monkeypatch.setattr(sys, "stderr", errors)
        with terminal.progress([planned(1000), planned(100_000)], quiet) as progress:
            progress.phase(planned(1000), "gradient")
            progress.finished(planned(1000), record(1000, "ok", 0.0123))
            progress.finished(planned(100_000), record(100_000, "out-of-memory-host"))
        return output.getvalue(), errors.getvalue()

    return tell


def test_a_log_has_a_line_for_each_case(told) -> None:
    output, errors = told(io.StringIO(), io.StringIO())
    assert (output.splitlines(), errors) == (LINES, "")


def test_a_pipe_beside_a_terminal_has_the_lines_and_the_terminal_is_left_alone(told) -> None:
    output, errors = told(io.StringIO(), Terminal())
    assert (output.splitlines(), errors) == (LINES, "")


def test_errors_that_go_to_a_file_have_the_lines(told) -> None:
    output, errors = told(Terminal(), io.StringIO())
    assert (output, errors.splitlines()) == ("", LINES)


def test_a_terminal_has_the_display_and_each_surprise(told) -> None:
    output, errors = told(Terminal(), Terminal())
    assert output == ""
    assert "2/2" in errors
    assert "a_row/published/100000/cpu/float64/1t" in errors
    assert not any(line in errors for line in LINES)


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_quiet_is_silent(told, kind: type[io.StringIO]) -> None:
    assert told(kind(), kind(), quiet=True) == ("", "")


def test_a_line_is_there_before_the_next_case_runs(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "log").open("w") as log:
        monkeypatch.setattr(terminal, "standard_output", lambda: Console(file=log, width=100))
        with terminal.progress([planned(1000)]) as progress:
            progress.finished(planned(1000), record(1000, "ok", 0.0123))
            assert "gradient 12.3 ms  ok" in (tmp_path / "log").read_text()
