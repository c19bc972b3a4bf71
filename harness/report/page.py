"""One HTML file that needs no network: figures to point at, and a table of all records to sort and filter."""

from __future__ import annotations

import base64
import gzip
import html
import math
from collections.abc import Callable, Sequence
from importlib import resources
from string import Template
from typing import Any

import msgspec
import plotly.graph_objects as go
import plotly.io
from plotly.subplots import make_subplots

from harness.contract.records import Record
from harness.report import tables, text
from harness.report.data import Entry, Setting, by_setting, machine, pick, total
from harness.report.documents import FIGURES, describe, heading
from harness.report.figures import PANELS, Panel, failed, study_points
from harness.report.style import STUDY_COLOUR, Style, styles

# what the page may load: nothing that is not in it
_POLICY = "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data: blob:"

_COLUMNS: dict[str, Callable[[Record], Any]] = {
    "implementation": lambda r: r.implementation,
    "scenario": lambda r: r.scenario,
    "N": lambda r: r.n,
    "device": lambda r: r.device,
    "dtype": lambda r: r.dtype,
    "threads": lambda r: r.threads,
    "options": lambda r: ", ".join(f"{k} {v:g}" for k, v in sorted(r.options.items())) or None,
    "round": lambda r: r.round,
    "outcome": lambda r: r.outcome,
    "forward [ms]": lambda r: _scaled(r.forward_s, 1e3),
    "gradient [ms]": lambda r: _scaled(r.gradient_s, 1e3),
    "forward IQR [ms]": lambda r: _scaled(r.forward_iqr_s, 1e3),
    "gradient IQR [ms]": lambda r: _scaled(r.gradient_iqr_s, 1e3),
    "samples": lambda r: len(r.gradient_samples_s) if r.gradient_samples_s else None,
    "noisy": lambda r: "noisy" if r.noisy else None,
    "pair slots": lambda r: r.pair_slots,
    "true pairs": lambda r: r.true_pairs,
    "compile [s]": lambda r: _scaled(total(r.compile_forward_s, r.compile_gradient_s), 1.0),
    "peak host [MB]": lambda r: _scaled(r.peak_host_bytes, 1e-6),
    "peak device [MB]": lambda r: _scaled(r.peak_device_bytes, 1e-6),
    "loss": lambda r: r.loss,
    "‖g‖₂": lambda r: r.grad_norm,
    "max rel. diff": lambda r: r.max_rel_diff,
    "reallocations": lambda r: r.reallocations,
    "machine": machine,
    "date": lambda r: r.timestamp[:10] or None,
    "commit": lambda r: str(r.environment.get("commit") or "")[:10] or None,
    "reason": lambda r: text.one_line(r.reason) if r.reason else None,
}
_NUMERIC = frozenset(
    name
    for name in _COLUMNS
    if name.endswith("]")
    or name
    in (
        "N",
        "threads",
        "round",
        "samples",
        "pair slots",
        "true pairs",
        "loss",
        "‖g‖₂",
        "max rel. diff",
        "reallocations",
    )
)


def page(records: Sequence[Record], entries: Sequence[Entry]) -> str:
    """The page as HTML.

    Args:
        records: each is a line of the table.
        entries: made from the records; the figures show them.
    """
    settings = [s for s in by_setting(entries) if any(e.timed for e in pick(entries, **s._asdict()))]
    content: dict[str, Any] = {
        "columns": [{"title": name, "numeric": name in _NUMERIC} for name in _COLUMNS],
        "rows": [[value(record) for value in _COLUMNS.values()] for record in records],
        "figures": {kind: _figure(kind, settings, entries) for kind in FIGURES if settings},
        "templates": {name: _template(f"plotly_{theme}") for name, theme in (("light", "white"), ("dark", "dark"))},
    }
    return Template(_resource(__package__, "page.html").decode()).substitute(
        policy=_POLICY,
        css=_resource(__package__, "page.css").decode(),
        script=_resource(__package__, "page.js").decode(),
        library_css=_resource("itables", "html/dt_bundle.css").decode(),
        plotly=_packed(_resource(__package__, "vendor/plotly-basic.min.js")),
        datatables=_packed(_resource("itables", "html/dt_bundle.js")),
        content=msgspec.json.encode(content).decode().replace("</", "<\\/"),
        machines="".join(f"<li>{html.escape(line)}</li>" for line in _machines(records)),
        headings="".join(f"<th>{html.escape(name)}</th>" for name in _COLUMNS),
        figures="".join(f'<div class="figure" id="{kind}"></div>' for kind in content["figures"]),
    )


def _machines(records: Sequence[Record]) -> list[str]:
    """Machine, dates and commits, one line each."""
    names = sorted({machine(record) for record in records})
    groups = [[r for r in records if machine(r) == name] for name in names]
    return [
        f"{name}: {len(group)} records, {tables.dates(group)}, commit {tables.commits(group)}"
        for name, group in zip(names, groups, strict=True)
    ]


