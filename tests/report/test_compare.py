# ruff: noqa: RUF001
"""Verdicts of two sets of records: statistics by simulation, and what must never be compared."""

from __future__ import annotations

import numpy as np
import pytest
from made_up import make_record
from selection import thorough

from harness.report import compare as comparing
from harness.report.compare import markdown

REPETITIONS = 400
SAMPLE_COUNTS = (5, 10, 20)
"""The fewest samples a case has, and the number most have."""


def compare(old, new):
    return list(comparing.compare(old, new).itertuples())


def noisy(rng, count, median=1.0):
    return list(median * (1.0 + 0.05 * rng.standard_normal(count)))


def heavy_tailed(rng, count, median=1.0):
    """The same 5 % for most samples, and one in twenty up to half as long again, as an interrupted process has."""
    return list(
        median * (1.0 + 0.05 * rng.standard_normal(count) + 0.5 * rng.random(count) * (rng.random(count) < 0.05))
    )


def verdicts(draw, count, slower=1.0):
    """Verdicts of many cases whose new gradient takes `slower` times as long, forward passes as before."""
    rng = np.random.default_rng(count)
    sets = [], []
    for n in range(REPETITIONS):
        for records, factor in zip(sets, (1.0, slower), strict=True):
            records.append(make_record(n=n + 1, forward=draw(rng, count), gradient=draw(rng, count, factor)))
    return [comparison.verdict for comparison in compare(*sets)]


@pytest.mark.parametrize("count", thorough(SAMPLE_COUNTS, few=[5]))
@pytest.mark.parametrize("draw", thorough([noisy, heavy_tailed], few=[heavy_tailed]))
def test_equal_cases_are_rarely_called_different(draw, count):
    called = verdicts(draw, count)
    assert sum(verdict in ("slower", "faster") for verdict in called) <= REPETITIONS / 20


@pytest.mark.parametrize("count", thorough(SAMPLE_COUNTS, few=[5]))
def test_a_slow_down_of_a_fifth_is_found(count):
    assert verdicts(noisy, count, slower=1.2).count("slower") >= REPETITIONS * 19 / 20


@pytest.mark.parametrize("count", thorough(SAMPLE_COUNTS, few=[]))
def test_a_speed_up_of_a_fifth_is_found(count):
    assert verdicts(noisy, count, slower=1 / 1.2).count("faster") >= REPETITIONS * 19 / 20


def test_a_difference_below_the_minimum_effect_is_the_same():
    old, new = (
        make_record(gradient=[1.0, 1.001, 1.002, 1.003, 1.004]),
        make_record(gradient=[1.04, 1.041, 1.042, 1.043, 1.044]),
    )
    (comparison,) = compare([old], [new])
    assert comparison.verdict == "same"
    assert comparison.gradient.p < 0.01
    assert comparison.gradient.ratio == pytest.approx(1.042 / 1.002)


def test_a_difference_the_test_cannot_tell_is_ambiguous():
    old, new = make_record(gradient=[1.0, 1.1, 1.2, 1.3, 1.4]), make_record(gradient=[1.0, 1.2, 1.4, 1.5, 1.6])
    (comparison,) = compare([old], [new])
    assert comparison.verdict == "ambiguous"


def test_noisy_samples_that_the_test_tells_apart_are_ambiguous_unless_their_middle_halves_are_apart():
    """Thirty samples each, tens of per cent wide: a busy machine's, which the rank test alone calls faster."""
    spread = np.linspace(0.8, 1.2, 30)
    for shift, verdict in ((0.85, "ambiguous"), (0.5, "faster")):
        old, new = (make_record(gradient=list(factor * spread)) for factor in (1.0, shift))
        (comparison,) = compare([old], [new])
        assert comparison.gradient.p < 1e-4
        assert comparison.gradient.verdict == verdict


def test_the_slower_of_forward_and_gradient_decides():
    old = make_record(forward=[1.0] * 5, gradient=[1.0] * 5)
    new = make_record(forward=[2.0] * 5, gradient=[0.5] * 5)
    (comparison,) = compare([old], [new])
    assert (comparison.verdict, comparison.forward.verdict, comparison.gradient.verdict) == (
        "slower",
        "slower",
        "faster",
    )


