# ruff: noqa: RUF001
"""The index and the README's blocks: what stands where, failures in their place, the study's figures beside ours."""

from __future__ import annotations

import msgspec
import pytest
from made_up import make_record

from harness.report import documents, tables
from harness.report.data import cases, frame, setting_of
from harness.report.documents import refresh_marked


def made(records):
    return documents.report(frame(records), cases(records))


def lines_with(page, *words):
    return [line for line in page.splitlines() if all(word in line for word in words)]


def cells_of(line):
    return [cell.strip() for cell in line.strip("|").split(" | ")]


@pytest.fixture
def study():
    """Two rows at the study's largest N, one timed by hand, one that ended early."""
    return [
        make_record(
            "enzyme_loops",
            1_000_000,
            forward=[1.0, 1.0, 1.0, 1.0, 1.0],
            gradient=[4.0, 4.1, 4.2, 4.3, 4.4],
            true_pairs=31_397_712,
            pair_slots=91_105_454,
            compile_forward_s=0.2,
            compile_gradient_s=0.3,
            peak_host_bytes=1_230_000_000,
        ),
        make_record("torch_index_add", 1_000_000, outcome="timeout", reason="ended after 600 s\nduring gradient"),
    ]


def test_timing_table_by_hand(study):
    (ours,) = [line for line in tables.timing(cases(study)).splitlines() if "enzyme_loops" in line]
    assert cells_of(ours) == [
        *("Title of enzyme_loops", "1.00 s", "4.20 s", "4.20×", "1.00×", "–", "91,105,454", "31,397,712", "2.90"),
        *("500 ms", "1.23 GB", "4.8 %", "5 + 5", ""),
    ]


def test_a_failure_keeps_its_line_with_outcome_and_reason(study):
    (failed,) = [line for line in tables.timing(cases(study)).splitlines() if "torch_index_add" in line]
    assert "**timeout**: ended after 600 s during gradient" in failed
    assert cells_of(failed)[1:13] == ["–"] * 12


def test_the_studys_lines_stand_below_ours(study):
    page = tables.timing(cases(study))
    (enzyme,) = lines_with(page, "study: Enzyme.jl")
    (jax,) = lines_with(page, "study: JAX")
    assert [c.strip("*") for c in cells_of(enzyme)][1:7] == ["1.42 s", "4.78 s", "3×", "–", "–", "91 M"]
    assert "13.9 s" in jax
    assert "its own machine" in jax


def test_the_study_stands_only_beside_its_own_setting():
    page = tables.timing(cases([make_record("a", 1_000_000, dtype="float32")]))
    assert "study" not in page


def test_agreement_table_has_the_studys_digits():
    page = tables.agreement(
        cases([make_record("warp_adjoint"), make_record("bad", outcome="disagrees", reason="off", loss=1.5)])
    )
    (ours,) = lines_with(page, "warp_adjoint")
    assert cells_of(ours)[1:4] == ["12476.361742879", "7526.066606", "6.6e-16"]
    (bad,) = lines_with(page, "Title of bad")
    assert cells_of(bad) == ["Title of bad", "1.5", "–", "–", "**disagrees**: off"]
    (reactant,) = lines_with(page, "Reactant.jl")
    assert "*12476.3617428792*" in reactant


def test_cuda_without_records_is_not_measured(study):
    unavailable = make_record("warp_adjoint", 100_000, device="cuda", outcome="unavailable", reason="no CUDA device")
    page = made([*study, unavailable])
    assert "## cuda: not measured" in page
    assert lines_with(page, "study: Enzyme.jl", "119 ms")
    assert lines_with(page, "study: JAX", "RESOURCE_EXHAUSTED")
    assert "## cpu: not measured" not in page


def test_cuda_with_records_is_shown(study):
    page = made([*study, make_record("warp_adjoint", 100_000, device="cuda", gradient=[0.01] * 5)])
    assert "## Imagined GPU (Imagined CPU @ 3 GHz, 2 cores)" in page
    assert "cuda: not measured" not in page
    assert lines_with(page, "study: Reactant.jl", "21.1 ms")


def test_machine_date_version_and_commit_are_shown(study):
    (line,) = lines_with(made(study), "| Imagined CPU @ 3 GHz, 2 cores", "numpy 2.0.0")
    assert "0123456789" in line
    assert "2026-01-02" in line
    assert "8.00 GB" in line


def test_changed_sources_are_marked():
    record = make_record()
    record.environment["dirty"] = True
    assert tables.commits(frame([record])) == "0123456789+"


