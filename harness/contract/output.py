"""Writing files: the one way in which anything here reaches a path that a user named."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from pathlib import Path

_STANDARD_STREAMS = (1, 2)


def write(path: Path, content: bytes) -> None:
    """Write a file as a whole; folders it lacks are made, and links are followed.

    A regular file is replaced at once or left untouched; it keeps its mode and owner, and a new one gets the mode that
    the umask leaves. A pipe, a terminal and whatever else standard output or standard error goes to are written to.

    Raises:
        OSError: it cannot be written; a regular file is as it was.
    """
    stream = _standard_stream(path)
    if stream is not None:
        with open(os.dup(stream), "wb") as file:  # not opened anew: what follows must come after it
            file.write(content)
    elif _is_replaced(path):
        _replace(Path(os.path.realpath(path)), content)
    else:
        path.write_bytes(content)


def require_writable(path: Path) -> None:
    """Try whether `write` would work, but write nothing; folders it lacks are made.

    Raises:
        OSError: `write` would fail, and why.
    """
    if _standard_stream(path) is None and _is_replaced(path):
        require_writable_folder(Path(os.path.realpath(path)).parent)


def require_writable_folder(folder: Path) -> None:
    """Make a folder, with all above it, and try whether a file can be made in it.

    Raises:
        OSError: it is none, or no file can be made in it, and why.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()


def _standard_stream(path: Path) -> int | None:
    """The descriptor of standard output or standard error where it goes to this very file."""
    with contextlib.suppress(OSError):
        there = path.stat()
        for descriptor in _STANDARD_STREAMS:
            with contextlib.suppress(OSError):  # it is closed
                if os.path.samestat(there, os.fstat(descriptor)):
                    return descriptor
    return None


def _is_replaced(path: Path) -> bool:
    """Whether a path is replaced: nothing stands there, or a regular file. Anything else is written to.

    Raises:
        OSError: neither can be done with what stands there.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return True
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "it is a folder", str(path))
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise OSError(errno.EINVAL, "it is neither a file nor a pipe", str(path))
    if not os.access(path, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return stat.S_ISREG(mode)


def _replace(path: Path, content: bytes) -> None:
    """Put a regular file in the place of one, or where nothing is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.parent / f".pairgrad-{secrets.token_hex(8)}"
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # less what the umask takes
    try:
        with open(handle, "wb") as file:
            _resemble(handle, path)
            file.write(content)
            file.flush()
            os.fsync(handle)
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _resemble(handle: int, path: Path) -> None:
    """Give an open file the owner, as far as that is allowed, and the mode of the one it replaces, if there is one."""
    with contextlib.suppress(FileNotFoundError):
        old = path.stat()
        with contextlib.suppress(PermissionError):
            os.fchown(handle, old.st_uid, old.st_gid)
        os.fchmod(handle, stat.S_IMODE(old.st_mode))
