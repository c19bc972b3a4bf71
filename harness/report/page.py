"""One HTML file that needs no network: figures to point at, and a table of all records to sort and filter."""

from __future__ import annotations

import base64
import gzip
import html
import math
from collections.abc import Sequence
from importlib import resources
from typing import Any

import jinja2
import msgspec
import pandas as pd
import plotly.graph_objects as go
import plotly.io
from markupsafe import Markup
from plotly.subplots import make_subplots

from harness.contract.encoding import printable
from harness.report import tables, text
from harness.report.data import Setting, by_setting, compile_s, select
from harness.report.documents import FIGURES, describe, heading
from harness.report.figures import PANELS, Panel, failed, study_points
from harness.report.style import STUDY_COLOUR, Style, styles

# what the page may load: nothing that is not in it
_POLICY = "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data: blob:"

_SHOWN = (
    *("implementation", "scenario", "n", "device", "dtype", "threads", "options", "round", "outcome"),
    *("forward_s", "gradient_s", "forward_iqr_s", "gradient_iqr_s", "samples", "noisy"),
    *("search_slots", "pair_slots", "true_pairs", "build_s", "compile_s", "peak_host_bytes", "peak_device_bytes"),
    *("loss", "grad_norm", "max_rel_diff", "reallocations", "machine", "date", "commit", "reason"),
)
_HEADINGS = {
    "n": "N",
    "grad_norm": "‖g‖₂",
    "max_rel_diff": "max rel. diff",
    **{f"{name}_s": f"{name} [ms]" for name in ("forward", "gradient")},
    **{f"{name}_iqr_s": f"{name} IQR [ms]" for name in ("forward", "gradient")},
    **{f"{name}_s": f"{name} [s]" for name in ("build", "compile")},
    **{f"peak_{name}_bytes": f"peak {name} [MB]" for name in ("host", "device")},
}
_COLUMNS = {_HEADINGS.get(column, column.replace("_", " ")): column for column in _SHOWN}
"""Heading -> column of the frame of records."""
_SCALES = {"[ms]": 1e3, "[s]": 1.0, "[MB]": 1e-6}
_FORMATS = {"loss": ".15g", "‖g‖₂": ".6f", "max rel. diff": ".1e"}
"""Digits that are shown; six of all else that is no whole number."""
_ALSO = {
    **{name: text.seconds for name in _COLUMNS.values() if name.endswith("_s")},
    **{name: text.size for name in _COLUMNS.values() if name.endswith("_bytes")},
    **dict.fromkeys(("n", "search_slots", "pair_slots", "true_pairs"), text.short_count),
}
"""How tables elsewhere show a column: a search for that finds it too."""


def page(records: pd.DataFrame, cases: pd.DataFrame) -> str:
    """The page as HTML.

    Args:
        records: each is a line of the table.
        cases: made from them; the figures show them.
    """
    settings = [setting for setting, group in by_setting(cases) if select(group)["timed"].any()]
    figures = {kind: _figure(kind, settings, cases) for kind in FIGURES if settings}
    content = {
        **_table(records),
        "figures": figures,
        "templates": {
            name: plotly.io.templates[f"plotly_{base}"].to_plotly_json()
            for name, base in (("light", "white"), ("dark", "dark"))
        },
    }
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("harness.report"), undefined=jinja2.StrictUndefined, autoescape=True
    )
    return environment.get_template("page.html").render(
        policy=Markup(_POLICY),
        css=Markup(_resource(__package__, "templates/page.css").decode()),
        script=Markup(_resource(__package__, "templates/page.js").decode()),
        library_css=Markup(_resource("itables", "html/dt_bundle.css").decode()),
        plotly=_packed(_resource(__package__, "vendor/plotly-basic.min.js")),
        datatables=_packed(_resource("itables", "html/dt_bundle.js")),
        content=_json(content),
        machines=records.groupby("machine"),
        tables=tables,
        headings=[*_COLUMNS, "words"],
        figures=list(figures),
    )


def _table(records: pd.DataFrame) -> dict[str, Any]:
    """Headings, whether their columns are numbers, and the lines; a search finds what their last cells say too."""
    held = records.assign(
        compile_s=compile_s,
        samples=records["gradient_samples_s"].str.len().astype("Int64"),
        noisy=records["noisy"].map({True: "noisy"}),
        date=records["timestamp"].str[:10],
        commit=records["commit"].str[:10],
        reason=[None if pd.isna(reason) else text.one_line(reason) for reason in records["reason"]],
    )
    shown = pd.DataFrame({title: _shown(title, held[column]) for title, column in _COLUMNS.items()}, dtype=object)
    also = pd.DataFrame({name: held[name].map(show).astype(object) for name, show in _ALSO.items()})
    numeric = [pd.api.types.is_numeric_dtype(held[column].dtype) for column in _COLUMNS.values()]
    return {
        "columns": [
            {"title": title, "numeric": is_numeric} for title, is_numeric in zip(_COLUMNS, numeric, strict=True)
        ],
        "rows": shown.assign(also=also.agg(" ".join, axis=1)).to_numpy().tolist(),
    }


def _shown(title: str, column: pd.Series) -> list[Any]:
    """The values of a column as the page holds them; None for what is missing or empty."""
    scale = next((factor for unit, factor in _SCALES.items() if title.endswith(unit)), None)
    values = [None if pd.isna(value) or value == "" else value for value in column.tolist()]
    if scale is not None:
        return [value if value is None else float(f"{value * scale:.6g}") for value in values]
    if column.dtype == "float64":
        return [value if value is None else float(format(value, _FORMATS[title])) for value in values]
    return [printable(value) if isinstance(value, str) else value for value in values]


