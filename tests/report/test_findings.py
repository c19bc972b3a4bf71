# ruff: noqa: RUF001
"""Each claim judged in both directions from made-up records, and the tables beyond the claims by hand."""

from __future__ import annotations

import msgspec
import pytest
from made_up import make_record

from harness.report import claims, findings
from harness.report.claims import BORNE_OUT, NEW, NOT_MEASURED, REFUTED, Scope
from harness.report.data import cases, main_settings

MILLION = 1_000_000


def judged(records, words):
    """The finding whose claim holds these words."""
    found = cases(records)
    (finding,) = [f for f in claims.findings(findings.scopes(found, main_settings(found))) if words in f.claim]
    return finding


def gradient(implementation, seconds, n=MILLION, **fields):
    return make_record(implementation, n, gradient=[seconds] * 5, forward=[1.0] * 5, **fields)


def test_without_records_nothing_is_claimed():
    found = cases([make_record("elsewhere", 77)])
    scopes = findings.scopes(found, main_settings(found))
    assert {f.verdict for f in claims.findings(scopes)} == {NOT_MEASURED}


def test_same_gradient():
    good, bad = make_record("a", max_rel_diff=2e-15), make_record("b", max_rel_diff=3e-9)
    finding = judged([good], "same gradient")
    assert (finding.verdict, finding.found) == (
        BORNE_OUT,
        "1 of 1 rows agree with the closed form; largest relative difference 2.0e-15 (Title of a)",
    )
    assert judged([good, bad], "same gradient").verdict == REFUTED


def test_a_row_whose_difference_is_not_a_number_disagrees():
    broken = make_record("b", outcome="disagrees", reason="the gradient is not finite")
    finding = judged([make_record("a"), broken], "same gradient")
    assert finding.verdict == REFUTED
    assert finding.found.startswith("1 of 2 rows")


def test_printed_values():
    assert judged([make_record("a", loss=12476.3617428792)], "the study printed").verdict == BORNE_OUT
    assert judged([make_record("a", loss=12476.3617430)], "the study printed").verdict == REFUTED
    assert judged([make_record("a", grad_norm=7526.066607)], "the study printed").verdict == REFUTED


@pytest.mark.parametrize(("enzyme", "verdict"), [(4.0, BORNE_OUT), (6.0, REFUTED), (5.0, REFUTED)])
def test_enzyme_against_jax(enzyme, verdict):
    records = [gradient("enzyme_loops", enzyme), gradient("jax_neighbor_list", 5.0)]
    finding = judged(records, "Enzyme's gradient takes less time")
    assert finding.verdict == verdict
    assert finding.study == "4.78 s against 5.98 s"
    assert finding.found.endswith(f"{enzyme / 5.0:.2f}×")


def test_a_figure_of_zero_divides_nothing():
    finding = judged([gradient("enzyme_loops", 1e-9), gradient("jax_neighbor_list", 0.0)], "gradient takes less time")
    assert finding.verdict == REFUTED
    assert finding.found.endswith(": –")


def test_a_failure_is_no_verdict_and_is_named():
    failed = make_record("jax_neighbor_list", MILLION, outcome="out-of-memory-host", reason="8 GB")
    finding = judged([gradient("enzyme_loops", 4.0), failed], "Enzyme's gradient takes less time")
    assert (finding.verdict, finding.found) == (NOT_MEASURED, "Title of jax_neighbor_list: out-of-memory-host")


def test_one_thread_each_is_new():
    records = [gradient("a", 1.0)] + [
        gradient(row, s, threads=1) for row, s in (("enzyme_loops", 4.0), ("jax_neighbor_list", 8.0))
    ]
    finding = judged(records, "Both on one thread")
    assert finding.verdict == NEW
    assert "0.50×" in finding.found


