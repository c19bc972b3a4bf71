"""Kernel caches that processes share which time nothing: test workers, the check, and the next run of either.

A folder for each set of package versions, sources and processor, so that what is in it was compiled from just these.
What is timed starts from a cold cache of its own instead.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.contract import registry
from harness.contract.encoding import is_unicode
from harness.run import machine

OVERRIDE = "PAIRGRAD_CACHE"
"""Environment variable that names the folder of all caches, in place of one in the user's cache directory."""
KEPT = 4
"""Caches that are kept however long they have not been used."""
UNUSED_S = 24 * 3600.0
"""A cache that has been used within this time is never removed: a process may be at work in it."""
_PREFIX = "kernels-"
_DOOMED = "removed-"
_SOURCES = (".py", ".cpp", ".h")
_PROCESSOR = ("model name", "flags")


def folder(implementation: str | None = None) -> Path:
    """The folder for what is compiled here and now, made where it is missing; old ones beside it are removed.

    Args:
        implementation: a module given by path, which then has a folder of its own; names of rows share one.
    """
    key = f"{_PREFIX}{_digest()}"
    if implementation is not None and implementation.endswith(".py"):
        key += f"-{registry.code_hash(implementation)}"
    found = _root() / key
    found.mkdir(parents=True, exist_ok=True)
    os.utime(found)
    _prune(found.parent)
    return found


def variables(caches: Path) -> dict[str, str]:
    """Environment variables that make frameworks keep in this folder all that they compile, however small."""
    return {
        "JAX_COMPILATION_CACHE_DIR": str(caches / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "NUMBA_CACHE_DIR": str(caches / "numba"),
        "WARP_CACHE_PATH": str(caches / "warp"),
    }


def shared(environment: Mapping[str, str], implementation: str | None = None) -> dict[str, str]:
    """The environment of a process that times nothing, with the shared caches in place of cold ones."""
    warm = variables(folder(implementation))
    return {**environment, **warm, "JAX_ENABLE_COMPILATION_CACHE": "true"}


def _root() -> Path:
    """The folder of all caches; one that ends with this process where the user's cannot be used by every compiler."""
    try:
        root = Path(os.environ.get(OVERRIDE) or _user_caches() / "pairgrad").absolute()
        root.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=root).close()
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        return _temporary_root()
    return root if is_unicode(str(root)) else _temporary_root()


def _user_caches() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


@functools.cache
def _temporary_root() -> Path:
    root = Path(tempfile.mkdtemp(prefix="pairgrad-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


def _digest() -> str:
    """Digest of package versions, sources of the implementations and processor.

    The processor because caches in a home directory are seen by every node of a cluster, and machine code of one may
    be none for another.
    """
    digest = hashlib.sha256(repr((machine.package_versions(), _processor())).encode())
    for path in sorted(path for path in registry.FOLDER.rglob("*") if path.suffix in _SOURCES):
        digest.update(str(path.relative_to(registry.FOLDER)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _processor() -> list[str]:
    """Model and instruction sets of the first processor, as the kernel tells them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return []
    return [line for line in lines if line.startswith(_PROCESSOR)]


def _prune(root: Path) -> None:
    """Remove the caches that have not been used for longest, but for a few, and none that may be in use.

    Of processes that do so at once, each keeps the same few: the youngest of what the others have left.
    """
    for path in _longest_unused(root.glob(f"{_PREFIX}*")):
        doomed = root / f"{_DOOMED}{uuid.uuid4().hex}"  # in one step: nobody finds half a cache
        with contextlib.suppress(OSError):
            path.rename(doomed)
    for path in root.glob(f"{_DOOMED}*"):  # also what a process that was killed has left
        shutil.rmtree(path, ignore_errors=True)


def _longest_unused(paths: Iterable[Path]) -> list[Path]:
    """Those of the caches that are beyond the few to keep and that no process is at work in."""
    last_uses = {}
    for path in paths:
        with contextlib.suppress(OSError):  # another process has just removed it
            last_uses[path] = path.stat().st_mtime
    aged = sorted(last_uses, key=lambda path: (last_uses[path], path), reverse=True)
    return [path for path in aged[KEPT:] if last_uses[path] < time.time() - UNUSED_S]
