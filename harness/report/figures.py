"""The figures, as SVG that comes out alike from the same records. Readable without the text around them."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

from harness.contract import output
from harness.contract.encoding import printable
from harness.report import tables
from harness.report.data import Setting, select
from harness.report.documents import describe, heading
from harness.report.published import PublishedTiming, published
from harness.report.style import STUDY_COLOUR, Style, styles

RC: Any = {
    "svg.hashsalt": "pairgrad",
    "svg.fonttype": "none",  # text stays text: half the size, and it can be searched
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,  # a dollar is a dollar
}
_LETTERS_AN_INCH = 18  # of the smallest font
_FEW_TICKS = 100.0  # powers of ten alone leave an axis of fewer decades than this nearly bare


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One pair of axes, N across.

    Attributes:
        title: what is shown.
        suffix: of tick labels, the values' unit; empty for a plain number.
        column: the values; a missing one leaves its point out.
        study: the study's value; None where it printed none.
    """

    title: str
    suffix: str
    column: str
    study: Callable[[PublishedTiming], float | None] = lambda line: None


PANELS: dict[str, tuple[Panel, ...]] = {
    "time": (
        Panel(title="forward", suffix="s", column="forward_s", study=lambda line: line.forward_s),
        Panel(title="gradient", suffix="s", column="gradient_s", study=lambda line: line.gradient_s),
    ),
    "particle": (Panel(title="gradient per particle", suffix="s", column="gradient_s_per_particle"),),
    "memory": (Panel(title="peak memory", suffix="B", column="peak_bytes"),),
    "slots": (Panel(title="slots per true pair", suffix="", column="slots_per_pair"),),
}


def figure(kind: str, setting: Setting, cases: pd.DataFrame) -> Figure:
    """One figure of one setting.

    Args:
        kind: a key of `PANELS`.
        setting: whose cases are shown.
        cases: of all settings, so that a row looks the same in each figure.
    """
    shown, look, panels = select(cases, **setting._asdict()), styles(cases), PANELS[kind]
    with matplotlib.rc_context(RC):
        width = 4.2 * len(panels) + 3.6
        made = Figure(figsize=(width, 4.6), layout="constrained")
        for axes, panel in zip(made.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels, strict=True):
            _draw(axes, panel, shown, look, setting)
        key = "dashed: hand-written adjoint" if any(look[row].dashed for row in shown["implementation"]) else None
        handles = _handles(panels, shown, look, setting)
        made.legend(handles=handles, loc="outside right upper", frameon=False, title=key)
        title = (label(heading(setting)), label(f"{describe(setting)}, {tables.dates(shown)}"))
        made.suptitle("\n".join(title), x=0.01, ha="left")
        failures = failed(shown)
        if failures:
            # broken here: Matplotlib, told to wrap, takes dollars for mathematics again
            words = textwrap.fill(label("Not plotted: " + "; ".join(failures)), int(_LETTERS_AN_INCH * width))
            made.supxlabel(words, x=0.01, ha="left", fontsize=7)
    return made


def save(made: Figure, path: Path) -> None:
    """Write a figure as SVG, the same bytes for the same figure."""
    with matplotlib.rc_context(RC):
        buffer = io.BytesIO()
        made.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    output.write(path, buffer.getvalue())


def label(words: str) -> str:
    """Text as it is drawn, control characters written out; one that begins with an underscore would be left out."""
    return printable(words) if not words.startswith("_") else f"\N{ZERO WIDTH SPACE}{printable(words)}"


def failed(shown: pd.DataFrame) -> list[str]:
    """What is not plotted and why: each row's outcomes with their N."""
    groups = (
        shown[~shown["ok"]]
        .sort_values("n", kind="stable")
        .groupby(["implementation", "title", "outcome"], sort=False)["n"]
    )
    sizes = groups.agg(lambda found: ", ".join(f"{n:,}" for n in found))
    return [f"{title} {outcome} at N = {words}" for (_, title, outcome), words in sizes.items()]


def series(panel: Panel, shown: pd.DataFrame) -> dict[tuple[str, ...], list[tuple[int, float]]]:
    """Points (N, value) of each line; rows that coincide everywhere are one line with several names."""
    points = shown[shown["ok"]].dropna(subset=panel.column).sort_values("n", kind="stable")
    pairs = pd.Series(list(zip(points["n"], points[panel.column], strict=True)), index=points.index, dtype=object)
    lines = pairs.groupby(points["implementation"], sort=False).agg(tuple)
    names = lines.index.to_series().groupby(lines, sort=False).agg(tuple)
    return {rows: list(line) for line, rows in names.items()}


def study_points(panel: Panel, setting: Setting) -> list[tuple[str, int, float]]:
    """The study's system, N and value, where it printed one for this setting."""
    lines = [line for line in published().timings if line in tables.study_timings(setting, line.n)]
    return [(line.system, line.n, value) for line in lines if (value := panel.study(line)) is not None]


def _draw(axes: Axes, panel: Panel, shown: pd.DataFrame, look: dict[str, Style], setting: Setting) -> None:
    for names, points in series(panel, shown).items():
        axes.plot(*zip(*points, strict=True), **_line(look[names[0]]))
    for k, (system, n, value) in enumerate(sorted(study_points(panel, setting), key=lambda point: point[2])):
        axes.plot(n, value, **_study())
        place: Any = {"xytext": (6, 5 if k % 2 else -5), "textcoords": "offset points", "va": "center"}
        axes.annotate(label(system), (n, value), fontsize=7, color=STUDY_COLOUR, **place)
    axes.margins(x=0.12)
    axes.set(xscale="log", yscale="log", xlabel="particles N", title=panel.title)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
    low, high = axes.get_ylim()
    if high < _FEW_TICKS * low:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    plain = FuncFormatter(lambda v, _: f"{v:g}")
    axes.yaxis.set_major_formatter(EngFormatter(unit=panel.suffix) if panel.suffix else plain)
    axes.grid(visible=True, which="major", color="#e0e0e0", linewidth=0.6)
    if not series(panel, shown):
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center")


def _handles(panels: Sequence[Panel], shown: pd.DataFrame, look: dict[str, Style], setting: Setting) -> list[Line2D]:
    """Legend in the order the lines end in the last panel, the largest value first; the study last."""
    titles = shown.groupby("implementation")["title"].last().map(label)
    ordered = sorted(series(panels[-1], shown).items(), key=lambda line: (-line[1][-1][0], -line[1][-1][1]))
    handles = [
        Line2D([], [], label="\n".join(titles[n] for n in names), **_line(look[names[0]])) for names, _ in ordered
    ]
    if any(study_points(panel, setting) for panel in panels):
        handles.append(Line2D([], [], label="study (its own machine)", **_study()))
    return handles


def _line(style: Style) -> dict[str, Any]:
    dashes = "--" if style.dashed else "-"
    return {"color": style.colour, "marker": style.marker, "markersize": 5, "linewidth": 1.2, "linestyle": dashes}


def _study() -> dict[str, Any]:
    return {"color": STUDY_COLOUR, "marker": "o", "markerfacecolor": "none", "linestyle": "none", "markersize": 7}
