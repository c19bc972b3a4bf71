"""What is written follows from the records alone, and `stale` names every text that does not."""

from __future__ import annotations

import csv
import json
import shutil
import xml.etree.ElementTree as ET

import made_up_segments
import pytest
from made_up import make_record

from harness.contract.names import file_name
from harness.report.files import stale, write
from harness.report.segments import read_runs

README = """# Project
<!-- pairgrad:begin timing -->
<!-- pairgrad:end timing -->
<!-- pairgrad:begin agreement -->
<!-- pairgrad:end agreement -->
<!-- pairgrad:begin figure -->
<!-- pairgrad:end figure -->
"""
GUIDE = "# Guide\n<!-- pairgrad:begin segments -->\n<!-- pairgrad:end segments -->\n"
SLUG = file_name("Imagined CPU @ 3 GHz, 2 cores")


def records():
    rows = ("warp_adjoint", "jax_neighbor_list")
    found = [make_record(row, n) for row in rows for n in (1000, 10_000)]
    return [*found, make_record("torch_index_add", 10_000, outcome="out-of-memory-host", reason="ended at 9 GB")]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    (root / "README.md").write_text(README)
    write(records(), root / "reports")
    return root


def files(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_everything_is_written(written):
    figures = {f"reports/figures/{kind}-{SLUG}.svg" for kind in ("time", "particle", "memory", "slots")}
    texts = {"README.md", "reports/report.md", "reports/findings.md", "reports/segments.md", "reports/index.html"}
    texts.add(f"reports/data/{SLUG}.csv")
    assert set(files(written)) == figures | texts


@pytest.mark.thorough
def test_writing_again_gives_the_same_bytes(written, tmp_path):
    (tmp_path / "README.md").write_text(README)
    write(records(), tmp_path / "reports")
    assert files(tmp_path) == files(written)


def test_links_and_images_lead_somewhere(written):
    import re

    for page in (written / "README.md", written / "reports" / "report.md"):
        targets = re.findall(r"\]\(([^)]+)\)", page.read_text())
        assert targets
        assert [t for t in targets if not (page.parent / t).exists()] == []


def test_readme_shows_table_and_figure(written):
    page = (written / "README.md").read_text()
    assert "N = 10,000" in page
    assert "**out-of-memory-host**: ended at 9 GB" in page
    assert f"(reports/figures/time-{SLUG}.svg)" in page
    assert "7526.066606" in page


def test_plotted_data_leaves_missing_fields_empty(written):
    with (written / "reports" / "data" / f"{SLUG}.csv").open() as file:
        rows = list(csv.DictReader(file))
    (failed,) = [row for row in rows if row["outcome"] != "ok"]
    assert (failed["implementation"], failed["gradient_s"], failed["peak_bytes"]) == ("torch_index_add", "", "")
    (ok,) = [row for row in rows if (row["implementation"], row["n"]) == ("warp_adjoint", "1000")]
    assert float(ok["gradient_s"]) == pytest.approx(0.003)


def test_figures_carry_no_date_and_name_the_failure(written):
    svg = (written / "reports" / "figures" / f"time-{SLUG}.svg").read_text()
    ET.fromstring(svg)
    assert "<dc:date>" not in svg
    assert "Not plotted" in svg


def test_the_pages_content_is_strict_json(written):
    page = (written / "reports" / "index.html").read_text()
    start = page.index(">", page.index('id="content"')) + 1

    def refuse(constant):
        raise AssertionError(constant)

    content = json.loads(page[start : page.index("</script>", start)], parse_constant=refuse)
    assert len(content["rows"]) == 5


@pytest.fixture
def copy(written, tmp_path):
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_fresh_reports_are_not_stale(copy):
    assert stale(records(), copy / "reports") == []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("reports/report.md", "3.00 ms", "2.00 ms"),
        ("reports/findings.md", "not measured", "borne out"),
        (f"reports/data/{SLUG}.csv", "0.003,", "0.002,"),
        ("README.md", "30.0 ms", "20.0 ms"),
    ],
)
def test_an_edited_number_is_stale(copy, name, old, new):
    page = (copy / name).read_text()
    assert old in page
    (copy / name).write_text(page.replace(old, new, 1))
    (found,) = stale(records(), copy / "reports")
    assert found.startswith(str(copy / name))
    assert "line" in found


