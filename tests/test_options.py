"""The values of options: each that is none is refused with the value, the limit and a way out."""

from __future__ import annotations

import math

import click
import pytest

from harness.options import Bytes, Seconds, Shard, Whole

N = Whole("particles", 0, "1000 or 1e5")
THREADS = Whole("cores", 1, "4")
TYPES = (N, THREADS, Seconds(1.0), Bytes(), Shard())
NO_NUMBERS = ["nan", "NaN", "-nan", "", " ", "many", "²", "٣", "1²", "\uff11", "0x10", "1,5", "½"]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("text", [*NO_NUMBERS, "-1", "-inf"])
def test_what_is_no_number_is_refused(kind: click.ParamType, text: str) -> None:
    with pytest.raises(click.BadParameter) as told:
        kind.convert(text, None, None)
    assert repr(text) in told.value.message
    assert "write for instance" in told.value.message


@pytest.mark.parametrize("kind", [N, THREADS, Bytes(), Shard()])
@pytest.mark.parametrize("text", ["inf", "Infinity", "1e400", "9" * 5000])
def test_what_has_to_be_finite_is(kind: click.ParamType, text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"below (2\^31|8 EiB)"):
        kind.convert(text, None, None)


@pytest.mark.parametrize("text", ["inf", "Infinity", "1e400"])
def test_infinitely_many_seconds_are_no_limit(text: str) -> None:
    assert Seconds(1.0).convert(text, None, None) == math.inf


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (N, "0", 0),
        (N, "1e5", 100_000),
        (N, "100_000", 100_000),
        (N, " 7 ", 7),
        (N, "2147483647", 2**31 - 1),
        (THREADS, "1", 1),
        (Seconds(0.0), "0", 0.0),
        (Seconds(0.0), "0.5", 0.5),
        (Seconds(1.0), 600.0, 600.0),
        (Bytes(), "1", 1),
        (Bytes(), "8G", 8 << 30),
        (Bytes(), "8 GiB", 8 << 30),
        (Bytes(), "1.5k", 1536),
        (Bytes(), "500mb", 500 << 20),
        (Bytes(), "1e9", 10**9),
        (Shard(), "2/4", (2, 4)),
        (Shard(), "4/4", (4, 4)),
    ],
)
def test_a_value_is_read(kind: click.ParamType, text: object, value: object) -> None:
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (THREADS, "0"),
        (N, "1.5"),
        (N, "2147483648"),
        (Seconds(1.0), "0.5"),
        (Bytes(), "0"),
        (Bytes(), "0.5"),
        (Bytes(), "8GG"),
        (Bytes(), "8KG"),
        (Bytes(), "G"),
        (Bytes(), "8E"),
        (Bytes(), "1e308T"),
        (Bytes(), "8388608T"),
        (Shard(), "3/2"),
        (Shard(), "0/2"),
        (Shard(), "1"),
        (Shard(), "1/2/3"),
        (Shard(), "²/4"),
        (Shard(), "٢/٤"),
        (Shard(), "inf/inf"),
    ],
)
def test_what_lies_outside_is_refused(kind: click.ParamType, text: str) -> None:
    with pytest.raises(click.BadParameter, match="write for instance"):
        kind.convert(text, None, None)