def _figure(kind: str, settings: Sequence[Setting], entries: Sequence[Entry]) -> msgspec.Raw:
    """A figure whose menu chooses the setting, as Plotly's own JSON."""
    panels, look = PANELS[kind], styles(entries)
    figure = make_subplots(1, len(panels), shared_yaxes=True, subplot_titles=[panel.title for panel in panels])
    owners: list[Setting] = []
    for setting in settings:
        shown = pick(entries, **setting._asdict())
        for column, panel in enumerate(panels, start=1):
            for trace in _traces(panel, setting, shown, look, legend=column == len(panels)):
                figure.add_trace(trace, row=1, col=column)
                owners.append(setting)
    for trace, owner in zip(figure.data, owners, strict=True):
        trace.visible = owner == settings[0]
    figure.update_xaxes(type="log", title="particles N", exponentformat="none", dtick=1)
    figure.update_yaxes(type="log", tickformat="~s" if panels[0].unit else "~g", ticksuffix=panels[0].unit)
    if panels[0].unit and _decades(panels, entries) > 1.5:
        figure.update_yaxes(dtick=1)
    figure.update_layout(
        title={
            "text": _title(kind, settings[0], entries),
            "x": 0,
            "xanchor": "left",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 14},
        },
        updatemenus=[_menu(kind, settings, owners, entries)] if len(settings) > 1 else [],
        legend={"font": {"size": 11}, "tracegroupgap": 0, "title": {"text": "dashed: hand-written adjoint"}},
        margin={"l": 60, "r": 20, "t": 110, "b": 50},
        template=None,
    )
    return msgspec.Raw(figure.to_json().encode())


def _decades(panels: Sequence[Panel], entries: Sequence[Entry]) -> float:
    """Powers of ten that the values span."""
    values = [value for panel in panels for entry in entries if (value := panel.value(entry))]
    return math.log10(max(values) / min(values)) if values else 0.0


def _menu(
    kind: str, settings: Sequence[Setting], owners: Sequence[Setting], entries: Sequence[Entry]
) -> dict[str, Any]:
    buttons = [
        {
            "label": f"{heading(setting)}: {describe(setting)}",
            "method": "update",
            "args": [
                {"visible": [owner == setting for owner in owners]},
                {"title.text": _title(kind, setting, entries)},
            ],
        }
        for setting in settings
    ]
    return {"buttons": buttons, "x": 1, "xanchor": "right", "y": 1.12, "yanchor": "bottom", "showactive": True}


def _title(kind: str, setting: Setting, entries: Sequence[Entry]) -> str:
    days = tables.dates(e.record for e in pick(entries, **setting._asdict()))
    return f"{FIGURES[kind]}<br><sub>{html.escape(heading(setting))}<br>{describe(setting)}, measured {days}</sub>"


def _traces(
    panel: Panel, setting: Setting, shown: Sequence[Entry], look: dict[str, Style], legend: bool
) -> list[go.Scatter]:
    """A line for each row, the study's points, and a legend entry for each failure."""
    rows = {e.implementation: [o for o in shown if o.implementation == e.implementation] for e in shown}
    traces = [
        _line(panel, points, look[name], legend)
        for name, found in rows.items()
        if (points := [e for e in found if panel.value(e) is not None])
    ]
    study = study_points(panel, setting)
    if study:
        traces.append(
            _ring([n for _, n, _ in study], [v for _, _, v in study], [system for system, _, _ in study], legend)
        )
    if legend:
        traces += [_absence(line) for line in failed(shown)]
    return traces


def _line(panel: Panel, points: Sequence[Entry], style: Style, legend: bool) -> go.Scatter:
    return go.Scatter(
        x=[e.n for e in points],
        y=[panel.value(e) for e in points],
        name=html.escape(points[0].title),
        legendgroup=points[0].implementation,
        showlegend=legend,
        mode="lines+markers",
        line={"color": style.colour, "width": 1.5, "dash": "dash" if style.dashed else "solid"},
        marker={"symbol": style.symbol, "size": 7},
        customdata=[_hover(e) for e in points],
        hovertemplate="<b>%{fullData.name}</b><br>%{customdata}<extra></extra>",
    )


def _hover(entry: Entry) -> str:
    return (
        f"N = {entry.n:,}<br>forward {text.seconds(entry.record.forward_s)}, "
        f"gradient {text.seconds(entry.record.gradient_s)} ({text.times(entry.x_of_best)} of best row)<br>"
        f"spread {text.per_cent(entry.spread)}, samples {tables.samples(entry)}<br>"
        f"{text.count(entry.record.pair_slots)} slots, {text.number(entry.padding)} a true pair<br>"
        f"peak memory {text.size(entry.peak_bytes)}"
    )


def _ring(sizes: list[int], values: list[float], systems: list[str], legend: bool) -> go.Scatter:
    return go.Scatter(
        x=sizes,
        y=values,
        name="study (its own machine)",
        legendgroup="study",
        showlegend=legend,
        mode="markers",
        marker={"symbol": "circle-open", "size": 11, "color": STUDY_COLOUR, "line": {"width": 2}},
        customdata=systems,
        hovertemplate="<b>study: %{customdata}</b><br>N = %{x:,}<br>%{y:.3s}s, its own machine<extra></extra>",
    )


def _absence(words: str) -> go.Scatter:
    """A failure: named in the legend, plotted nowhere."""
    return go.Scatter(x=[None], y=[None], name=html.escape(words), mode="markers", marker={"color": "rgba(0,0,0,0)"})


def _template(name: str) -> dict[str, Any]:
    return plotly.io.templates[name].to_plotly_json()


def _scaled(value: float | None, factor: float) -> float | None:
    """A number to six digits in another unit."""
    return None if value is None else float(f"{value * factor:.6g}")


def _resource(package: str, path: str) -> bytes:
    return resources.files(package).joinpath(path).read_bytes()


def _packed(source: bytes) -> str:
    """Gzipped base64, the same for the same bytes."""
    return base64.b64encode(gzip.compress(source, mtime=0)).decode()
