"""Writes the reports, and says which of those on disk no longer follow from the records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path, PurePosixPath

import pandas as pd

from harness.contract import output
from harness.contract.extras import missing_module
from harness.contract.records import Record
from harness.report import documents, findings, segments
from harness.report.data import cases as cases_of
from harness.report.data import frame, plotted_settings, select
from harness.report.segments import Run
from harness.report.text import one_line

README = "README.md"
GUIDE = "docs/segment_operations.md"
REPORTS = "reports"
_AS_BYTES = "surrogateescape"  # what is no UTF-8 in a page that is refreshed stays as it is
_PLOTTED = ["implementation", "title", "n", "outcome", "forward_s", "forward_iqr_s", "gradient_s", "gradient_iqr_s"]
_PLOTTED += ["peak_bytes", "pair_slots", "true_pairs"]


def write(records: Sequence[Record], out: Path, runs: Sequence[Run] = ()) -> str | None:
    """Write everything that follows from the records and from the runs of the segment operations' benchmark.

    Into `out`: report.md (the index), findings.md, segments.md, figures/*.svg, data/*.csv (what the figures show) and
    index.html (the page). README.md and docs/segment_operations.md beside `out`, if that is called reports, have their
    marked blocks refreshed.

    Returns:
        Why the page was not written, where a package that it needs is missing.

    Raises:
        OSError: a file cannot be written.
        MarkersError: a page's markers are not understood.
    """
    from harness.report import figures, segments_figure

    held, cases = frame(records), cases_of(records)
    for path, content in _texts(held, cases, out, runs).items():
        output.write(path, content.encode(errors=_AS_BYTES))
    for setting in plotted_settings(cases):
        for kind in documents.FIGURES:
            name = f"{kind}-{documents.computer_name(setting)}"
            figures.save(figures.figure(kind, setting, cases), _figure_path(out, name))
    for run in runs:
        figures.save(segments_figure.figure(run), _figure_path(out, run.name))
    try:
        from harness.report import page

        content = page.page(held, cases)
    except ModuleNotFoundError as error:
        return missing_module(error)
    output.write(out / "index.html", content.encode())
    return None


def stale(records: Sequence[Record], out: Path, runs: Sequence[Run] = ()) -> list[str]:
    """What on disk differs from what the records give: markdown and plotted data, and figures missing or left over.

    Returns:
        One line per file: its path and the first line that differs.
    """
    cases = cases_of(records)
    texts = _texts(frame(records), cases, out, runs)
    found = [f"{path}: {difference}" for path, content in texts.items() if (difference := _difference(path, content))]
    names = [f"{kind}-{documents.computer_name(s)}" for s in plotted_settings(cases) for kind in documents.FIGURES]
    figures = [_figure_path(out, name) for name in (*names, *(run.name for run in runs))]
    found += [f"{path}: missing" for path in (*figures, out / "index.html") if not path.is_file()]
    held = sorted(path for folder in ("data", "figures") for path in (out / folder).glob("*"))
    return found + [f"{path}: left over, delete it" for path in held if path not in {*texts, *figures}]


def _texts(records: pd.DataFrame, cases: pd.DataFrame, out: Path, runs: Sequence[Run]) -> dict[Path, str]:
    """Every text file that `stale` compares, by path."""
    texts = {
        out / "report.md": documents.report(records, cases),
        out / "findings.md": findings.markdown(cases),
        out / "segments.md": segments.page(runs),
    }
    for setting in plotted_settings(cases):
        plotted = select(cases, **setting._asdict())[_PLOTTED]
        texts[out / "data" / f"{documents.computer_name(setting)}.csv"] = plotted.to_csv(index=False)
    if out.name == REPORTS:  # reports made elsewhere leave the pages that show them alone
        shown = {
            README: documents.readme_blocks(cases, PurePosixPath(REPORTS)),
            GUIDE: {"segments": segments.guide_block(runs)},
        }
        for name, blocks in shown.items():
            page = out.parent / name
            if page.is_file() and documents.MARKER.encode() in (held := page.read_bytes()):
                try:
                    texts[page] = documents.refresh_marked(held.decode(errors=_AS_BYTES), blocks)
                except documents.MarkersError as error:
                    raise documents.MarkersError(f"{page}: {error}; mend the markers") from error
    return texts


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


def _figure_path(out: Path, name: str) -> Path:
    return out / "figures" / f"{name}.svg"
