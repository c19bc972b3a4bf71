"""Numbers and tables as text. What is missing is a dash; NaN and infinity never reach a reader."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard, TypeVar

from tabulate import tabulate

DASH = "\N{EN DASH}"
_TIMES = "\N{MULTIPLICATION SIGN}"
_FIGURE = re.compile(rf"\*{{0,2}}(\d|{DASH}$)")
_Item = TypeVar("_Item")

Columns = Mapping[str, Callable[[_Item], str]]
"""Header -> how an item's cell reads."""


def seconds(value: float | None) -> str:
    """A duration to three digits: 1.42 s, 30.6 ms, 12.0 µs."""
    if not _is_number(value):
        return DASH
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            return f"{_digits(value / scale)} {unit}"
    return f"{_digits(value / 1e-9)} ns"


def size(value: float | None) -> str:
    """Bytes in powers of ten: 1.23 GB, 456 MB."""
    if not _is_number(value):
        return DASH
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= scale:
            return f"{_digits(value / scale)} {unit}"
    return f"{value:.0f} B"


def count(value: int | None) -> str:
    """A whole number with separators: 91,105,454."""
    return DASH if value is None else f"{value:,}"


def short_count(value: int | None) -> str:
    """A whole number to three digits: 91.1 M."""
    if value is None:
        return DASH
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{_digits(value / scale)} {unit}"
    return str(value)


def times(value: float | None) -> str:
    """A ratio: 3.40×, 84×; a whole number, as the study prints its own, stays one."""
    if not _is_number(value):
        return DASH
    return f"{value:.0f}{_TIMES}" if value >= 10.0 or isinstance(value, int) else f"{value:.2f}{_TIMES}"


def number(value: float | None, digits: int = 2) -> str:
    """A plain number with a fixed number of decimals."""
    return f"{value:,.{digits}f}" if _is_number(value) else DASH


def per_cent(value: float | None) -> str:
    """A share: 1.4 %."""
    return f"{100.0 * value:.1f} %" if _is_number(value) else DASH


def exact(value: float | None) -> str:
    """A loss to the 15 digits that float64 holds."""
    return f"{value:.15g}" if _is_number(value) else DASH


def norm(value: float | None) -> str:
    """|g|_2 to the study's six decimals."""
    return f"{value:.6f}" if _is_number(value) else DASH


def difference(value: float | None) -> str:
    """A relative difference: 6.6e-16."""
    return f"{value:.1e}" if _is_number(value) else DASH


def one_line(text: str, most: int = 160) -> str:
    """Text as one line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table, columns of figures to the right."""
    cells = [[_escaped(cell) for cell in row] for row in rows]
    figures = [all(_FIGURE.match(row[k]) for row in cells) for k in range(len(headers))]
    align = ["right" if right else "left" for right in figures]
    return tabulate(cells, list(headers), tablefmt="pipe", disable_numparse=True, colalign=align)


def items_table(items: Sequence[_Item], columns: Columns[_Item], more: Sequence[Sequence[str]] = ()) -> str:
    """A markdown table with one line per item, and further lines below."""
    return table(list(columns), [[cell(item) for cell in columns.values()] for item in items] + [list(m) for m in more])


def _escaped(cell: str) -> str:
    return " ".join(cell.replace("|", "\\|").split())


def _digits(value: float) -> str:
    """Three significant digits without an exponent."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def _is_number(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)
