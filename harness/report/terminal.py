"""What `list`, `check`, `bench` and `compare` print, within 100 columns; rich drops colours under NO_COLOR."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.compare import Comparison, summary
from harness.describe import Availability
from harness.hard_cases import HARD_SCENARIO
from harness.protocol import DEVICES
from harness.records import Record
from harness.report import tables, text
from harness.report.data import Entry, Setting, by_n, by_setting, entries, fastest_first
from harness.report.documents import describe
from harness.report.published import AGREEMENT_N, published

_AGREEMENT: text.Columns[Entry] = {
    "implementation": lambda e: _name(e),
    "loss": lambda e: text.exact(e.record.loss),
    "‖g‖₂": lambda e: text.norm(e.record.grad_norm),
    "max rel. diff": lambda e: text.difference(e.record.max_rel_diff),
}
_TIMING: text.Columns[Entry] = {
    "implementation": lambda e: _name(e),
    "forward": lambda e: text.seconds(e.record.forward_s),
    "gradient": lambda e: text.seconds(e.record.gradient_s),
    "grad/fwd": lambda e: text.times(e.gradient_over_forward),
    "x best": lambda e: text.times(e.x_of_best),
    "slots": lambda e: text.short_count(e.record.pair_slots),
    "compile": lambda e: text.seconds(e.compile_s),
    "memory": lambda e: text.size(e.peak_bytes),
}


def agreement_table(records: Iterable[Record]) -> RenderableType:
    """The study's "Same gradient from all", one table per input, device, dtype; its own printed lines below."""
    parts: list[RenderableType] = []
    for setting, n, found in _groups(records):
        shown = sorted(found, key=lambda e: (e.implementation, e.variant))
        inputs = "hard inputs" if setting.scenario == HARD_SCENARIO else f"{setting.scenario}, N = {n:,}"
        table = _table(f"Same gradient from all: {inputs}, {setting.dtype}, {setting.device}", _AGREEMENT, shown)
        if (setting.scenario, n, setting.dtype) == ("published", AGREEMENT_N, "float64"):
            table.add_section()
            for line in published().agreement:
                table.add_row(f"study: {line.system}", line.loss, line.grad_norm, line.max_rel_diff, style="dim")
        parts += [table, *_failures(shown)]
    return Group(*parts)


def timing_tables(records: Iterable[Record]) -> list[RenderableType]:
    """One table per setting and N, fastest gradient first; failures below each, with their reasons."""
    parts: list[RenderableType] = []
    for setting, n, found in _groups(records):
        shown = fastest_first(found)
        table = _table(f"N = {n:,}: {describe(setting)}, {setting.unit}", _TIMING, shown)
        lines = tables.study_timings(setting, n)
        if lines:
            table.add_section()
        for line in lines:
            cells = (
                text.seconds(line.forward_s),
                text.seconds(line.gradient_s),
                text.times(line.gradient_over_forward),
            )
            table.add_row(
                f"study: {line.system}", *cells, text.DASH, line.pair_slots, text.seconds(line.compile_s), style="dim"
            )
        parts += [table, *_failures(shown)]
    return parts


def availability_table(rows: Sequence[Availability]) -> RenderableType:
    """Rows, what they are, and whether they can run here on each device; what is missing stands below."""
    table = _empty("Rows", ("name", "what it is", *DEVICES))
    reasons: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        about = row.description.title if row.description else "not importable here"
        table.add_row(row.name, about, *(_availability(row, device) for device in DEVICES))
        for reason in (row.problem, *(f"{d}: {why}" for d, why in row.missing.items() if why)):
            if reason:
                reasons[reason].append(row.name)
    return Group(table, *_reasons(reasons))


def comparison_table(comparisons: Sequence[Comparison]) -> RenderableType:
    """Verdict of every case and how its medians changed; what there is to say of a case stands below."""
    table = _empty("New against old", ("case", "verdict", "forward", "gradient"))
    reasons: dict[str, list[str]] = defaultdict(list)
    for c in comparisons:
        ratios = [text.times(change.ratio) if change else text.DASH for change in (c.forward, c.gradient)]
        table.add_row(c.case_id, Text(c.verdict, style=_STYLES.get(c.verdict, "")), *ratios)
        if c.reason:
            reasons[c.reason].append(c.case_id)
    return Group(table, *_reasons(reasons), Text(summary(comparisons)))


_WORDS = frozenset({"what it is", "verdict", *DEVICES})
_STYLES = {"slower": "red", "broken": "red", "faster": "green", "mended": "green", "ambiguous": "yellow"}


def _groups(records: Iterable[Record]) -> Iterable[tuple[Setting, int, list[Entry]]]:
    for setting, found in by_setting(entries(records)).items():
        for n, group in by_n(found).items():
            yield setting, n, group


def _table(title: str, columns: text.Columns[Entry], shown: Sequence[Entry]) -> Table:
    """A table of entries; a failure keeps its line, with its outcome."""
    table = _empty(title, columns)
    table.add_column("result", overflow="fold")
    for entry in shown:
        failed = not entry.ok
        result = entry.record.outcome if failed else "noisy" if entry.record.noisy else "ok"
        style = "" if not failed else "dim" if entry.record.is_expected else "red"
        table.add_row(*(cell(entry) for cell in columns.values()), result, style=style)
    return table


def _empty(title: str, headers: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for k, header in enumerate(headers):
        table.add_column(
            header, justify="left" if k == 0 or header in _WORDS else "right", no_wrap=k == 0, overflow="fold"
        )
    return table


def _failures(shown: Iterable[Entry]) -> list[Text]:
    """Why each failed row failed."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for entry in shown:
        if not entry.ok:
            words = text.one_line(entry.record.reason or "no reason given", 300)
            reasons[f"{entry.record.outcome}: {words}"].append(_name(entry))
    return _reasons(reasons)


def _reasons(reasons: Mapping[str, Sequence[str]]) -> list[Text]:
    """One paragraph for each reason, after the names that share it."""
    return [Text(f"{', '.join(names)}: {reason}") for reason, names in reasons.items()]


def _availability(row: Availability, device: str) -> str:
    if row.description is None or device not in row.description.devices:
        return text.DASH
    return "missing" if row.missing.get(device) else "yes"


def _name(entry: Entry) -> str:
    return f"{entry.implementation} ({entry.variant})" if entry.variant else entry.implementation
