# ruff: noqa: RUF001
"""What the commands print: whole names within 100 columns, failures with reasons, no colours under NO_COLOR."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from made_up import make_record
from rich.console import Console, Group

from harness import terminal
from harness.report.compare import compare
from harness.run.describe import Availability


def printed(*parts, width=100, **options):
    console = Console(file=io.StringIO(), width=width, **options)
    console.print(Group(*parts))
    return console.file.getvalue()


def lines_with(page, words):
    return [line for line in page.splitlines() if words in line]


def bench(**failure):
    rows = [
        make_record("enzyme_loops_threads", 1_000_000),
        make_record("jax_cell_list_adjoint", 1_000_000, gradient=[9.0] * 5),
    ]
    reason = "ended at 21.60 GB, limit 21.60 GB, during gradient"
    return [*rows, make_record("torch_index_add", 1_000_000, outcome="out-of-memory-device", reason=reason, **failure)]


def test_timing_table_by_hand():
    page = printed(terminal.timing_tables(bench()))
    (line,) = lines_with(page, "jax_cell_list_adjoint")
    assert " ".join(line.split()) == "jax_cell_list_adjoint 1.00 s 9.00 s 9.00× 3.00× 93.0 M 1.50 s 100 MB ok"
    assert lines_with(page, "N = 1,000,000: published input, float64, 2 threads, CPU")
    assert lines_with(page, "study: JAX")


def test_failures_come_last_and_what_was_foreseen_has_its_reason():
    assert "ended at 21.60 GB" not in printed(terminal.timing_tables(bench()))  # the command's to tell
    page = printed(terminal.timing_tables(bench(expected=["out-of-memory-device"])))
    order = [page.index(name) for name in ("enzyme_loops_threads", "jax_cell_list_adjoint", "torch_index_add")]
    assert order == sorted(order)
    assert "torch_index_add: out-of-memory-device: ended at 21.60 GB" in page


def test_rows_that_fail_alike_share_a_line():
    records = [make_record(name, outcome="unavailable", reason="no CUDA device") for name in ("a", "b")]
    assert lines_with(printed(terminal.agreement_table(records)), "a, b: unavailable: no CUDA device")


@pytest.mark.parametrize("table", [terminal.agreement_table, terminal.timing_tables])
def test_a_table_without_any_figure_is_left_out(table):
    failed = {"outcome": "unavailable", "reason": "no CUDA device"}
    records = [make_record("a"), make_record("b", **failed), make_record("b", 10, **failed)]
    page = printed(table(records))
    assert "N = 1,000" in page
    assert "N = 10" not in page.replace("N = 1,000", "")
    assert len(lines_with(page, "no CUDA device")) == 1


def test_agreement_table_is_the_studys():
    page = printed(terminal.agreement_table([make_record()]))
    (ours,) = lines_with(page, "warp_adjoint")
    assert ours.split() == ["warp_adjoint", "12476.361742879", "7526.066606", "6.6e-16", "ok"]
    (study,) = lines_with(page, "study: Reactant.jl")
    assert study.split()[2:] == ["12476.3617428792", "7526.066606", "6.6e-16"]


def test_hard_inputs_show_their_number_and_what_decides():
    """Not the difference relative to the worst input's gradient, which may vanish."""
    figures = {"reason": "30 inputs", "max_rel_diff": 0.29, "scaled_diff": 2e-16, "noisy": None}
    right = make_record("a", 0, scenario="hard", forward=[1.0] * 5, gradient=[1.0] * 5, **figures)
    wrong = make_record("b", 0, scenario="hard", outcome="disagrees", reason="lattice: wrong", scaled_diff=0.5)
    page = printed(terminal.agreement_table([right, wrong]))
    assert "Same gradient from all: hard inputs, float64, cpu" in page
    assert [lines_with(page, f" {name} ")[0].split() for name in "ab"] == [
        ["a", "30", "2.0e-16", "ok"],
        ["b", "–", "5.0e-01", "disagrees"],
    ]
    for absent in ("study", "2.9e-01", "loss"):
        assert absent not in page


def test_agreement_is_ordered_by_scenario_then_dtype():
    cases = [(s, d) for s in ("published", "clustered", "hard") for d in ("float64", "float32")]
    page = printed(terminal.agreement_table([make_record(scenario=s, dtype=d) for s, d in reversed(cases)]))
    titles = [line.split("all: ")[1] for line in lines_with(page, "Same gradient")]
    assert titles == [
        *(f"{s}, N = 1,000, {d}, cpu" for s, d in cases if s != "hard"),
        *(f"hard inputs, {d}, cpu" for d in ("float64", "float32")),
    ]