@pytest.mark.parametrize(("ratio", "verdict"), [(3.4, BORNE_OUT), (2.3, BORNE_OUT), (2.2, REFUTED), (5.1, REFUTED)])
def test_gradient_over_forward(ratio, verdict):
    assert judged([gradient("enzyme_loops", ratio)], "Enzyme.jl's gradient costs about 3×").verdict == verdict


def test_slots():
    right = {"enzyme_loops": 91_105_454, "jax_neighbor_list": 39_247_140, "enzyme_cell_list": 234_000_000}
    words = {
        "enzyme_loops": "Loops over ranges",
        "jax_neighbor_list": "pair list has",
        "enzyme_cell_list": "padded cell list has",
    }
    for row, slots in right.items():
        assert judged([gradient(row, 1.0, pair_slots=slots)], words[row]).verdict == BORNE_OUT
        assert judged([gradient(row, 1.0, pair_slots=slots + MILLION)], words[row]).verdict == REFUTED


def test_jax_cells_stand_in_for_reactants_route_where_that_failed():
    records = [
        make_record("enzyme_cell_list", MILLION, outcome="unavailable", reason="no enzyme-ad"),
        gradient("jax_cell_list", 1.0, pair_slots=234_000_000),
    ]
    finding = judged(records, "padded cell list has")
    assert (finding.verdict, finding.found) == (BORNE_OUT, "Title of jax_cell_list 234,000,000")


def test_padding_of_the_pair_list():
    def padded(slots):
        return [gradient("jax_neighbor_list", 1.0, true_pairs=1_000_000, pair_slots=slots)]

    assert judged(padded(1_250_000), "1.25 times").verdict == BORNE_OUT
    assert judged(padded(1_300_000), "1.25 times").verdict == REFUTED


def test_capacity():
    list_row = make_record("jax_neighbor_list", capacity=39_000)
    assert judged([make_record("enzyme_loops"), list_row], "needs no capacity").verdict == BORNE_OUT
    assert judged([make_record("enzyme_loops", capacity=23), list_row], "needs no capacity").verdict == REFUTED


def test_out_of_memory_on_the_gpu():
    def on_gpu(**fields):
        return [make_record("jax_neighbor_list", MILLION, device="cuda", device_name="Imagined GPU", **fields)]

    words = "runs out of GPU memory"
    assert judged(on_gpu(outcome="out-of-memory-device"), words).verdict == BORNE_OUT
    fits = judged(on_gpu(peak_device_bytes=5_000_000_000), words)
    assert (fits.verdict, fits.found) == (REFUTED, "fits Imagined GPU: 5.00 GB")
    for outcome in ("unavailable", "timeout"):
        assert judged(on_gpu(outcome=outcome), words).verdict == NOT_MEASURED
    assert judged([make_record()], words).verdict == NOT_MEASURED


def test_padded_cells_against_the_list():
    cuda = {"device": "cuda", "device_name": "Imagined GPU", "n": 100_000}
    records = [gradient("jax_neighbor_list", 0.01, **cuda), gradient("enzyme_cell_list", 0.02, **cuda)]
    finding = judged(records, "takes less time than the padded cell list")
    assert (finding.verdict, finding.study) == (BORNE_OUT, "10.3 ms against 21.1 ms")
    leaner = [
        gradient("enzyme_cell_list", 1.0, peak_host_bytes=10),
        gradient("jax_neighbor_list", 1.0, peak_host_bytes=20),
    ]
    assert judged(leaner, "leaner").verdict == BORNE_OUT
    assert (
        judged(
            [msgspec.structs.replace(r, peak_host_bytes=30 - (r.peak_host_bytes or 0)) for r in leaner], "leaner"
        ).verdict
        == REFUTED
    )


def test_hand_written_adjoints_and_threads():
    records = [gradient("jax_cell_list_adjoint", 1.0), gradient("jax_cell_list", 4.0), gradient("enzyme_pair", 5.0)]
    records += [gradient("enzyme_loops", 4.0), gradient("enzyme_loops_threads", 2.0)]
    assert judged(records, "faster in JAX").verdict == BORNE_OUT
    assert judged(records, "scalar pair function").verdict == REFUTED
    threads = judged(records, "Enzyme on 2 CPU threads")
    assert (threads.verdict, threads.found.split(": ")[-1]) == (NEW, "0.50×")


