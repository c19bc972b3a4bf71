"""The segment operations' ratios as a figure: a panel for each framework and stage, a line for each operation."""

from __future__ import annotations

from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from harness.report.documents import heading
from harness.report.figures import RC, label
from harness.report.segments import ORDERS, Run, framework_title, means, short

_COLOURS = {"plain": "#0072B2", "peer": "#D55E00"}
_MARKERS = {"plain": "o", "peer": "s"}
_MARGIN = 1.2
_ASIDE = 0.3  # of a line, between libraries
_OURS_FASTER = "#f2f2f2"


def figure(run: Run) -> Figure:
    """The geometric mean over inputs of each operation's ratios, against each library, ids sorted and shuffled."""
    frameworks, stages = run.values("framework"), run.values("stage")
    found = means(run.ratios, ["framework", "library", "stage", "order", "op"])
    size = (3.0 * len(stages) + 2.6, (0.26 * len(run.values("op")) + 0.7) * len(frameworks) + 0.8)
    with matplotlib.rc_context(RC):
        made = Figure(figsize=size, layout="constrained")
        panels = made.subplots(len(frameworks), len(stages), sharex=True, sharey=True, squeeze=False)
        for row, framework in zip(panels, frameworks, strict=True):
            row[0].set_ylabel(label(framework_title(framework)))
            for axes, stage in zip(row, stages, strict=True):
                axes.set_title(label(stage))
                _draw(axes, run, framework, stage, found)
        panels[0, 0].set(xlim=(min(1.0, found.min()) / _MARGIN, max(1.0, found.max()) * _MARGIN))
        panels[0, 0].invert_yaxis()
        made.supxlabel("times as long as segment_ops; in the grey, segment_ops is faster")
        made.suptitle(
            f"Segment operations, {label(heading(run.computer))}\n{label(run.datetime[:10])}", x=0.01, ha="left"
        )
        made.legend(handles=_handles(run), loc="outside right upper", frameon=False)
    return made


def _draw(axes: Axes, run: Run, framework: str, stage: str, found: pd.Series) -> None:
    ops, libraries = run.values("op"), list(run.ratios["library"].unique())
    lines = found.unstack("op").reindex(columns=ops)
    for k, library in enumerate(libraries):
        aside = _ASIDE * (k - (len(libraries) - 1) / 2)
        for order in ORDERS:
            if (framework, library, stage, order) in lines.index:
                values = lines.loc[(framework, library, stage, order)]
                axes.plot(values, [place + aside for place in range(len(ops))], **_look(library, order))
    axes.axvspan(1, 1e6, color=_OURS_FASTER, zorder=0)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", yticks=range(len(ops)), yticklabels=[label(short(op)) for op in ops])
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y", color="#e0e0e0", linewidth=0.6)


def _handles(run: Run) -> list[Line2D]:
    return [
        Line2D([], [], label=label(f"{library}, {order} ids"), **_look(library, order))
        for library in run.ratios["library"].unique()
        for order in ORDERS
    ]


def _look(library: str, order: str) -> dict[str, Any]:
    """A colour for each library; hollow where ids are shuffled."""
    colour = _COLOURS.get(library, "black")
    fill = colour if order == "sorted" else "none"
    marker = _MARKERS.get(library, "D")
    return {"color": colour, "marker": marker, "markersize": 5, "markerfacecolor": fill, "linestyle": "none"}
