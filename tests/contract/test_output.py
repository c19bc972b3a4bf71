"""The one writer: regular files are replaced as a whole, all else is written to, and nothing of a file is lost."""

from __future__ import annotations

import ast
import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.contract import output

HARNESS = Path(output.__file__).parents[1]
WRITE = """
import sys
from pathlib import Path
from harness.contract import output
print("before", flush=True)
output.write(Path(sys.argv[1]), b"written\\n")
print("after")
"""


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A named pipe and the descriptor of its reader."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield path, reader
    os.close(reader)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    output.write(tmp_path / "deeper" / "new", b"new")
    assert mode(tmp_path / "deeper" / "new") == 0o640
    assert os.listdir(tmp_path / "deeper") == ["new"]


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.write_bytes(b"old")
    path.chmod(0o604)
    output.write(path, b"new")
    assert (path.read_bytes(), mode(path)) == (b"new", 0o604)


def test_a_name_as_long_as_any_may_be(tmp_path: Path) -> None:
    output.write(tmp_path / ("x" * 255), b"new")
    assert (tmp_path / ("x" * 255)).read_bytes() == b"new"


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    path = tmp_path / "a.jsonl"
    output.write(path, b"old")

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(output.os, failing, full)
    with pytest.raises(OSError, match="full"):
        output.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("through", ["link", "link of a link"])
def test_links_are_followed_and_stay(tmp_path: Path, exists: bool, through: str) -> None:
    target, link, second = tmp_path / "folder" / "target", tmp_path / "link", tmp_path / "second"
    target.parent.mkdir()
    if exists:
        target.write_bytes(b"old")
    link.symlink_to("folder/target")
    second.symlink_to(link)
    output.write(link if through == "link" else second, b"new")
    assert link.is_symlink()
    assert second.is_symlink()
    assert not target.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_pipe_is_written_to(fifo: tuple[Path, int]) -> None:
    path, reader = fifo
    output.require_writable(path)
    output.write(path, b"new")
    assert os.read(reader, 10) == b"new"
    assert path.is_fifo()


def test_a_link_to_a_pipe_is_written_to(fifo: tuple[Path, int], tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(fifo[0])
    output.write(link, b"new")
    assert os.read(fifo[1], 10) == b"new"
    assert link.is_symlink()
    assert fifo[0].is_fifo()


def test_a_character_device_is_written_to() -> None:
    leader, follower = os.openpty()
    path = Path(os.ttyname(follower))
    output.require_writable(path)
    output.write(path, b"new")
    assert os.read(leader, 10) == b"new"
    assert path.is_char_device()
    os.close(follower)
    os.close(leader)


@pytest.mark.parametrize("goes_to", ["a pipe", "a file"])
def test_a_link_to_standard_output_is_written_to_in_turn(tmp_path: Path, goes_to: str) -> None:
    """What `/dev/stdout` is: a link to a descriptor."""
    link, file = tmp_path / "stdout", tmp_path / "file"
    link.symlink_to("/proc/self/fd/1")
    command = [sys.executable, "-c", WRITE, str(link)]
    if goes_to == "a pipe":
        printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    else:
        with file.open("w") as handle:
            subprocess.run(command, stdout=handle, check=True)
        printed = file.read_text()
    assert printed == "before\nwritten\nafter\n"
    assert os.readlink(link) == "/proc/self/fd/1"


def test_what_cannot_be_written_is_told_before(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, why in ((tmp_path, "it is a folder"), (tmp_path / "file" / "below", "Not a directory")):
        with pytest.raises(OSError, match=why):
            output.require_writable(path)
        with pytest.raises(OSError, match=why):
            output.write(path, b"new")
    with pytest.raises(FileExistsError):
        output.require_writable_folder(tmp_path / "file")


def test_a_file_that_may_not_be_written_is_told_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user who is not root."""
    path = tmp_path / "old"
    path.write_bytes(b"old")
    monkeypatch.setattr(output.os, "access", lambda path, what: False)
    with pytest.raises(PermissionError):
        output.require_writable(path)


WRITERS = {"write_text", "write_bytes", "mkstemp", "NamedTemporaryFile"}
ELSEWHERE = {
    ("gpu.py", "open"): "a log, which grows line by line",
    ("memory.py", "write_text"): "not a file: it resets a counter of the kernel",
    ("output.py", "write_bytes"): "the writer itself",
    ("output.py", "open"): "the writer itself",
}


def writes(tree: ast.AST) -> Iterator[str]:
    """Names of the calls that write files."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            name = called.rsplit(".", 1)[-1]
            modes = [value.value for value in node.args if isinstance(value, ast.Constant)]
            if (
                name in WRITERS
                or called.startswith(("shutil.copy", "shutil.move"))
                or (name == "open" and {"w", "a", "x", "wb", "ab", "xb"} & {*modes})
            ):
                yield name


def test_everything_is_written_here() -> None:
    found = {(path.name, name) for path in HARNESS.rglob("*.py") for name in writes(ast.parse(path.read_text()))}
    assert found == {*ELSEWHERE}


def test_trying_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.write_bytes(b"old")
    before = path.stat()
    output.require_writable(path)
    output.require_writable(tmp_path / "folder" / "new")
    assert path.stat() == before
    assert os.listdir(tmp_path / "folder") == []
