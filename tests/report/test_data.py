"""Records to cases: the newest run of each case and machine, its rounds pooled, its ratios worked by hand."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from made_up import make_record

from harness.report.data import by_setting, cases, main_settings, select

LATER = "2026-02-02T00:00:00+00:00"


def only(records):
    (case,) = cases(records).itertuples()
    return case


def test_ratios_by_hand():
    fast = make_record("a", forward=[1.0] * 5, gradient=[2.0] * 5, n=1000, true_pairs=100, pair_slots=250)
    slow = make_record("b", forward=[2.0] * 5, gradient=[6.0] * 5, n=1000)
    a, b = cases([slow, fast]).itertuples()
    assert (a.implementation, b.implementation) == ("a", "b")
    assert b.gradient_over_forward == 3.0
    assert (a.x_of_best, b.x_of_best) == (1.0, 3.0)
    assert a.slots_per_pair == 2.5
    assert a.gradient_s_per_particle == 0.002
    assert a.gradient_s_per_pair == 0.02
    assert a.compile_s == 1.5
    assert a.peak_bytes == 100_000


def test_spread_is_the_larger_of_forward_and_gradient():
    case = only([make_record(forward=[1.0, 1.0, 1.0, 1.0, 1.0], gradient=[1.0, 2.0, 3.0, 4.0, 5.0])])
    assert case.spread == pytest.approx(2.0 / 3.0)


def test_the_newest_run_counts():
    old = make_record(gradient=[1.0] * 5)
    new = make_record(gradient=[2.0] * 5, run_id="run-2", timestamp=LATER)
    assert only([new, old]).gradient_s == 2.0


def test_rounds_of_one_run_are_pooled():
    rounds = [make_record(round=k, gradient=[1.0 + k] * 5, forward=[1.0] * 5) for k in range(3)]
    case = only(rounds)
    assert case.gradient_s == 2.0
    assert case.gradient_samples == 15
    assert case.noisy  # IQR 2 over median 2


def test_a_failed_round_stands_for_all():
    rounds = [make_record(round=0), make_record(round=1, outcome="disagrees", reason="off"), make_record(round=2)]
    case = only(rounds)
    assert case.outcome == "disagrees"
    assert math.isnan(case.gradient_s)


def test_a_record_that_is_not_ok_has_no_timings():
    record = make_record()
    record.outcome = "timeout"
    assert math.isnan(only([record]).gradient_s)


def test_machines_stand_apart():
    here, there = make_record(), make_record(processor="Another CPU")
    assert list(cases([here, there])["machine"]) == [
        "Another CPU, 2 cores",
        "Imagined CPU @ 3 GHz, 2 cores",
    ]


def test_a_failure_without_description_takes_its_title_from_another_record():
    failed = make_record(n=2000, outcome="crashed", reason="SIGSEGV", description=None)
    assert set(cases([make_record(), failed])["title"]) == {"Title of warp_adjoint"}
    assert only([failed]).title == "warp_adjoint"


def test_missing_fields_make_nothing_up():
    bare = make_record(
        processor=None, pair_slots=None, peak_host_bytes=None, compile_forward_s=None, compile_gradient_s=None
    )
    case = only([bare])
    assert case.machine == "unknown processor, 2 cores"
    assert pd.isna([case.slots_per_pair, case.peak_bytes, case.compile_s]).all()


def test_accelerator_failures_join_their_device():
    ok = make_record(device="cuda", device_name="Imagined GPU")
    failed = make_record("b", device="cuda", outcome="out-of-memory-device")
    failed.environment["cuda_devices"] = [{"name": "Imagined GPU"}]
    assert set(cases([ok, failed])["hardware"]) == {"Imagined GPU"}


def test_device_memory_falls_back_to_the_driver():
    framework = make_record(device="cuda", peak_device_bytes=10, driver_device_bytes=20)
    driver = make_record(device="cuda", peak_device_bytes=None, driver_device_bytes=20)
    assert (only([framework]).peak_bytes, only([driver]).peak_bytes) == (10, 20)


def test_variants_are_told_from_the_row_itself():
    default = make_record(options={})
    changed = make_record(options={"capacity_multiplier": 2.0})
    found = cases([default, changed])
    assert list(select(found)["variant"]) == [""]
    assert set(found["label"]) == {"Title of warp_adjoint", "Title of warp_adjoint, capacity multiplier 2"}


def test_the_studys_setting_comes_first():
    records = [make_record(dtype="float32"), make_record(threads=1), make_record(scenario="clustered"), make_record()]
    found = cases(records)
    first, _ = next(by_setting(found))
    assert (first.dtype, first.threads, first.scenario) == ("float64", 2, "published")
    assert main_settings(found) == [first]
