"""The segment operations' timings: a pytest-benchmark JSON file becomes one table and one figure of ratios.

A ratio is another library's median time over that of this project's operations in the same framework, on the same
input: above 1, this project's are faster. Ratios of several inputs are joined by their geometric mean.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure
from tabulate import tabulate

from harness.report.figures import save

_OURS = "segment_ops"


class Column(NamedTuple):
    """Which ratios a column of the table shows."""

    framework: str
    library: str
    order: str

    @property
    def title(self) -> str:
        """The column's heading."""
        return f"{self.framework} / {self.library}, {self.order}"


class Timing(NamedTuple):
    """One benchmark: what was timed, on which input, and its median in seconds."""

    op: str
    stage: str
    column: Column
    rest: tuple[Any, ...]
    seconds: float


def segments_table(json_path: Path) -> str:
    """The ratios of every operation and stage, and their geometric means, as a markdown table with its caption.

    Args:
        json_path: what `pytest --benchmark-json` wrote.
    """
    timings = _timings(json_path)
    ratios, columns = _ratios(timings), _columns(timings)
    rows = []
    for stage in dict.fromkeys(timing.stage for timing in timings):
        ops = list(dict.fromkeys(timing.op for timing in timings if timing.stage == stage))
        rows += [[stage, op, *(_mean(ratios, [op], stage, column) for column in columns)] for op in ops]
        rows.append([stage, "**all**", *(_mean(ratios, ops, stage, column) for column in columns)])
    heading = ["stage", "operation", *(column.title for column in columns)]
    return f"{_caption(json_path)}\n\n{tabulate(rows, heading, tablefmt='github', floatfmt='.2f', missingval='')}\n"


def segments_figure(json_path: Path, out_stem: Path) -> list[Path]:
    """The same ratios as one figure; writes `out_stem` with .svg and .png, and returns both paths.

    Args:
        json_path: what `pytest --benchmark-json` wrote.
        out_stem: path without a suffix.
    """
    timings = _timings(json_path)
    ratios, columns = _ratios(timings), _columns(timings)
    stages = list(dict.fromkeys(timing.stage for timing in timings))
    ops = list(dict.fromkeys(timing.op for timing in timings))
    with matplotlib.rc_context({"svg.hashsalt": "pairgrad", "font.size": 9}):
        made = Figure(figsize=(4 * len(stages) + 2.5, 4), layout="constrained")
        for axes, stage in zip(made.subplots(1, len(stages), sharey=True, squeeze=False)[0], stages, strict=True):
            for marker, column in zip("osD^vPX<>", columns, strict=False):
                points = [_mean(ratios, [op], stage, column) for op in ops]
                axes.plot([point or float("nan") for point in points], ops, marker, label=column.title, alpha=0.8)
            axes.axvline(1, color="black", linewidth=0.8)
            axes.set(title=stage, xscale="log", xlabel="times as long as segment_ops")
            axes.grid(axis="x", which="both", alpha=0.3)
        made.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False)
        paths = [out_stem.with_suffix(suffix) for suffix in (".svg", ".png")]
        for path in paths:
            save(made, path)
    return paths


def _timings(json_path: Path) -> list[Timing]:
    benchmarks = json.loads(json_path.read_text())["benchmarks"]
    return [
        Timing(
            info["op"],
            info["stage"],
            Column(info["framework"], info["library"], info["order"]),
            (info["n"], info["segments"], info["dtype"]),
            entry["stats"]["median"],
        )
        for entry in benchmarks
        if "library" in (info := entry["extra_info"])
    ]


def _columns(timings: Iterable[Timing]) -> list[Column]:
    """Every library but this one: by framework, sorted ids before shuffled ones."""
    columns = {timing.column for timing in timings if timing.column.library != _OURS}
    return sorted(columns, key=lambda column: (column.framework, column.library, column.order != "sorted"))


def _ratios(timings: Iterable[Timing]) -> dict[tuple[str, str, Column], list[float]]:
    """(operation, stage, column) -> the ratio on every input that both libraries were timed on."""
    timings = list(timings)
    ours = {(t.op, t.stage, t.column, t.rest): t.seconds for t in timings if t.column.library == _OURS}
    ratios: dict[tuple[str, str, Column], list[float]] = {}
    for timing in timings:
        own = ours.get((timing.op, timing.stage, timing.column._replace(library=_OURS), timing.rest))
        if own is not None and timing.column.library != _OURS:
            ratios.setdefault((timing.op, timing.stage, timing.column), []).append(timing.seconds / own)
    return ratios


def _mean(
    ratios: dict[tuple[str, str, Column], list[float]], ops: Sequence[str], stage: str, column: Column
) -> float | None:
    values = [value for op in ops for value in ratios.get((op, stage, column), [])]
    return geometric_mean(values) if values else None


def _caption(json_path: Path) -> str:
    content = json.loads(json_path.read_text())
    inputs = [entry["extra_info"] for entry in content["benchmarks"] if "library" in entry["extra_info"]]
    sizes = ", ".join(f"{size:,}" for size in sorted({info["n"] for info in inputs}))
    segments = ", ".join(f"{count:,}" for count in sorted({info["segments"] for info in inputs}))
    machine = content["machine_info"]
    return (
        "Median time of a library over that of `segment_ops` in the same framework, geometric mean over inputs: above "
        f"1, `segment_ops` is faster. N = {sizes}; {segments} segments; "
        f"{' and '.join(sorted({info['dtype'] for info in inputs}))}; "
        f"{machine.get('cpu', {}).get('brand_raw', machine['machine'])}, {content['datetime'][:10]}."
    )
