"""The report as markdown: the index with its tables and figures, and the blocks a README shows of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from harness.contract.records import Record
from harness.report import tables, text
from harness.report.data import Entry, Setting, Unit, by_n, by_setting, main_settings, pick
from harness.report.published import AGREEMENT_N, published

FIGURES = {
    "time": "Forward pass and gradient against N",
    "particle": "Gradient per particle against N",
    "memory": "Peak memory against N",
    "slots": "Slots per true pair against N",
}

_INTRODUCTION = (
    "Every gradient here was checked against the closed form before it was timed. Times are medians of single calls, "
    "each from positions on the device to a finished result, the rebuild of cells or neighbour list included; `spread` "
    "is the interquartile range over the median, the larger of forward and gradient, and a row above 10 % is marked "
    "noisy. `x of best row` is the gradient over the fastest gradient in the same table. `pair slots` counts the slots "
    "the kernel W is evaluated on in one forward pass, masked or not; `true pairs` counts ordered pairs within the "
    "support radius. `compile` is forward and gradient together, from cold caches. `peak memory` is what a case added "
    "to its process, or to the accelerator. A dash is what was not measured.",
    "Lines in italics are the study's own figures, printed for its own machine ({machine}; {conditions}): they stand "
    "beside ours for reading, not for ratios.",
    "[Findings](findings.md), the [page](index.html) with every record, the [segment operations](segments.md) timed by "
    "themselves, and in `data/` what the figures show.",
)


def slug(where: Setting | Unit) -> str:
    """Machine and unit as part of a file name."""
    words = f"{where.machine} {'' if where.device == 'cpu' else where.unit}"
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)", "", words.lower())).strip("-")


def report(records: Sequence[Record], entries: Sequence[Entry]) -> str:
    """The index: machines, rows, then each machine's and unit's figures and tables."""
    study = {"machine": published().machine, "conditions": published().conditions}
    parts = [
        "# Results",
        *(paragraph.format(**study) for paragraph in _INTRODUCTION),
        "## Machines",
        tables.machines(records),
        "## Rows",
        tables.implementations(entries),
    ]
    for setting in main_settings(entries):
        here = [e for e in entries if (e.setting.machine, e.setting.unit) == (setting.machine, setting.unit)]
        if any(e.timed or e.record.outcome != "unavailable" for e in here):
            parts += _unit(setting, here)
    measured = {e.setting.device for e in entries if e.timed}
    for device in ("cpu", "cuda"):
        if device not in measured:
            parts += [f"## {device}: not measured", "The study's own figures:", tables.study_only(device)]
    return "\n\n".join(parts) + "\n"


def heading(where: Setting | Unit) -> str:
    """Machine and unit for readers."""
    return where.machine if where.device == "cpu" else f"{where.unit} ({where.machine})"


def describe(setting: Setting) -> str:
    """Scenario, dtype and threads for readers."""
    threads = f"{setting.threads} {'thread' if setting.threads == 1 else 'threads'}"
    return f"{setting.scenario} input, {setting.dtype}" + (f", {threads}" if setting.device == "cpu" else "")


def provenance(setting: Setting, entries: Iterable[Entry]) -> str:
    """Machine, setting, dates and commits of some entries, for the line under a table."""
    found = [e.record for e in entries]
    where = f"{heading(setting)}; {describe(setting)}"
    return f"{where}; measured {tables.dates(found)}; commit {tables.commits(found)}"


def readme_blocks(entries: Sequence[Entry], folder: PurePosixPath) -> dict[str, str]:
    """What a README shows: the agreement, the largest timing table and the time figure of the first machine's CPU.

    Args:
        entries: made from all records.
        folder: of the reports, relative to the README.

    Returns:
        Markdown by block name; every block a dash where nothing was measured yet.
    """
    setting = next((s for s in main_settings(entries) if s.device == "cpu"), None)
    sizes = by_n(e for e in pick(entries, **setting._asdict()) if e.timed) if setting else {}
    if setting is None or not sizes:
        return dict.fromkeys(("agreement", "timing", "figure"), text.DASH)
    largest = max(sizes)
    everything = by_n(pick(entries, **setting._asdict()))
    source = f"*{provenance(setting, everything[largest])}.*"
    image = folder / "figures" / f"time-{slug(setting)}.svg"
    checked = everything.get(AGREEMENT_N, [])
    return {
        "agreement": tables.agreement(checked) if checked else text.DASH,
        "timing": f"N = {largest:,}\n\n{tables.timing(everything[largest], tables.SHORT_TIMING_COLUMNS)}\n\n{source}",
        "figure": f"![{FIGURES['time']}, {heading(setting)}]({image})",
    }


MARKER = "<!-- pairgrad:"
"""Begins every marker; a page that holds none is not ours to refresh."""
_BLOCK = re.compile(r"(<!-- pairgrad:begin (?P<name>[\w-]+) -->\r?\n).*?(<!-- pairgrad:end (?P=name) -->)", re.S)


def refresh_marked(page: str, blocks: Mapping[str, str]) -> str:
    """A page with what stands between its markers replaced, in the line ends of the page.

    Args:
        page: holds `<!-- pairgrad:begin NAME -->` and `<!-- pairgrad:end NAME -->`, each on a line of its own.
        blocks: markdown by name.

    Raises:
        ValueError: a marker names no block, or has no partner.
    """
    for kind in ("begin", "end"):
        for name in re.findall(rf"<!-- pairgrad:{kind} (\S+) -->", page):
            if name not in blocks:
                raise ValueError(f"no block {name!r} to put between markers; there are {', '.join(sorted(blocks))}")
    markers = page.count(MARKER)
    end = "\r\n" if "\r\n" in page else "\n"
    shown = {name: f"\n{block}\n\n".replace("\n", end) for name, block in blocks.items()}
    refreshed, replaced = _BLOCK.subn(lambda m: f"{m[1]}{shown[m['name']]}{m[3]}", page)
    if 2 * replaced != markers:
        raise ValueError(f"{markers} markers make {replaced} blocks: a pairgrad:begin or pairgrad:end has no partner")
    return refreshed


def _unit(setting: Setting, here: Sequence[Entry]) -> Iterator[str]:
    """The section of one machine's CPU or accelerator."""
    own = by_n(pick(here, **setting._asdict()))
    yield f"## {heading(setting)}"
    yield f"*Measured {tables.dates(e.record for e in here)}; commit {tables.commits(e.record for e in here)}.*"
    for kind, caption in FIGURES.items() if any(e.timed for e in pick(here, **setting._asdict())) else ():
        yield f"![{caption}, {heading(setting)}](figures/{kind}-{slug(setting)}.svg)"
    yield "### Same gradient from all"
    for n, entries in own.items():
        yield from (f"#### N = {n:,}", tables.agreement(entries))
    yield f"### Timings: {describe(setting)}"
    for n, entries in own.items():
        yield from (f"#### Timings, N = {n:,}", tables.timing(entries))
    yield from _per_n("One thread and all of them", own, lambda n: tables.threads(here, setting, n))
    table = tables.clustered(here, setting)
    if table:
        yield from (f"### Clustered input beside the published one, N = {tables.CLUSTERED_N:,}", table)
    yield from _per_n("float32 beside float64", own, lambda n: tables.precision(here, setting, n))
    yield from _per_n("Options changed", own, lambda n: tables.variants(here, setting, n))
    for other, entries in by_setting(here).items():
        if other != setting:
            yield f"### Timings: {describe(other)}"
            for n, group in by_n(pick(entries)).items():
                yield from (f"#### {describe(other)}, N = {n:,}", tables.timing(group))


def _per_n(title: str, sizes: Iterable[int], table: Callable[[int], str | None]) -> Iterator[str]:
    """A section with one table per N, where there is any."""
    found = [(n, made) for n in sizes if (made := table(n))]
    if found:
        yield f"### {title}"
        for n, made in found:
            yield from (f"#### {title}, N = {n:,}", made)
