"""The README beside the reports: only what stands between our markers is ours."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner
from made_up import make_record

from harness.cli import main
from harness.contract.store import RecordFile
from harness.report.files import write

OTHERS = b"# \xffTheirs\r\nno marker of ours,\rthree kinds of line ends\n"
OURS = b"# \xffTheirs\r\n<!-- pairgrad:begin timing -->\r\nold\r\n<!-- pairgrad:end timing -->\r\nand the end\r\n"


def reported(root):
    write([make_record(outcome="unavailable", reason="no wheel")], root / "reports")
    assert (root / "reports" / "report.md").is_file()


def state(path):
    """All that a write would change: which file it is, its mode and when it was last written."""
    found = path.stat()
    return found.st_ino, found.st_mode, found.st_mtime_ns


def test_a_readme_without_our_markers_is_not_touched(tmp_path):
    target, readme = tmp_path / "theirs.md", tmp_path / "README.md"
    target.write_bytes(OTHERS)
    target.chmod(0o600)
    readme.symlink_to(target.name)
    before = state(target)
    reported(tmp_path)
    assert target.read_bytes() == OTHERS
    assert state(target) == before
    assert os.readlink(readme) == target.name


def test_a_readme_with_our_markers_keeps_the_rest_its_mode_and_its_link(tmp_path):
    target, readme = tmp_path / "theirs.md", tmp_path / "README.md"
    target.write_bytes(OURS)
    target.chmod(0o600)
    readme.symlink_to(target.name)
    reported(tmp_path)
    before, after = OURS.split(b"old\r\n")
    content = target.read_bytes()
    assert content.startswith(before)
    assert content.endswith(after)
    assert b"old" not in content
    assert content.count(b"\n") == content.count(b"\r\n")
    assert target.stat().st_mode & 0o777 == 0o600
    assert os.readlink(readme) == target.name


@pytest.mark.parametrize("only_check", [(), ("--check",)])
def test_markers_that_are_not_understood_are_a_mistake_with_the_page_named(tmp_path, only_check):
    readme, results = tmp_path / "README.md", tmp_path / "results"
    readme.write_text("<!-- pairgrad:begin nothing -->")
    RecordFile(results / "a.jsonl").add(make_record(outcome="unavailable", reason="no wheel"))
    command = ["report", "--results", str(results), "--out", str(tmp_path / "reports"), *only_check]
    ended = CliRunner().invoke(main, command, catch_exceptions=False)
    assert ended.exit_code == 2
    assert f"error: {readme}: no block 'nothing'" in ended.stderr
    assert readme.read_text() == "<!-- pairgrad:begin nothing -->"