def test_noisy_and_recompiled_rows_are_marked():
    entry = cases([make_record(gradient=[1.0, 1.0, 1.5, 2.0, 2.0], recompilations=2, reallocations=1)])
    assert tables.remarks(entry) == ["noisy, 2 recompilations while sampling, 1 reallocations"]


def test_single_threaded_rows_are_marked_where_there_are_more_cores():
    description = make_record().description
    assert description is not None
    single = msgspec.structs.replace(description, multithreaded=False)
    many = cases([make_record(threads=2, description=single)])
    one = cases([make_record(threads=1, description=single)])
    assert tables.remarks(many) + tables.remarks(one) == ["one thread", ""]


def test_one_thread_beside_all():
    records = [make_record("a", gradient=[2.0] * 5), make_record("a", threads=1, gradient=[3.0] * 5)]
    found = cases(records)
    page = tables.threads(found, setting_of(found), 1000)
    (line,) = lines_with(page, "Title of a")
    assert cells_of(line)[1:6] == ["3.00 s", "1.00×", "2.00 s", "1.00×", "1.50×"]


def test_clustered_beside_published():
    n = tables.CLUSTERED_N
    records = [
        make_record("a", n, gradient=[1.0] * 5, true_pairs=1_000_000, pair_slots=3_000_000),
        make_record("a", n, scenario="clustered", gradient=[6.0] * 5, true_pairs=2_000_000, pair_slots=50_000_000),
    ]
    found = cases(records)
    (line,) = lines_with(tables.clustered(found, setting_of(found)), "Title of a")
    assert cells_of(line) == [
        *("Title of a", "3.00", "25.00", "10.0 MB", "10.0 MB", "1.00 s", "6.00 s", "1.00 µs", "3.00 µs", "3.00×", ""),
    ]


def test_float32_beside_float64_names_what_is_slower():
    records = [make_record("a", gradient=[1.0] * 5), make_record("a", dtype="float32", gradient=[2.0] * 5)]
    found = cases(records)
    (line,) = lines_with(tables.precision(found, setting_of(found), 1000), "Title of a")
    assert cells_of(line)[1:4] == ["1.00 s", "2.00 s", "2.00×"]
    assert "float32 is slower" in line


def test_variants_stand_beside_the_row_itself():
    base = make_record("jax_neighbor_list", gradient=[1.0] * 5)
    assert base.description is not None
    description = msgspec.structs.replace(base.description, options={"capacity_multiplier": 1.25})
    options = ({}, {"capacity_multiplier": 1.05}, {"capacity_multiplier": 2.0})
    records = [make_record("jax_neighbor_list", options=o, description=description, reallocations=0) for o in options]
    found = cases(records)
    page = tables.variants(found, setting_of(found), 1000)
    shown = [cells_of(line)[1] for line in lines_with(page, "Title of jax_neighbor_list")]
    assert shown == ["capacity multiplier 1.05", "capacity multiplier 1.25", "capacity multiplier 2"]


def test_lines_of_code_stand_with_the_rows(study):
    (line,) = lines_with(tables.implementations(cases(study)), "`enzyme_loops`")
    assert cells_of(line)[-2:] == ["50", "20 |"] or cells_of(line)[-2:] == ["50", "20"]


def test_no_nan_reaches_the_page(study):
    bare = make_record(
        "bare", 1_000_000, true_pairs=0, forward=[0.0] * 5, gradient=[0.0] * 5, loss=None, grad_norm=None
    )
    page = made([*study, bare]).lower()
    assert "nan" not in page.replace("pairs", "").split()
    assert not [word for word in ("| nan", " inf ", "infinity", "none |") if word in page]


def test_refresh_marked_replaces_only_what_stands_between():
    page = "above\n<!-- pairgrad:begin timing -->\nold\n<!-- pairgrad:end timing -->\nbelow\n"
    fresh = refresh_marked(page, {"timing": "new"})
    assert fresh == "above\n<!-- pairgrad:begin timing -->\n\nnew\n\n<!-- pairgrad:end timing -->\nbelow\n"
    assert refresh_marked(fresh, {"timing": "new"}) == fresh


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("<!-- pairgrad:begin other -->\n<!-- pairgrad:end other -->", "no block 'other'"),
        ("<!-- pairgrad:begin timing -->\nno end", "has no partner"),
        ("<!-- pairgrad:end timing -->", "has no partner"),
    ],
)
def test_refresh_marked_refuses_what_it_does_not_understand(page, words):
    with pytest.raises(ValueError, match=words):
        refresh_marked(page, {"timing": "new"})
