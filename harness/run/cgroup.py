"""What a container or a job allows this process: control groups, versions 1 and 2, its own and all around it.

`root` is where `proc` and `sys` are mounted: tests lay out trees of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path("/")


class _Files(NamedTuple):
    """Where a version keeps its figures.

    Attributes:
        limit, used: files of one number in bytes.
        reclaimable: entry of memory.stat, in bytes: file contents that give way before anything is killed.
        kills: file with an entry `oom_kill`.
        quota: files that hold microseconds of processor time and the period they are for.
    """

    limit: str
    used: str
    reclaimable: str
    kills: str
    quota: tuple[str, ...]


_V1 = _Files(
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "total_inactive_file",
    "memory.oom_control",
    ("cpu.cfs_quota_us", "cpu.cfs_period_us"),
)
_V2 = _Files("memory.max", "memory.current", "inactive_file", "memory.events", ("cpu.max",))
_UNLIMITED_BYTES = 1 << 60
"""Version 1 has no word for "no limit": it gives the largest number of whole pages."""


def memory_limit_bytes(root: Path = ROOT) -> int | None:
    """The smallest limit; None without one."""
    return min((limit for limit, _ in _memory(root)), default=None)


def memory_left_bytes(root: Path = ROOT) -> int | None:
    """What may still be taken before a limit is reached, file contents that give way not counted as taken; or None."""
    left = min((limit - used for limit, used in _memory(root)), default=None)
    return None if left is None else max(0, left)


def oom_kills(root: Path = ROOT) -> int:
    """Processes of this group that the system has ended for want of memory, since the group was made."""
    files, folders = _groups("memory", root)
    return _entry(folders[0] / files.kills, "oom_kill") if folders else 0


def cpu_quota(root: Path = ROOT) -> float | None:
    """Processors' worth of time that may be used, whatever the number of cores; None without a quota."""
    files, folders = _groups("cpu", root)
    quotas = []
    for folder in folders:
        words = " ".join(_text(folder / name) for name in files.quota).split()
        if len(words) == 2 and words[0] not in ("max", "-1"):
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def _memory(root: Path) -> Iterator[tuple[int, int]]:
    """Limit and use in bytes of each group that has a limit."""
    files, folders = _groups("memory", root)
    for folder in folders:
        limit = _text(folder / files.limit)
        if limit.isdigit() and int(limit) < _UNLIMITED_BYTES:
            used = int(_text(folder / files.used) or 0)
            yield int(limit), used - _entry(folder / "memory.stat", files.reclaimable)


def _groups(controller: str, root: Path) -> tuple[_Files, list[Path]]:
    """Version of a controller, and the folders of this process's group and those around it, innermost first.

    In a container the path may start above what is mounted: folders that are not there are left out.
    """
    mounts = root / "sys/fs/cgroup"
    lines = [line.split(":", 2) for line in _text(root / "proc/self/cgroup").splitlines()]
    for _, controllers, path in lines:
        if controller in controllers.split(","):
            mount = mounts / controllers if (mounts / controllers).is_dir() else mounts / controller
            return _V1, _folders(mount, path)
    return _V2, _folders(mounts, next((path for _, controllers, path in lines if not controllers), "/"))


def _folders(mount: Path, path: str) -> list[Path]:
    inside = PurePosixPath("." if ".." in path.split("/") else path.lstrip("/"))
    return [mount / part for part in (inside, *inside.parents) if (mount / part).is_dir()]


def _entry(file: Path, name: str) -> int:
    """Number after a name in a file of such lines; 0 where there is none."""
    found = (line.split() for line in _text(file).splitlines())
    return next((int(words[1]) for words in found if words[0] == name and len(words) == 2), 0)


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
