"""A file of records holds every record or the ones before; what cannot be read is named."""

import errno
import os
from pathlib import Path

import pytest
from fake_cases import made_record, planned, strictly

from harness.contract import output
from harness.contract.records import OUTCOMES, SCHEMA_VERSION, case_id
from harness.contract.store import RecordFile, RecordsError, read_records


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch, failing):
    path = tmp_path / "a.jsonl"
    output.write(path, b"old")

    def full(*arguments):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(output.os, failing, full)
    with pytest.raises(OSError, match="full"):
        output.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_failed_first_write_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(output.os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(OSError, match="full"):
        RecordFile(tmp_path / "new.jsonl").add(made_record())
    assert list(tmp_path.iterdir()) == []


def test_a_single_sample_is_valid_json(tmp_path):
    path = tmp_path / "one.jsonl"
    RecordFile(path).add(made_record(forward_s=1.0, forward_iqr_s=float("nan"), forward_samples_s=[1.0]))
    assert strictly(path)[0]["forward_iqr_s"] is None


def test_records_survive_the_round_trip(tmp_path):
    file = RecordFile(tmp_path / "a.jsonl")
    written = [
        made_record(n=n, outcome=outcome, reason="why", timestamp=f"{n:03}") for n, outcome in enumerate(OUTCOMES)
    ]
    for each in written:
        file.add(each)
    assert read_records([tmp_path]) == written


def test_unknown_outcome_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"outcome": "fine", "implementation": "x", "scenario": "s", "n": 1}\n')
    with pytest.raises(RecordsError, match=r"a\.jsonl, line 1: not a record"):
        read_records([path])


def test_newer_schema_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    RecordFile(path).add(made_record(schema_version=SCHEMA_VERSION + 1))
    with pytest.raises(RecordsError, match="newer than"):
        read_records([path])


def test_missing_folder_is_named():
    with pytest.raises(RecordsError, match="nowhere is neither a file nor a folder"):
        read_records([Path("nowhere")])


def test_case_id_names_no_path():
    assert case_id(planned("right", 10, threads=2).case) == "right/published/10/cpu/float64/2t"


@pytest.mark.parametrize("blank", ["\n", "  \n", "\r\n"])
def test_blank_lines_are_no_records(tmp_path, blank):
    path = tmp_path / "a.jsonl"
    RecordFile(path).add(made_record())
    path.write_bytes(blank.encode() + path.read_bytes() + blank.encode())
    assert [each.n for each in read_records([path])] == [10]


def test_a_wrong_line_keeps_its_number_after_a_blank_one(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("\n{}\n")
    with pytest.raises(RecordsError, match="line 2"):
        read_records([path])


def test_a_folder_called_local_is_read_like_any_other(tmp_path):
    for name in ("local", "other", "deeper/local"):
        RecordFile(tmp_path / name / "a.jsonl").add(made_record())
    assert len(read_records([tmp_path])) == 3


def test_of_the_default_folder_local_records_are_left_out_unless_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("results/here", "results/here/local", "results/local", "results/local/deeper"):
        RecordFile(Path(name) / "a.jsonl").add(made_record())
    assert len(read_records([Path("results")])) == len(read_records([tmp_path / "results"])) == 2
    assert len(read_records([Path("results/local")])) == 2


def test_records_come_through_a_pipe(tmp_path):
    RecordFile(tmp_path / "a.jsonl").add(made_record())
    reading, writing = os.pipe()
    os.write(writing, (tmp_path / "a.jsonl").read_bytes())
    os.close(writing)
    assert [each.n for each in read_records([Path(f"/proc/self/fd/{reading}")])] == [10]
    os.close(reading)