def test_a_changed_record_is_stale(copy):
    changed = records()
    changed[0] = make_record("warp_adjoint", 1000, gradient=[0.004] * 5)
    named = {line.split(": ")[0].rsplit("/", 1)[-1] for line in stale(changed, copy / "reports")}
    assert named == {"report.md", f"{SLUG}.csv"}


def test_missing_files_are_stale(copy):
    (copy / "reports" / "findings.md").unlink()
    (copy / "reports" / "figures" / f"time-{SLUG}.svg").unlink()
    assert [line.rsplit("/", 1)[-1] for line in stale(records(), copy / "reports")] == [
        "findings.md: missing",
        f"time-{SLUG}.svg: missing",
    ]


def test_what_no_record_gives_any_more_is_left_over(copy):
    (copy / "reports" / "figures" / "time-a-machine-that-is-gone.svg").write_text("<svg/>")
    (copy / "reports" / "index.html").unlink()
    assert [line.rsplit("/", 1)[-1] for line in stale(records(), copy / "reports")] == [
        "index.html: missing",
        "time-a-machine-that-is-gone.svg: left over, delete it",
    ]


def test_image_bytes_and_the_page_are_not_compared(copy):
    (copy / "reports" / "figures" / f"time-{SLUG}.svg").write_text("<svg/>")
    (copy / "reports" / "index.html").write_text("")
    assert stale(records(), copy / "reports") == []


def test_records_without_timings_make_a_report_without_figures(tmp_path):
    write([make_record(outcome="unavailable", reason="no wheel")], tmp_path / "reports")
    assert not list((tmp_path / "reports").rglob("*.svg"))
    assert "cpu: not measured" in (tmp_path / "reports" / "report.md").read_text()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("timings")
    (folder / "a.json").write_text(made_up_segments.content(made_up_segments.benchmarks()))
    return read_runs([folder])


@pytest.fixture(scope="module")
def written_with_segments(runs, tmp_path_factory):
    """A project with a guide to the segment operations, whose timings are in the reports."""
    root = tmp_path_factory.mktemp("segments")
    (root / "docs").mkdir()
    (root / "docs" / "segment_operations.md").write_text(GUIDE)
    write(records(), root / "reports", runs)
    return root


@pytest.fixture
def timed(written_with_segments, tmp_path):
    shutil.copytree(written_with_segments, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.thorough
def test_segment_operations_have_a_page_a_figure_and_their_block_in_the_guide(timed, runs):
    assert "| JAX plain" in (timed / "reports" / "segments.md").read_text()
    assert "| JAX plain" in (timed / "docs" / "segment_operations.md").read_text()
    assert (timed / "reports" / "figures" / f"segments-{SLUG}.svg").is_file()
    assert stale(records(), timed / "reports", runs) == []


@pytest.mark.thorough
def test_segment_operations_edited_or_missing_are_stale(timed, runs):
    for name in ("reports/segments.md", "docs/segment_operations.md"):
        page = (timed / name).read_text()
        (timed / name).write_text(page.replace("2.00", "3.00", 1))
    (timed / "reports" / "figures" / f"segments-{SLUG}.svg").unlink()
    found = stale(records(), timed / "reports", runs)
    assert [line.split(": ")[0].rsplit("/", 1)[-1] for line in found] == [
        "segments.md",
        "segment_operations.md",
        f"segments-{SLUG}.svg",
    ]


@pytest.mark.thorough
def test_timings_that_are_gone_are_stale(timed):
    pages, figures = [], []
    for line in stale(records(), timed / "reports"):
        (figures if "left over" in line else pages).append(line.split(": ")[0].rsplit("/", 1)[-1])
    assert pages == ["segments.md", "segment_operations.md"]
    assert figures == [f"segments-{SLUG}.svg"]
