# ruff: noqa: RUF001
"""Numbers as text: three digits, units, and a dash for all that is missing or not finite."""

from __future__ import annotations

import math

import pytest

from harness.report import text

SECONDS = {
    1.42: "1.42 s",
    5.978: "5.98 s",
    13.9: "13.9 s",
    99.96: "100 s",
    1234.5: "1,234 s",
    0.0306: "30.6 ms",
    0.1961: "196 ms",
    0.9999: "1,000 ms",
    1.2e-5: "12.0 µs",
    3.2e-9: "3.20 ns",
    0.0: "0.00 ns",
}


@pytest.mark.parametrize(("value", "words"), SECONDS.items())
def test_seconds(value, words):
    assert text.seconds(value) == words


def test_other_numbers():
    assert text.size(1_234_000_000) == "1.23 GB"
    assert text.size(456) == "456 B"
    assert text.count(91_105_454) == "91,105,454"
    assert text.short_count(91_105_454) == "91.1 M"
    assert (text.times(3.366), text.times(84.0), text.times(3)) == ("3.37×", "84×", "3×")
    assert text.per_cent(0.0142) == "1.4 %"
    assert text.exact(12476.3617428793) == "12476.3617428793"
    assert text.norm(7526.0666058) == "7526.066606"
    assert text.difference(6.6e-16) == "6.6e-16"


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_a_dash(value):
    shown = [text.seconds, text.size, text.times, text.number, text.per_cent, text.exact, text.norm, text.difference]
    assert {show(value) for show in shown} == {"–"}


def test_one_line_cuts_and_joins():
    assert text.one_line("a\n  b\tc") == "a b c"
    assert text.one_line("x" * 200, 10) == "x" * 9 + "…"


def test_table_aligns_figures_right_and_keeps_cells_whole():
    lines = text.table(
        ("name", "value", "words"), [["a", "1.0 s", "p | q\nr"], ["b", "–", "2 | x"], ["c", text.Markdown("*3 s*"), ""]]
    )
    header, rule, first, *_ = lines.splitlines()
    assert rule.split("|")[1].startswith(":")
    assert rule.split("|")[2].endswith(":")
    assert rule.split("|")[3].startswith(":")
    assert header.count("|") == 4
    assert "p \\| q r" in first
