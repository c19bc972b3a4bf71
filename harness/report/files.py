"""Writes the reports, and says which of those on disk no longer follow from the records."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path, PurePosixPath

from harness.contract import output
from harness.contract.extras import missing_module
from harness.contract.records import Record
from harness.report import documents, findings, segments
from harness.report.data import Entry, entries, pick, plotted_settings
from harness.report.segments import Run
from harness.report.text import one_line

README = "README.md"
GUIDE = "docs/segment_operations.md"
REPORTS = "reports"
_AS_BYTES = "surrogateescape"  # what is no UTF-8 in a page that is refreshed stays as it is
_PLOTTED = (
    "implementation",
    "title",
    "n",
    "outcome",
    "forward_s",
    "forward_iqr_s",
    "gradient_s",
    "gradient_iqr_s",
    "peak_bytes",
    "pair_slots",
    "true_pairs",
)


def write(records: Sequence[Record], out: Path, runs: Sequence[Run] = ()) -> str | None:
    """Write everything that follows from the records and from the runs of the segment operations' benchmark.

    Into `out`: report.md (the index), findings.md, segments.md, figures/*.svg and .png, data/*.csv (what the figures
    show) and index.html (the page). README.md and docs/segment_operations.md beside `out`, if that is called reports,
    have their marked blocks refreshed.

    Returns:
        Why the page was not written, where a package that it needs is missing.

    Raises:
        OSError: a file cannot be written.
        ValueError: a page's markers are not understood.
    """
    from harness.report import figures, segments_figure

    made = entries(records)
    for path, content in _texts(records, made, out, runs).items():
        output.write(path, content.encode(errors=_AS_BYTES))
    for setting in plotted_settings(made):
        for kind in documents.FIGURES:
            figure = figures.figure(kind, setting, made)
            for path in _figure_paths(out, f"{kind}-{documents.slug(setting)}"):
                figures.save(figure, path)
    for run in runs:
        figure = segments_figure.figure(run)
        for path in _figure_paths(out, run.name):
            figures.save(figure, path)
    try:
        from harness.report import page

        content = page.page(records, made)
    except ModuleNotFoundError as error:
        return missing_module(error)
    output.write(out / "index.html", content.encode())
    return None


def stale(records: Sequence[Record], out: Path, runs: Sequence[Run] = ()) -> list[str]:
    """What on disk differs from what the records give: markdown and plotted data, and figures missing or left over.

    Returns:
        One line per file: its path and the first line that differs.
    """
    made = entries(records)
    texts = _texts(records, made, out, runs)
    found = [f"{path}: {difference}" for path, content in texts.items() if (difference := _difference(path, content))]
    names = [f"{kind}-{documents.slug(s)}" for s in plotted_settings(made) for kind in documents.FIGURES]
    figures = [path for name in (*names, *(run.name for run in runs)) for path in _figure_paths(out, name)]
    found += [f"{path}: missing" for path in (*figures, out / "index.html") if not path.is_file()]
    held = sorted(path for folder in ("data", "figures") for path in (out / folder).glob("*"))
    return found + [f"{path}: left over, delete it" for path in held if path not in {*texts, *figures}]


def _texts(records: Sequence[Record], made: Sequence[Entry], out: Path, runs: Sequence[Run]) -> dict[Path, str]:
    """Every text file that `stale` compares, by path."""
    texts = {
        out / "report.md": documents.report(records, made),
        out / "findings.md": findings.markdown(made),
        out / "segments.md": segments.page(runs),
    }
    for setting in plotted_settings(made):
        texts[out / "data" / f"{documents.slug(setting)}.csv"] = _csv(pick(made, **setting._asdict()))
    if out.name == REPORTS:  # reports made elsewhere leave the pages that show them alone
        shown = {
            README: documents.readme_blocks(made, PurePosixPath(REPORTS)),
            GUIDE: {"segments": segments.guide_block(runs)},
        }
        for name, blocks in shown.items():
            page = out.parent / name
            if page.is_file() and documents.MARKER.encode() in (held := page.read_bytes()):
                texts[page] = documents.refresh_marked(held.decode(errors=_AS_BYTES), blocks)
    return texts


def _csv(plotted: Sequence[Entry]) -> str:
    """Plotted data, one line per entry; what is missing is an empty field."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_PLOTTED)
    for entry in plotted:
        writer.writerow([_field(entry, name) for name in _PLOTTED])
    return buffer.getvalue()


def _field(entry: Entry, name: str) -> object:
    return getattr(entry, name) if hasattr(entry, name) else getattr(entry.record, name)


def _difference(path: Path, content: str) -> str | None:
    """Where a file differs from what it should hold; None where it does not."""
    if not path.is_file():
        return "missing"
    held = path.read_text(encoding="utf-8", errors=_AS_BYTES).splitlines()
    for number, (found, right) in enumerate(zip_longest(held, content.splitlines()), start=1):
        if found != right:
            return f"line {number} is {_quoted(found)}, the records give {_quoted(right)}"
    return None


def _quoted(line: str | None) -> str:
    return "missing" if line is None else repr(one_line(line, 100))


def _figure_paths(out: Path, name: str) -> list[Path]:
    return [out / "figures" / f"{name}.{form}" for form in ("svg", "png")]