def test_comparison_names_verdict_figures_and_reason():
    comparisons = compare([make_record(gradient=[1.0] * 5)], [make_record(gradient=[2.0] * 5)])
    comparisons += compare([make_record()], [make_record(threads=1)])
    page = printed(terminal.comparison_table(comparisons), width=160)
    (slower,) = lines_with(page, " slower ")
    assert slower.split() == ["warp_adjoint/published/1000/cpu/float64/2t", "slower", "1.00×", "2.00×"]
    assert lines_with(page, "warp_adjoint/published/1000/cpu/float64/1t: not comparable: threads (2, 1)")
    assert lines_with(page, "1 slower, 1 not comparable.")


def test_availability():
    missing = {"cpu": None, "cuda": "no CUDA device"}
    description = msgspec.structs.replace(make_record().description, devices=("cpu", "cuda"))
    rows = [Availability(name=name, description=description, missing=missing) for name in ("a", "c")]
    cpu_only = Availability(name="d", description=make_record().description, missing={"cpu": None})
    page = printed(
        terminal.availability_table([*rows, cpu_only, Availability(name="b", problem="ImportError: no warp")])
    )
    assert [line.split()[-2:] for line in lines_with(page, "Title of")] == [["f32", "missing"]] * 2 + [["f32", "–"]]
    assert lines_with(page, "Title of warp_adjoint  f64, f32  missing")
    assert [line.split()[:2] for line in lines_with(page, "Title of")] == [["a", "none"], ["c", "none"], ["d", "none"]]
    assert lines_with(page, "a, c: cuda: no CUDA device")
    assert lines_with(page, "b: ImportError: no warp")


def everything():
    missing = "no CUDA device: this machine has no NVIDIA driver that nvidia-ml-py can load"
    rows = [Availability(name="enzyme_loops_threads", description=make_record().description, missing={"cpu": missing})]
    compared = compare(bench(), [make_record("enzyme_loops_threads", 1_000_000, processor="Another " * 12)])
    return [
        terminal.timing_tables(bench()),
        terminal.agreement_table(bench()),
        terminal.availability_table(rows),
        terminal.comparison_table(compared),
    ]


def test_everything_fits_100_columns_and_no_name_is_broken():
    page = printed(*everything())
    assert max(map(len, page.splitlines())) <= 100
    for name in ("enzyme_loops_threads", "jax_cell_list_adjoint"):
        assert name in page


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_loses_columns_and_breaks_no_figure(width):
    for part in (terminal.timing_tables(bench()), terminal.agreement_table([make_record("jax_cell_list_adjoint")])):
        page = printed(part, width=width)
        assert max(map(len, page.splitlines())) <= width
        (line,) = lines_with(page, "jax_cell_list_adjoint")
        assert line.split()[-1] == "ok"
        assert "9.00 s" in line or "6.6e-16" in line
        assert not any(column in page for column in ("memory ", "compile"))


def test_what_is_changed_of_a_row_stands_below_its_name():
    page = printed(terminal.timing_tables([make_record("jax_neighbor_list", options={"capacity_multiplier": 1.05})]))
    (line,) = lines_with(page, "jax_neighbor_list")
    assert line.split()[-1] == "ok"
    assert "memory" in page
    assert lines_with(page, "(capacity multiplier 1.05)")


def test_a_title_is_not_broken_to_its_tables_width():
    title = "N = 1,000: published input, float64, 2 threads, CPU"
    assert title in printed(terminal.timing_tables([make_record("a")]), width=60).splitlines()


def test_advice_counts_noisy_cases_and_names_the_next_command():
    noisy = make_record(gradient=[1e-3, 2e-3, 3e-3, 4e-3, 5e-3])
    assert terminal.advice([noisy, make_record(n=10)], Path("my results"), Path("out")) == [
        "1 of 2 cases noisy (spread above 10 %): the machine was busy, small differences mean nothing",
        "columns: docs/how_to_read_the_numbers.md",
        "tables and figures: pairgrad report --results 'my results' --out out",
    ]
    assert (Path(__file__).parents[2] / terminal.HOW_TO_READ).is_file()
    assert len(terminal.advice([make_record()], Path("results"), Path("out"))) == 2
    assert terminal.advice([make_record(outcome="unavailable")], Path("results"), Path("out")) == []


@pytest.mark.parametrize(("no_color", "coloured"), [("1", False), ("", True)])
def test_no_color_is_honoured(monkeypatch, no_color, coloured):
    monkeypatch.setenv("NO_COLOR", no_color)
    page = printed(*everything(), force_terminal=True, color_system="standard")
    assert ("\x1b[31m" in page) == coloured