def test_rounds_are_pooled():
    def rounds(factor):
        return [
            make_record(round=k, gradient=[factor * (1 + 0.01 * k + 0.001 * s) for s in range(5)]) for k in range(3)
        ]

    (comparison,) = compare(rounds(1.0), rounds(1.1))
    assert comparison.verdict == "slower"
    assert comparison.gradient.old_s == pytest.approx(1.012)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"processor": "Another CPU"}, "processor (Imagined CPU @ 3 GHz, Another CPU)"),
        ({"cores": 8}, "cores (2, 8)"),
        ({"dtype": "float32"}, "dtype (float64, float32)"),
        ({"threads": 1}, "threads (2, 1)"),
        ({"device": "cuda", "device_name": "Imagined GPU"}, "device (cpu, cuda)"),
    ],
)
def test_what_differs_is_not_comparable(change, named):
    (comparison,) = compare([make_record()], [make_record(gradient=[9.0] * 5, **change)])
    assert comparison.verdict == "not comparable"
    assert comparison.reason.startswith("not comparable: ")
    assert named in comparison.reason
    assert comparison.gradient is None


def test_another_accelerator_is_not_comparable():
    old, new = (make_record(device="cuda", device_name=name) for name in ("Old GPU", "New GPU"))
    (comparison,) = compare([old], [new])
    assert comparison.reason == "not comparable: accelerator (Old GPU, New GPU)"


def test_an_exact_partner_is_preferred():
    old = [make_record(), make_record(dtype="float32")]
    new = [make_record(), make_record(dtype="float32"), make_record(threads=1)]
    found = {c.case_id: c.verdict for c in compare(old, new)}
    assert sorted(found.values()) == ["only in new", "same", "same"]


def test_other_sizes_and_options_are_other_cases():
    old, new = make_record(n=1000), make_record(n=2000)
    assert [c.verdict for c in compare([old], [new])] == ["only in old", "only in new"]
    changed = make_record(options={"capacity_multiplier": 2.0})
    assert {c.verdict for c in compare([make_record()], [changed])} == {"only in old", "only in new"}


def test_what_is_not_recorded_is_unknown():
    (comparison,) = compare([make_record(processor=None)], [make_record(processor=None)])
    assert (comparison.verdict, comparison.reason) == ("unknown", "processor not recorded")
    (comparison,) = compare([make_record()], [make_record(processor=None)])
    assert comparison.verdict == "unknown"
    (comparison,) = compare([make_record()], [make_record(gradient_samples_s=None)])
    assert (comparison.verdict, comparison.reason) == ("unknown", "no gradient samples in new")


def test_outcomes_that_change_are_told():
    ok, failed = make_record(), make_record(outcome="out-of-memory-host", reason="ended at 9 GB")
    (broken,) = compare([ok], [failed])
    assert (broken.verdict, broken.reason) == ("broken", "ok → out-of-memory-host: ended at 9 GB")
    assert compare([failed], [ok])[0].verdict == "mended"
    assert compare([failed], [failed])[0].verdict == "unknown"


def test_duplicates_are_reported_and_the_newest_counts():
    later = make_record(gradient=[2.0] * 5, timestamp="2026-03-01T00:00:00+00:00")
    (comparison,) = compare([make_record(gradient=[1.0] * 5), later], [make_record(gradient=[2.0] * 5)])
    assert comparison.reason == "1 duplicate left out, the newest of each round counts (old)"
    assert comparison.gradient.old_s == 2.0


@pytest.mark.parametrize(("old", "new", "verdict"), [(0.0, 0.0, "same"), (0.0, 1e-3, "slower"), (1e-3, 0.0, "faster")])
def test_samples_of_no_time_at_all(old, new, verdict):
    found = comparing.compare([make_record(gradient=[old] * 5)], [make_record(gradient=[new] * 5)])
    assert list(found["verdict"]) == [verdict]
    assert "nan" not in markdown(found)
    assert "inf" not in markdown(found)


def test_nothing_to_compare():
    assert compare([], []) == []
    assert "nothing to compare" in markdown(comparing.compare([], []))


def test_markdown_holds_no_nan():
    comparisons = comparing.compare([make_record(gradient=[1.0] * 5)], [make_record(gradient=[2.0] * 5)])
    page = markdown(comparisons)
    assert "**slower**" in page
    assert "1.00 s → 2.00 s (2.00×)" in page
    assert "nan" not in page.lower()


def test_identical_samples_are_the_same():
    (comparison,) = compare([make_record(gradient=[1.0] * 5)], [make_record(gradient=[1.0] * 5)])
    assert comparison.verdict == "same"
    assert comparison.gradient.p == 1.0
