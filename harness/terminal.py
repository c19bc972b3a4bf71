"""What `list`, `check`, `bench` and `compare` print, within 100 columns; rich drops colours under NO_COLOR."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich import box
from rich import progress as bars
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from harness.console import printable_lines, say, standard_output
from harness.contract.encoding import printable
from harness.contract.protocol import DEVICES
from harness.contract.records import Record, case_id
from harness.contract.samples import NOISY_SPREAD
from harness.problems.sph2d import SCENARIOS
from harness.report import tables, text
from harness.report.compare import QUANTITIES, summary
from harness.report.data import Setting, by_setting, cases, fastest_first
from harness.report.documents import describe
from harness.report.published import AGREEMENT_N, PublishedTiming, published
from harness.report.text import Columns
from harness.run.describe import Availability
from harness.run.plan import Planned

HOW_TO_READ = "docs/how_to_read_the_numbers.md"
_RESULT_WIDTH = 11

_AGREEMENT: Columns = {
    "implementation": ("stacked_name", str),
    "loss": ("loss", text.exact),
    "‖g‖₂": ("grad_norm", text.norm),
    "max rel. diff": ("max_rel_diff", text.difference),
    "result": ("result", str),
}
_MANY_INPUTS: Columns = {
    "implementation": ("stacked_name", str),
    "inputs": ("inputs", text.words),
    "worst scaled diff": ("scaled_diff", text.difference),
    "result": ("result", str),
}
"""Of many inputs in one record: the gradient of the worst may vanish, so a difference relative to it says nothing."""
_TIMING: Columns = {
    "implementation": ("stacked_name", str),
    "forward": ("forward_s", text.seconds),
    "gradient": ("gradient_s", text.seconds),
    "grad/fwd": ("gradient_over_forward", text.times),
    "x best": ("x_of_best", text.times),
    "slots": ("pair_slots", text.short_count),
    "compile": ("compile_s", text.seconds),
    "memory": ("peak_bytes", text.size),
    "result": ("result", str),
}
_LEAST = ("memory", "compile", "slots", "grad/fwd", "x best", "‖g‖₂", "loss")
"""Columns to leave out where the terminal is narrow, in this order."""
_WORDS = frozenset({"implementation", "name", "framework", "what it is", "case", "verdict", "result", *DEVICES})
_FOLDED = frozenset({"implementation", "what it is", "case"})
"""Columns that may be broken where all else fails; figures never are."""
_STYLES = {"slower": "red", "broken": "red", "faster": "green", "mended": "green", "ambiguous": "yellow"}


class Progress:
    """What is told of a plan while it runs: nothing, if quiet."""

    def phase(self, planned: Planned, phase: str) -> None:
        """Something is being done."""

    def finished(self, planned: Planned, record: Record) -> None:
        """A case has its record."""


class _Display(Progress):
    """On a terminal: what runs, for how long, what is left, and each surprise."""

    def __init__(self, display: bars.Progress, total: int) -> None:
        self._display = display
        self._task = display.add_task("starting", total=total)

    def phase(self, planned: Planned, phase: str) -> None:
        self._display.update(self._task, description=f"{escape(printable(case_id(planned.case)))}  [dim]{phase}[/]")

    def finished(self, planned: Planned, record: Record) -> None:
        self._display.advance(self._task)
        if not record.is_expected:
            say(self._display.console, record.case_id, mark=f"[red]{record.outcome}[/] ")


class _Log(Progress):
    """In a file or a pipe: a line for each case."""

    def __init__(self, console: Console, total: int) -> None:
        self._console, self._total, self._done = console, total, 0

    def finished(self, planned: Planned, record: Record) -> None:
        self._done += 1
        gradient = f"  gradient {text.seconds(record.gradient_s)}" if record.gradient_s is not None else ""
        say(self._console, f"{self._done} of {self._total}  {record.case_id}{gradient}  {record.outcome}")


@contextmanager
def progress(planned: Sequence[Planned], quiet: bool = False) -> Iterator[Progress]:
    """Tell how far a plan has come until it is left.

    On a terminal there is a display, on standard error; where output goes elsewhere, a line for each finished case.
    """
    output, errors = standard_output(), Console(stderr=True)
    if quiet:
        yield Progress()
    elif not (output.is_terminal and errors.is_terminal):
        yield _Log(errors if output.is_terminal else output, len(planned))
    else:
        columns = (
            bars.SpinnerColumn(),
            bars.MofNCompleteColumn(),
            bars.BarColumn(bar_width=20),
            bars.TimeElapsedColumn(),
            bars.TextColumn("{task.description}"),
        )
        with bars.Progress(*columns, console=errors, transient=True) as display:
            yield _Display(display, len(planned))


@dataclass(frozen=True)
class _Line:
    """Cells of a table by header, and the style of them all."""

    cells: Mapping[str, str]
    style: str = ""


@dataclass(frozen=True)
class _Sheet:
    """A table and its title, which has a line of its own; as many columns as fit where it is printed.

    Attributes:
        headers: of all columns.
        lines: of the table; missing cells are empty.
        below: further lines, under a rule.
    """

    title: str
    headers: Sequence[str]
    lines: Sequence[_Line]
    below: Sequence[_Line] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unbounded = options.update_width(1000)
        shown = list(self.headers)
        for least in _LEAST:
            if Measurement.get(console, unbounded, self._table(shown)).maximum <= options.max_width:
                break
            shown = [header for header in shown if header != least]
        yield Text(printable(self.title), style="bold")
        yield self._table(shown)

    def _table(self, shown: Sequence[str]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for header in shown:
            table.add_column(
                header,
                justify="left" if header in _WORDS else "right",
                no_wrap=header not in _FOLDED,
                overflow="fold",
            )
        for section in filter(None, (self.lines, self.below)):
            table.add_section()
            for line in section:
                cells = (line.cells.get(header, "") for header in shown)
                table.add_row(*(Text(printable_lines(cell)) for cell in cells), style=line.style)
        return table


def agreement_table(records: Iterable[Record]) -> RenderableType:
    """The study's "Same gradient from all", one table per input, device, dtype; its own printed lines below."""
    found = _told(records)
    parts: list[RenderableType] = []
    for setting, n, shown in _groups(found):
        sized = SCENARIOS[setting.scenario].sized
        inputs = f"{setting.scenario}, N = {n:,}" if sized else f"{setting.scenario} inputs"
        title = f"Same gradient from all: {inputs}, {setting.dtype}, {setting.device}"
        parts += _sheets(title, _AGREEMENT if sized else _MANY_INPUTS, shown, _study_agreement(setting, n))
    return Group(*parts, *_foreseen(found))


