"""The figures, as SVG and PNG that come out alike from the same records. Readable without the text around them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

from harness.contract import output
from harness.report import tables
from harness.report.data import Entry, Setting, pick
from harness.report.documents import describe, heading
from harness.report.published import PublishedTiming, published
from harness.report.style import STUDY_COLOUR, Style, styles

RC: Any = {
    "svg.hashsalt": "pairgrad",
    "svg.fonttype": "none",  # text stays text: half the size, and it can be searched
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_FEW_TICKS = 100.0  # powers of ten alone leave an axis of fewer decades than this nearly bare
_Value = Callable[[Entry], float | None]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One pair of axes, N across.

    Attributes:
        title: what is shown.
        unit: of the values, for tick labels; empty for a plain number.
        value: of an entry; None leaves the point out.
        study: the study's value; None where it printed none.
    """

    title: str
    unit: str
    value: _Value
    study: Callable[[PublishedTiming], float | None] = lambda line: None


PANELS: dict[str, tuple[Panel, ...]] = {
    "time": (
        Panel(title="forward", unit="s", value=lambda e: e.record.forward_s, study=lambda line: line.forward_s),
        Panel(title="gradient", unit="s", value=lambda e: e.record.gradient_s, study=lambda line: line.gradient_s),
    ),
    "particle": (Panel(title="gradient per particle", unit="s", value=lambda e: e.seconds_per_particle),),
    "memory": (Panel(title="peak memory", unit="B", value=lambda e: e.peak_bytes),),
    "slots": (Panel(title="slots per true pair", unit="", value=lambda e: e.padding if e.ok else None),),
}


def figure(kind: str, setting: Setting, entries: Sequence[Entry]) -> Figure:
    """One figure of one setting.

    Args:
        kind: a key of `PANELS`.
        setting: whose entries are shown.
        entries: of all settings, so that a row looks the same in each figure.
    """
    shown, look, panels = pick(entries, **setting._asdict()), styles(entries), PANELS[kind]
    with matplotlib.rc_context(RC):
        made = Figure(figsize=(4.2 * len(panels) + 3.6, 4.6), layout="constrained")
        for axes, panel in zip(made.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels, strict=True):
            _draw(axes, panel, shown, look, setting)
        handles = _handles(panels, shown, look, setting)
        made.legend(handles=handles, loc="outside right upper", frameon=False, title=_key(shown, look))
        days = tables.dates(e.record for e in shown)
        made.suptitle(f"{heading(setting)}\n{describe(setting)}, {days}", x=0.01, ha="left")
        failures = failed(shown)
        if failures:
            made.supxlabel("Not plotted: " + "; ".join(failures), x=0.01, ha="left", fontsize=7, wrap=True)
    return made


def save(made: Figure, path: Path) -> None:
    """Write a figure in the form its suffix names, the same bytes for the same figure."""
    nameless = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}[path.suffix[1:]]
    with matplotlib.rc_context(RC):
        buffer = io.BytesIO()
        made.savefig(buffer, format=path.suffix[1:], metadata=nameless, dpi=150)
    output.write(path, buffer.getvalue())


def failed(shown: Iterable[Entry]) -> list[str]:
    """What is not plotted and why: each row's outcomes with their N."""
    outcomes: dict[tuple[str, str], list[int]] = {}
    for entry in shown:
        if not entry.ok:
            outcomes.setdefault((entry.title, entry.record.outcome), []).append(entry.n)
    return [
        f"{title} {outcome} at N = {', '.join(f'{n:,}' for n in sorted(sizes))}"
        for (title, outcome), sizes in outcomes.items()
    ]


def series(panel: Panel, shown: Iterable[Entry]) -> dict[tuple[str, ...], list[tuple[int, float]]]:
    """Points (N, value) of each line; rows that coincide everywhere are one line with several names."""
    points: dict[str, list[tuple[int, float]]] = {}
    for entry in sorted(shown, key=lambda e: e.n):
        value = panel.value(entry)
        if value is not None:
            points.setdefault(entry.implementation, []).append((entry.n, value))
    sharing: dict[tuple[tuple[int, float], ...], list[str]] = {}
    for name, line in points.items():
        sharing.setdefault(tuple(line), []).append(name)
    return {tuple(names): list(line) for line, names in sharing.items()}


def study_points(panel: Panel, setting: Setting) -> list[tuple[str, int, float]]:
    """The study's system, N and value, where it printed one for this setting."""
    lines = [line for line in published().timings if line in tables.study_timings(setting, line.n)]
    return [(line.system, line.n, value) for line in lines if (value := panel.study(line)) is not None]


def _draw(axes: Axes, panel: Panel, shown: Sequence[Entry], look: dict[str, Style], setting: Setting) -> None:
    for names, points in series(panel, shown).items():
        axes.plot(*zip(*points, strict=True), **_line(look[names[0]]))
    for k, (system, n, value) in enumerate(sorted(study_points(panel, setting), key=lambda point: point[2])):
        axes.plot(n, value, **_study())
        place: Any = {"xytext": (6, 5 if k % 2 else -5), "textcoords": "offset points", "va": "center"}
        axes.annotate(system, (n, value), fontsize=7, color=STUDY_COLOUR, **place)
    axes.margins(x=0.12)
    axes.set(xscale="log", yscale="log", xlabel="particles N", title=panel.title)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
    low, high = axes.get_ylim()
    if high < _FEW_TICKS * low:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    plain = FuncFormatter(lambda v, _: f"{v:g}")
    axes.yaxis.set_major_formatter(EngFormatter(unit=panel.unit) if panel.unit else plain)
    axes.grid(visible=True, which="major", color="#e0e0e0", linewidth=0.6)
    if not series(panel, shown):
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center")


def _handles(panels: Sequence[Panel], shown: Sequence[Entry], look: dict[str, Style], setting: Setting) -> list[Line2D]:
    """Legend in the order the lines end in the last panel, the largest value first; the study last."""
    titles = {entry.implementation: entry.title for entry in shown}
    ordered = sorted(series(panels[-1], shown).items(), key=lambda line: (-line[1][-1][0], -line[1][-1][1]))
    handles = [
        Line2D([], [], label="\n".join(titles[n] for n in names), **_line(look[names[0]])) for names, _ in ordered
    ]
    if any(study_points(panel, setting) for panel in panels):
        handles.append(Line2D([], [], label="study (its own machine)", **_study()))
    return handles


def _key(shown: Iterable[Entry], look: dict[str, Style]) -> str | None:
    return "dashed: hand-written adjoint" if any(look[e.implementation].dashed for e in shown) else None


def _line(style: Style) -> dict[str, Any]:
    dashes = "--" if style.dashed else "-"
    return {"color": style.colour, "marker": style.marker, "markersize": 5, "linewidth": 1.2, "linestyle": dashes}


def _study() -> dict[str, Any]:
    return {"color": STUDY_COLOUR, "marker": "o", "markerfacecolor": "none", "linestyle": "none", "markersize": 7}
