"""The public frame: types that hold, units in names, the same in every form it is exported to."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import msgspec
import pandas as pd
import pytest
from click.testing import CliRunner
from made_up import make_record

import harness
from harness.cli import main
from harness.contract.store import RecordsError

SLOTS = 91_105_454


@pytest.fixture
def folder(tmp_path):
    records = [
        make_record("a", 1000, pair_slots=SLOTS, max_rel_diff=6.6e-16),
        make_record("a", 1000, round=1, pair_slots=SLOTS, gradient=[5e-3] * 5, max_rel_diff=6.6e-16),
        make_record("b", 1000, outcome="crashed", reason='said "no", then\nleft'),
    ]
    (tmp_path / "records.jsonl").write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    return tmp_path


def test_a_row_a_case_with_medians(folder):
    cases = harness.load_results(folder)
    assert list(cases["implementation"]) == ["a", "b"]
    assert cases["gradient_s"][0] == pytest.approx(4e-3)
    assert cases["gradient_samples"][0] == 10
    assert pd.isna(cases["gradient_s"][1])


def test_types_hold_where_values_are_missing(folder, tmp_path_factory):
    cases = harness.load_results(folder / "records.jsonl")
    kinds = {"pair_slots": "Int64", "n": "Int64", "title": "string", "noisy": "boolean", "ok": "boolean"}
    assert {name: cases[name].dtype for name in kinds} == kinds
    assert cases["pair_slots"].tolist() == [SLOTS, pd.NA]
    assert set(cases.dtypes.astype(str)) == {"Int64", "string", "boolean", "float64"}
    assert harness.load_results(tmp_path_factory.mktemp("empty")).dtypes.equals(cases.dtypes)


def test_what_cannot_be_loaded(folder):
    with pytest.raises(RecordsError, match="neither a file nor a folder"):
        harness.load_results(folder / "nothing")
    with pytest.raises(ValueError, match="give it a folder"):
        harness.load_results()


def test_importing_the_package_imports_no_pandas():
    command = [sys.executable, "-c", "import harness, sys; sys.exit('pandas' in sys.modules)"]
    assert subprocess.run(command, check=False).returncode == 0


def export(folder, name):
    out = folder / name
    return CliRunner().invoke(main, ["export", "--results", str(folder), "--out", str(out)]), out


def test_csv(folder):
    result, out = export(folder, "cases.csv")
    assert result.exit_code == 0, result.output
    assert f",{SLOTS}," in out.read_text()
    assert list(pd.read_csv(out)["reason"]) == [pytest.approx(float("nan"), nan_ok=True), 'said "no", then\nleft']


def test_json_keeps_every_digit_and_whole_numbers(folder):
    result, out = export(folder, "cases.json")
    assert result.exit_code == 0, result.output
    first, second = json.loads(out.read_text())
    assert (first["pair_slots"], first["max_rel_diff"], second["pair_slots"]) == (SLOTS, 6.6e-16, None)
    assert first["ok"] is True


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed")
def test_parquet_gives_the_frame_back(folder):
    result, out = export(folder, "cases.parquet")
    assert result.exit_code == 0, result.output
    pd.testing.assert_frame_equal(pd.read_parquet(out), harness.load_results(folder), check_dtype=False)
    assert pd.read_parquet(out)["pair_slots"].dtype == "Int64"


def test_parquet_without_pyarrow_names_the_way_out(folder, monkeypatch):
    def missing(*_, **__):
        raise ImportError("pyarrow is required")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", missing)
    result, out = export(folder, "cases.parquet")
    assert result.exit_code == 2
    assert "pip install 'pairgrad[parquet]'" in result.stderr
    assert not out.exists()


def test_another_suffix_is_refused_with_those_there_are(folder):
    result, _ = export(folder, "cases.xlsx")
    assert result.exit_code == 2
    assert "end it in .csv, .parquet, .json" in result.stderr
