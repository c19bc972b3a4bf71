"""Numbers and other people's words as text: three digits, units, a dash for what is missing, nothing that acts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeGuard

from tabulate import tabulate

from harness.contract.encoding import printable

if TYPE_CHECKING:
    import pandas as pd

DASH = "\N{EN DASH}"
_TIMES = "\N{MULTIPLICATION SIGN}"
_FIGURE = re.compile(rf"\*{{0,2}}(\d|{DASH}$)")
_ACTIVE = re.compile(
    r"[\\`|\[\]$]|\*(?=\S)|(?<=\S)\*|(?<![^\W_])_|_(?![^\W_])|<(?=[\w/!?])|&(?=#?\w+;)|~(?=~)|(?<=~)~"
    r"|^[#+=-](?=\s)|^>|(?<=^\d)[.)](?=\s)"
)
"""What markdown would take for markup; an asterisk between spaces and an underscore within a word are neither."""

Columns = Mapping[str, tuple[str, Callable[[Any], str]]]
"""Header -> the column of a frame that is shown under it, and how its values read."""


class Markdown(str):
    """Text that is markdown already."""

    __slots__ = ()


def markdown(words: object) -> Markdown:
    """Anything as markdown that reads as the words do, on one line; what is markdown already stays as it is."""
    if isinstance(words, Markdown):
        return words
    line = printable(" ".join(str(words).split()))
    return Markdown(_ACTIVE.sub(r"\\\g<0>", line))


def code(words: str) -> Markdown:
    """A name in code type, whatever characters it has."""
    fence = "`" * (1 + max(map(len, re.findall("`+", words)), default=0))
    space = " " * (len(fence) > 1)
    return Markdown(f"{fence}{space}{printable(words)}{space}{fence}".replace("|", "\\|"))


def words(value: object) -> str:
    """A word of a frame; a dash where it is missing or empty."""
    return str(value) if isinstance(value, str) and value else DASH


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
    return f"{value:,}" if _is_number(value) else DASH


def short_count(value: int | None) -> str:
    """A whole number to three digits: 91.1 M."""
    if not _is_number(value):
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


def one_line(words: str, most: int = 160) -> str:
    """Text as one printable line of at most so many characters."""
    line = printable(" ".join(words.split()))
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Markdown:
    """A markdown table, columns of figures to the right."""
    cells = [[markdown(cell) for cell in row] for row in rows]
    figures = [all(_FIGURE.match(row[k]) for row in cells) for k in range(len(headers))]
    align = ["right" if right else "left" for right in figures]
    shown = [markdown(header) for header in headers]
    return Markdown(tabulate(cells, shown, tablefmt="pipe", disable_numparse=True, colalign=align))


def frame_table(frame: pd.DataFrame, columns: Columns, below: Sequence[Sequence[str]] = ()) -> Markdown:
    """A markdown table with one line per row of a frame, and further lines below."""
    return table(list(columns), [*cells(frame, columns), *below])


def cells(frame: pd.DataFrame, columns: Columns) -> list[tuple[str, ...]]:
    """How the rows of a frame read."""
    return list(zip(*([show(value) for value in frame[name]] for name, show in columns.values()), strict=True))


def _digits(value: float) -> str:
    """Three significant digits without an exponent."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def _is_number(value: float | None) -> TypeGuard[float]:
    """Whether it is a finite number, not one of the marks of a missing one: None, NaN, pandas.NA."""
    return isinstance(value, Real) and math.isfinite(value)