def _figure(kind: str, settings: Sequence[Setting], cases: pd.DataFrame) -> msgspec.Raw:
    """A figure whose menu chooses the setting, as Plotly's own JSON."""
    panels, look = PANELS[kind], styles(cases)
    figure = make_subplots(1, len(panels), shared_yaxes=True, subplot_titles=[panel.title for panel in panels])
    owners: list[Setting] = []
    for setting in settings:
        shown = select(cases, **setting._asdict())
        for column, panel in enumerate(panels, start=1):
            for trace in _traces(panel, setting, shown, look, legend=column == len(panels)):
                figure.add_trace(trace, row=1, col=column)
                owners.append(setting)
    for trace, owner in zip(figure.data, owners, strict=True):
        trace.visible = owner == settings[0]
    figure.update_xaxes(type="log", title="particles N", exponentformat="none", dtick=1)
    figure.update_yaxes(type="log", tickformat="~s" if panels[0].suffix else "~g", ticksuffix=panels[0].suffix)
    if panels[0].suffix and _decades(cases[[panel.column for panel in panels]]) > 1.5:
        figure.update_yaxes(dtick=1)
    place = {"x": 0, "xanchor": "left", "y": 1, "yanchor": "top", "pad": {"t": 14}}
    figure.update_layout(
        title={"text": _title(kind, settings[0], cases), **place},
        updatemenus=[_menu(kind, settings, owners, cases)] if len(settings) > 1 else [],
        legend={"font": {"size": 11}, "tracegroupgap": 0, "title": {"text": "dashed: hand-written adjoint"}},
        margin={"l": 60, "r": 20, "t": 110, "b": 50},
        template=None,
    )
    return msgspec.Raw(figure.to_json().encode())


def _decades(values: pd.DataFrame) -> float:
    """Powers of ten that the values span."""
    positive = values.astype("float64").stack().loc[lambda value: value > 0.0]
    return math.log10(positive.max() / positive.min()) if len(positive) else 0.0


def _menu(kind: str, settings: Sequence[Setting], owners: Sequence[Setting], cases: pd.DataFrame) -> dict[str, Any]:
    buttons = [
        {
            "label": _escaped(f"{heading(setting)}: {describe(setting)}"),
            "method": "update",
            "args": [{"visible": [owner == setting for owner in owners]}, {"title.text": _title(kind, setting, cases)}],
        }
        for setting in settings
    ]
    return {"buttons": buttons, "x": 1, "xanchor": "right", "y": 1.12, "yanchor": "bottom", "showactive": True}


def _title(kind: str, setting: Setting, cases: pd.DataFrame) -> str:
    days = tables.dates(select(cases, **setting._asdict()))
    below = (heading(setting), f"{describe(setting)}, measured {days}")
    return f"{FIGURES[kind]}<br><sub>{'<br>'.join(map(_escaped, below))}</sub>"


def _traces(
    panel: Panel, setting: Setting, shown: pd.DataFrame, look: dict[str, Style], legend: bool
) -> list[go.Scatter]:
    """A line for each row, the study's points, and a legend entry for each failure."""
    lines = shown.dropna(subset=panel.column).groupby("implementation")
    traces = [_line(panel, points, look[str(name)], legend) for name, points in lines]
    study = study_points(panel, setting)
    if study:
        traces.append(_ring([n for _, n, _ in study], [v for _, _, v in study], [s for s, _, _ in study], legend))
    if legend:
        traces += [_absence(line) for line in failed(shown)]
    return traces


def _line(panel: Panel, points: pd.DataFrame, style: Style, legend: bool) -> go.Scatter:
    first = points.iloc[0]
    return go.Scatter(
        x=points["n"].tolist(),
        y=points[panel.column].tolist(),
        name=_escaped(first["title"]),
        legendgroup=first["implementation"],
        showlegend=legend,
        mode="lines+markers",
        line={"color": style.colour, "width": 1.5, "dash": "dash" if style.dashed else "solid"},
        marker={"symbol": style.symbol, "size": 7},
        customdata=[_hover(case) for case in tables.remarked(points).itertuples()],
        hovertemplate="<b>%{fullData.name}</b><br>%{customdata}<extra></extra>",
    )


def _hover(case: Any) -> str:
    return (
        f"N = {case.n:,}<br>forward {text.seconds(case.forward_s)}, "
        f"gradient {text.seconds(case.gradient_s)} ({text.times(case.x_of_best)} of best row)<br>"
        f"spread {text.per_cent(case.spread)}, samples {case.samples}<br>"
        f"{text.count(case.pair_slots)} slots, {text.number(case.slots_per_pair)} a true pair<br>"
        f"peak memory {text.size(case.peak_bytes)}"
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
    return go.Scatter(x=[None], y=[None], name=_escaped(words), mode="markers", marker={"color": "rgba(0,0,0,0)"})


def _escaped(words: str) -> str:
    """Text for Plotly, which takes tags for markup and knows no entity for a quotation mark."""
    return html.escape(printable(words), quote=False)


def _json(content: object) -> Markup:
    """JSON inside a script element: without `<`, nothing in it can end the element or open a comment."""
    return Markup(msgspec.json.encode(content).decode().replace("<", r"\u003c"))


def _resource(package: str, path: str) -> bytes:
    return resources.files(package).joinpath(path).read_bytes()


def _packed(source: bytes) -> str:
    """Gzipped base64, the same for the same bytes."""
    return base64.b64encode(gzip.compress(source, mtime=0)).decode()
