"""What the figures plot: the study's points where they belong, rows that coincide as one line, failures by name."""

from __future__ import annotations

import pytest
from made_up import make_record

from harness.report.data import cases, main_settings
from harness.report.figures import PANELS, failed, figure, series, study_points
from harness.report.style import styles

FORWARD, GRADIENT = PANELS["time"]
(SLOTS,) = PANELS["slots"]


def setting(**fields):
    return main_settings(cases([make_record(**fields)]))[0]


def test_the_studys_points_by_panel_and_device():
    assert study_points(FORWARD, setting()) == [("Enzyme.jl", 1_000_000, 1.42), ("JAX", 1_000_000, 5.46)]
    on_gpu = study_points(GRADIENT, setting(device="cuda", device_name="Imagined GPU"))
    assert ("Reactant.jl", 100_000, 0.0211) in on_gpu
    assert ("Enzyme.jl", 1_000_000, 2.57) in on_gpu
    assert len(on_gpu) == 5  # Table 1's two, and three at N = 1e5: JAX's failure at 1e6 has no point


@pytest.mark.parametrize("change", [{"dtype": "float32"}, {"scenario": "clustered"}])
def test_the_studys_points_stand_beside_its_own_setting_only(change):
    assert study_points(GRADIENT, setting()._replace(**change)) == []


def test_rows_that_coincide_everywhere_are_one_line():
    records = [make_record(row, n, pair_slots=93 * n) for row in ("a", "b") for n in (1000, 2000)]
    records += [make_record("c", 1000, pair_slots=93_000), make_record("c", 2000, pair_slots=62_000)]
    assert series(SLOTS, cases(records)) == {
        ("a", "b"): [(1000, 3.0), (2000, 3.0)],
        ("c",): [(1000, 3.0), (2000, 1.0)],
    }


def test_points_without_a_value_are_left_out():
    records = [make_record("a", 1000), make_record("a", 2000, outcome="timeout")]
    assert [n for n, _ in series(GRADIENT, cases(records))[("a",)]] == [1000]


def test_failures_are_named_with_their_sizes():
    records = [make_record("a", n, outcome="timeout") for n in (2000, 1000)] + [make_record("b")]
    assert failed(cases(records)) == ["Title of a timeout at N = 1,000, 2,000"]


def test_no_two_rows_look_alike():
    names = [f"{family}_{k}" for family in ("enzyme", "jax", "numba", "torch", "warp") for k in range(3)][:14]
    look = styles(cases([make_record(name) for name in names]))
    assert len({(style.colour, style.marker) for style in look.values()}) == len(names)
    assert len({style.colour for name, style in look.items() if name.startswith("jax")}) == 1


def test_both_axes_are_logarithmic_and_the_legend_follows_the_lines():
    records = [
        make_record(row, n, gradient=[s * n] * 5) for row, s in (("slow", 3e-6), ("fast", 1e-6)) for n in (1000, 2000)
    ]
    found = cases(records)
    made = figure("time", main_settings(found)[0], found)
    assert {(axes.get_xscale(), axes.get_yscale()) for axes in made.axes} == {("log", "log")}
    labels = [words.get_text() for words in made.legends[0].get_texts()]
    assert labels == ["Title of slow", "Title of fast", "study (its own machine)"]