def timing_tables(records: Iterable[Record]) -> RenderableType:
    """One table per setting and N, fastest gradient first; failures last."""
    found = _told(records)
    parts: list[RenderableType] = []
    for setting, n, shown in _groups(found):
        title = f"N = {n:,}: {describe(setting)}, {setting.hardware}"
        study = [_study_timing(line) for line in tables.study_timings(setting, n)]
        parts += _sheets(title, _TIMING, fastest_first(shown), study)
    return Group(*parts, *_foreseen(found))


def advice(records: Iterable[Record], results: Path, reports: Path) -> list[str]:
    """What there is to say of the timing tables: how far to trust them, what the columns are, what to do next.

    Args:
        records: that the tables show.
        results: folder they are in.
        reports: folder to suggest for reports.
    """
    timed = cases(records).query("timed")
    noisy = int(timed["noisy"].sum())
    lines = []
    if noisy:
        lines.append(
            f"{noisy} of {counted(len(timed), 'case')} noisy (spread above {100 * NOISY_SPREAD:.0f} %): "
            "the machine was busy, small differences mean nothing"
        )
    if len(timed):
        command = shlex.join(["pairgrad", "report", "--results", str(results), "--out", str(reports)])
        lines += [f"columns: {HOW_TO_READ}", f"tables and figures: {command}"]
    return lines


def availability_table(rows: Sequence[Availability]) -> RenderableType:
    """Rows, who computes them, and in which precisions they can run here on each device; what is missing is below."""
    lines = []
    names, reasons = [], []
    for row in rows:
        framework, about = ("", "not importable here")
        if row.description:
            framework, about = row.description.framework, row.description.title
        devices: dict[str, str] = {device: _availability(row, device) for device in DEVICES}
        lines.append(_Line({"name": row.name, "framework": framework, "what it is": about, **devices}))
        for reason in (row.problem, *(f"{d}: {why}" for d, why in row.missing.items() if why)):
            if reason:
                names.append(row.name)
                reasons.append(reason)
    return Group(_Sheet("Rows", ("name", "framework", "what it is", *DEVICES), lines), *_reasons(names, reasons))