def test_capacity_multiplier_lists_every_value():
    records = [
        gradient("jax_neighbor_list", 1.0 + extra, options=options, pair_slots=slots)
        for extra, options, slots in (
            (0.0, {}, 39_000_000),
            (0.5, {"capacity_multiplier": 2.0}, 62_000_000),
        )
    ]
    finding = judged(records, "capacity multiplier")
    assert finding.verdict == NEW
    assert finding.found == "N = 1,000,000: as it is: 39.0 M slots, 1.00 s; capacity multiplier 2: 62.0 M slots, 1.50 s"


def scope(records):
    found = cases(records)
    return Scope(found, main_settings(found)[0])


def lines_with(page, words):
    return [line for line in page.splitlines() if words in line]


def test_growth_says_what_grew():
    def row(name, n, nanoseconds, slots):
        return gradient(name, nanoseconds * 1e-9 * n, n, pair_slots=slots * n)

    records = [row("steady", 10_000, 100, 90), row("steady", MILLION, 150, 90)]
    records += [row("padded", 10_000, 100, 90), row("padded", MILLION, 200, 180)]
    records += [row("cached", 10_000, 100, 90), row("cached", MILLION, 200, 90)]
    page = findings.growth(scope(records))
    (steady,), (padded,), (cached,) = (lines_with(page, f"Title of {name}") for name in ("steady", "padded", "cached"))
    assert "1.50×" in steady
    assert "above" not in steady
    assert "mostly more slots per particle" in padded
    assert "mostly time per slot" in cached


def test_growth_needs_both_sizes():
    assert findings.growth(scope([gradient("a", 1.0)])) is None


def test_clustered_names_rows_on_either_side_of_the_limit():
    def row(name, scenario, seconds):
        return gradient(name, seconds, 100_000, scenario=scenario, true_pairs=1_000_000)

    records = [row("even", "published", 1.0), row("even", "clustered", 1.4)]
    records += [row("padded", "published", 1.0), row("padded", "clustered", 3.0)]
    page = findings.clustered(scope(records))
    assert lines_with(page, "Up to 1.50×: Title of even 1.40×.")
    assert lines_with(page, "Above 1.50×: Title of padded 3.00×.")


def test_hand_written_at_the_largest_common_size():
    records = [
        gradient("warp_adjoint", 1.0, 1000),
        gradient("warp_adjoint", 9.0, 2000),
        gradient("warp_autodiff", 4.0, 1000),
    ]
    (line,) = lines_with(findings.hand_written(scope(records)), "Title of warp_adjoint")
    assert [cell.strip() for cell in line.split("|")][3:7] == ["1,000", "1.00 s", "4.00 s", "0.25×"]


def test_cost_is_over_the_best_row_with_lines_of_code():
    page = findings.cost(
        scope([gradient("a", 1.0), gradient("b", 3.0), gradient("b", 8.0, threads=1), gradient("a", 2.0, threads=1)])
    )
    (line,) = lines_with(page, "Title of b")
    assert [cell.strip() for cell in line.split("|")][3:8] == ["3.00 s", "3.00×", "4.00×", "50", "20"]


def test_the_page_marks_what_is_contradicted_and_separates_machines():
    records = [gradient("enzyme_loops", 6.0), gradient("jax_neighbor_list", 5.0)]
    records += [
        gradient("enzyme_loops", 4.0, processor="Another"),
        gradient("jax_neighbor_list", 5.0, processor="Another"),
    ]
    page = findings.markdown(cases(records))
    assert page.index("## Another, 2 cores") < page.index("## Imagined CPU")
    first, second = lines_with(page, "Enzyme's gradient takes less time")
    assert "borne out" in first
    assert "**" not in first
    assert "**not borne out**" in second
