"""How a row looks in every figure: one marker a row, one colour a framework, dashes for a hand-written adjoint."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

STUDY_COLOUR = "#808080"

# Okabe and Ito's palette, which readers with any colour vision tell apart, without its yellow (too pale on white)
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_SYMBOLS = (
    *("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x"),
    *("triangle-left", "triangle-right", "pentagon", "star", "hexagon", "diamond-tall", "octagon"),
)
_MARKERS = tuple(zip("os^DvPX<>p*hd8", _SYMBOLS, strict=True))
"""Names of one shape in Matplotlib and in Plotly."""


class Style(NamedTuple):
    """Colour, the marker's name in Matplotlib and in Plotly, and whether the line is dashed."""

    colour: str
    marker: str
    symbol: str
    dashed: bool


def styles(cases: pd.DataFrame) -> dict[str, Style]:
    """Style of every row, the same in all figures of one set of records."""
    adjoints = cases.groupby("implementation")["adjoint"].last().fillna("")
    families = sorted(adjoints.index.map(_family).unique())
    return {
        name: Style(
            _COLOURS[families.index(_family(name)) % len(_COLOURS)],
            *_MARKERS[k % len(_MARKERS)],
            "hand-written" in adjoints[name],
        )
        for k, name in enumerate(adjoints.index)
    }


def _family(implementation: str) -> str:
    return implementation.split("_")[0]