def comparison_table(comparisons: pd.DataFrame) -> RenderableType:
    """Verdict of every case and how its medians changed; what there is to say of a case stands below."""
    lines = []
    for c in comparisons.itertuples():
        changes = {name: getattr(c, name) for name in QUANTITIES}
        ratios = {name: text.times(change.ratio) if change else text.DASH for name, change in changes.items()}
        lines.append(_Line({"case": c.case_id, "verdict": c.verdict, **ratios}, _STYLES.get(c.verdict, "")))
    told = comparisons[comparisons["reason"] != ""]
    sheet = _Sheet("New against old", ("case", "verdict", *QUANTITIES), lines)
    return Group(sheet, *_reasons(told["case_id"], told["reason"]), Text(summary(comparisons)))


def counted(number: int, noun: str) -> str:
    """A number and what it counts: 1 record, 2 records."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _told(records: Iterable[Record]) -> pd.DataFrame:
    """Cases with columns of text: name, name over two lines, how the case ended, how many inputs were right."""
    found = cases(records)
    varied = found["variant"] != ""
    return found.assign(
        name=found["implementation"] + (" (" + found["variant"] + ")").where(varied, ""),
        stacked_name=found["implementation"] + ("\n(" + found["variant"] + ")").where(varied, ""),
        result=[_result(case) for case in found.itertuples()],
        inputs=found["reason"].str.extract(r"^(\d+) inputs", expand=False),
    )


def _groups(found: pd.DataFrame) -> Iterator[tuple[Setting, int, pd.DataFrame]]:
    for setting, group in by_setting(found):
        for n, shown in group.groupby("n"):
            yield setting, n, shown


def _sheets(title: str, columns: Columns, shown: pd.DataFrame, below: Sequence[_Line]) -> Iterator[_Sheet]:
    """The table of some cases, in which a failure keeps its line; none where there is no figure in it."""
    styles = ["" if case.ok else "dim" if case.is_expected else "red" for case in shown.itertuples()]
    cells = [dict(zip(columns, line, strict=True)) for line in text.cells(shown, columns)]
    figures = [header for header in columns if header not in _WORDS]
    if any(line[header] != text.DASH for line in cells for header in figures):
        yield _Sheet(title, list(columns), [_Line(*line) for line in zip(cells, styles, strict=True)], below)


def _study_agreement(setting: Setting, n: int) -> list[_Line]:
    """What the study printed in its own table, where it is this one."""
    if (setting.scenario, n, setting.dtype) != ("published", AGREEMENT_N, "float64"):
        return []
    return [
        _Line(
            {
                "implementation": f"study: {line.system}",
                "loss": line.loss,
                "‖g‖₂": line.grad_norm,
                "max rel. diff": line.max_rel_diff,
            },
            "dim",
        )
        for line in published().agreement
    ]


def _study_timing(line: PublishedTiming) -> _Line:
    cells = {
        "implementation": f"study: {line.system}",
        "forward": text.seconds(line.forward_s),
        "gradient": text.seconds(line.gradient_s),
        "grad/fwd": text.times(line.gradient_over_forward),
        "x best": text.DASH,
        "slots": line.pair_slots or text.DASH,
        "compile": text.seconds(line.compile_s),
    }
    return _Line(cells, "dim")


def _foreseen(found: pd.DataFrame) -> list[Text]:
    """Why rows failed where that surprises nobody; the other failures are for the command to tell."""
    failed = found[~found["ok"] & found["is_expected"]]
    why = failed["reason"].fillna("no reason given").map(lambda reason: text.one_line(reason, 300))
    return _reasons(failed["name"], failed["outcome"] + ": " + why)


def _reasons(names: Iterable[str], reasons: Iterable[str]) -> list[Text]:
    """One paragraph for each reason, after the names that share it."""
    told = pd.DataFrame({"name": list(names), "reason": list(reasons)}).drop_duplicates()
    shared = told.groupby("reason", sort=False)["name"].agg(", ".join)
    return [Text(printable(f"{names}: {reason}")) for reason, names in shared.items()]


def _result(case: Any) -> str:
    """How a case ended; a long outcome on several lines, broken where it has hyphens."""
    if case.ok:
        return "noisy" if case.noisy is True else "ok"
    return "\n".join(textwrap.wrap(case.outcome, _RESULT_WIDTH))


def _availability(row: Availability, device: str) -> str:
    if row.description is None or device not in row.description.devices:
        return text.DASH
    if row.missing.get(device):
        return "missing"
    return ", ".join(dtype.replace("float", "f") for dtype in row.description.dtypes)
