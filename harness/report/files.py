"""Writes the reports, and says which of those on disk no longer follow from the records."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path, PurePosixPath

from harness.records import Record, write_atomically
from harness.report import documents, findings
from harness.report.data import Entry, Setting, entries, pick, plotted_settings
from harness.report.text import one_line

README = "README.md"
REPORTS = "reports"
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


def write(records: Sequence[Record], out: Path) -> None:
    """Write everything that follows from the records.

    Into `out`: report.md (the index), findings.md, figures/*.svg and .png, data/*.csv (what the figures show) and
    index.html (the page). A README.md beside `out`, if that is called reports, has its
    marked blocks refreshed.

    Raises:
        OSError: a file cannot be written.
        ValueError: the README's markers are not understood.
    """
    from harness.report import figures, page

    made = entries(records)
    for path, content in _texts(records, made, out).items():
        write_atomically(path, content.encode())
    for setting in plotted_settings(made):
        for kind in documents.FIGURES:
            figure = figures.figure(kind, setting, made)
            for form in ("svg", "png"):
                path = _figure_path(out, kind, setting, form)
                path.parent.mkdir(parents=True, exist_ok=True)
                figures.save(figure, path)
    write_atomically(out / "index.html", page.page(records, made).encode())


def stale(records: Sequence[Record], out: Path) -> list[str]:
    """What on disk differs from what the records give: markdown and plotted data, and figures that are missing.

    Returns:
        One line per file: its path and the first line that differs.
    """
    made = entries(records)
    found = [
        f"{path}: {difference}"
        for path, content in _texts(records, made, out).items()
        if (difference := _difference(path, content))
    ]
    figures = [
        _figure_path(out, kind, s, form)
        for s in plotted_settings(made)
        for kind in documents.FIGURES
        for form in ("svg", "png")
    ]
    return found + [f"{path}: missing" for path in figures if not path.is_file()]


def _texts(records: Sequence[Record], made: Sequence[Entry], out: Path) -> dict[Path, str]:
    """Every text file that `stale` compares, by path."""
    texts = {out / "report.md": documents.report(records, made), out / "findings.md": findings.markdown(made)}
    for setting in plotted_settings(made):
        texts[out / "data" / f"{documents.slug(setting)}.csv"] = _csv(pick(made, **setting._asdict()))
    readme = out.parent / README
    if readme.is_file() and out.name == REPORTS:  # reports made elsewhere leave the README alone
        folder = PurePosixPath(Path(os.path.relpath(out, readme.parent)).as_posix())
        blocks = documents.readme_blocks(made, folder)
        texts[readme] = documents.refresh_marked(readme.read_text(encoding="utf-8"), blocks)
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
    held = path.read_text(encoding="utf-8").splitlines()
    for number, (found, right) in enumerate(zip_longest(held, content.splitlines()), start=1):
        if found != right:
            return f"line {number} is {_quoted(found)}, the records give {_quoted(right)}"
    return None


def _quoted(line: str | None) -> str:
    return "missing" if line is None else repr(one_line(line, 100))


def _figure_path(out: Path, kind: str, setting: Setting, form: str) -> Path:
    return out / "figures" / f"{kind}-{documents.slug(setting)}.{form}"
