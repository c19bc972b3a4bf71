"""The report as markdown: the index with its tables and figures, and the blocks a README shows of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

import jinja2
import pandas as pd

from harness.contract.names import file_name
from harness.report import tables, text
from harness.report.data import Computer, Setting, by_setting, main_settings, select, where
from harness.report.published import AGREEMENT_N, published
from harness.report.text import Markdown

FIGURES = {
    "time": "Forward pass and gradient against N",
    "particle": "Gradient per particle against N",
    "memory": "Peak memory against N",
    "slots": "Slots per true pair against N",
}


def render(template: str, **values: object) -> Markdown:
    """A markdown document from its template; what is put in is text unless it is markdown already."""
    return Markdown(_TEMPLATES.get_template(template).render(values))


def report(records: pd.DataFrame, cases: pd.DataFrame) -> str:
    """The index: machines, rows, then each computer's figures and tables.

    Args:
        records: a frame of all records.
        cases: made from them.
    """
    computers = [(s, where(cases, machine=s.machine, hardware=s.hardware)) for s in main_settings(cases)]
    measured = set(cases.loc[cases["timed"], "device"])
    return render(
        "report.md",
        study=published(),
        records=records,
        cases=cases,
        computers=[(s, c) for s, c in computers if c["timed"].any() or (c["outcome"] != "unavailable").any()],
        unmeasured=[device for device in ("cpu", "cuda") if device not in measured],
    )


def computer_name(computer: Setting | Computer) -> str:
    """A file name's part for a computer, of its own for each."""
    return file_name(heading(computer))


def heading(computer: Setting | Computer) -> str:
    """A computer for readers."""
    return computer.machine if computer.device == "cpu" else f"{computer.hardware} ({computer.machine})"


def describe(setting: Setting) -> str:
    """Scenario, dtype and threads for readers."""
    threads = f"{setting.threads} {'thread' if setting.threads == 1 else 'threads'}"
    return f"{setting.scenario} input, {setting.dtype}" + (f", {threads}" if setting.device == "cpu" else "")


def provenance(setting: Setting, cases: pd.DataFrame) -> str:
    """Machine, setting, dates and commits of some cases, for the line under a table."""
    made = f"measured {tables.dates(cases)}; commit {tables.commits(cases)}"
    return f"{heading(setting)}; {describe(setting)}; {made}"


def readme_blocks(cases: pd.DataFrame, folder: PurePosixPath) -> dict[str, str]:
    """What a README shows: the agreement, the largest timing table and the time figure of the first machine's CPU.

    Args:
        cases: made from all records.
        folder: of the reports, relative to the README.

    Returns:
        Markdown by block name; every block a dash where nothing was measured yet.
    """
    setting = next((s for s in main_settings(cases) if s.device == "cpu"), None)
    here = select(cases, **setting._asdict()) if setting else cases[:0]
    if setting is None or not here["timed"].any():
        return dict.fromkeys(("agreement", "timing", "figure"), text.DASH)
    largest = here.loc[here["timed"], "n"].max()
    checked, timed = where(here, n=AGREEMENT_N), where(here, n=largest)
    timing = tables.timing(timed, tables.SHORT_TIMING_COLUMNS)
    return {
        "agreement": text.DASH if checked.empty else tables.agreement(checked),
        "timing": f"N = {largest:,}\n\n{timing}\n\n*{text.markdown(provenance(setting, timed))}.*",
        "figure": figure_link("time", setting, folder / "figures"),
    }


def figure_link(kind: str, setting: Setting, folder: PurePosixPath | str) -> Markdown:
    """The image of a figure in a folder."""
    words = text.markdown(f"{FIGURES[kind]}, {heading(setting)}")
    return Markdown(f"![{words}]({folder}/{kind}-{computer_name(setting)}.svg)")


MARKER = "<!-- pairgrad:"
"""Begins every marker; a page that holds none is not ours to refresh."""
_BLOCK = re.compile(r"(<!-- pairgrad:begin (?P<name>[\w-]+) -->\r?\n).*?(<!-- pairgrad:end (?P=name) -->)", re.S)


class MarkersError(ValueError):
    """A page whose markers are not understood."""


def refresh_marked(page: str, blocks: Mapping[str, str]) -> str:
    """A page with what stands between its markers replaced, in the line ends of the page.

    Args:
        page: holds `<!-- pairgrad:begin NAME -->` and `<!-- pairgrad:end NAME -->`, each on a line of its own.
        blocks: markdown by name.

    Raises:
        MarkersError: a marker names no block, or has no partner.
    """
    for kind in ("begin", "end"):
        for name in re.findall(rf"<!-- pairgrad:{kind} (\S+) -->", page):
            if name not in blocks:
                raise MarkersError(f"no block {name!r} to put between markers; there are {', '.join(sorted(blocks))}")
    markers = page.count(MARKER)
    end = "\r\n" if "\r\n" in page else "\n"
    shown = {name: f"\n{block}\n\n".replace("\n", end) for name, block in blocks.items()}
    refreshed, replaced = _BLOCK.subn(lambda m: f"{m[1]}{shown[m['name']]}{m[3]}", page)
    if 2 * replaced != markers:
        raise MarkersError(f"{markers} markers make {replaced} blocks: a pairgrad:begin or pairgrad:end has no partner")
    return refreshed


def _comparisons(cases: pd.DataFrame, setting: Setting) -> dict[str, dict[int | None, Markdown | None]]:
    """Tables of a setting beside another, by title and N; None for the N of the one that has its N in the title."""
    sizes: Iterable[int] = select(cases, **setting._asdict())["n"].unique()
    found: dict[str, dict[int | None, Markdown | None]] = {
        "One thread and all of them": {n: tables.threads(cases, setting, n) for n in sizes},
        f"Clustered input beside the published one, N = {tables.CLUSTERED_N:,}": {
            None: tables.clustered(cases, setting)
        },
        "float32 beside float64": {n: tables.precision(cases, setting, n) for n in sizes},
        "Options changed": {n: tables.variants(cases, setting, n) for n in sizes},
    }
    return {title: {n: table for n, table in made.items() if table} for title, made in found.items()}


_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("harness.report"),
    undefined=jinja2.StrictUndefined,
    finalize=text.markdown,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.globals |= {
    "tables": tables,
    "figures": FIGURES,
    "figure_link": figure_link,
    "by_setting": by_setting,
    "select": select,
    "heading": heading,
    "describe": describe,
    "comparisons": _comparisons,
    "count": text.count,
}
