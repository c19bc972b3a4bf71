"""Files and all that they import, include or name, and what these do in turn: found by reading, nothing is imported."""

from __future__ import annotations

import ast
import functools
import hashlib
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path

_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
_FILE_NAME = re.compile(r"[\w.][\w./-]{0,200}\.\w+")


def module_files(name: str, folders: Sequence[Path]) -> list[Path]:
    """The file of a module and those of its packages, in the first folder that has any; empty if none has.

    Args:
        name: dotted; what follows the module, a class of it for instance, is left out.
        folders: from which modules are imported.
    """
    parts = name.split(".")
    for folder in folders:
        paths = [folder.joinpath(*parts[: k + 1]) for k in range(len(parts))]
        files = [file for path in paths for file in (path / "__init__.py", path.with_name(f"{path.name}.py"))]
        if found := [file for file in files if file.is_file()]:
            return found
    return []


def closure(
    files: Iterable[Path],
    importable: Sequence[Path],
    nameable: Sequence[Path] = (),
    outside: Container[Path] = (),
) -> set[Path]:
    """These files and all that they lead to, as far as it lies in the folders.

    A Python module leads to what it imports, wherever in it, and to files that a string in it names; C and C++ to what
    they include.

    Args:
        files: where to start.
        importable: folders from which modules are imported, the first goes first.
        nameable: folders that a file may be named from, after that of the file that names it.
        outside: files left out, with what only they lead to.
    """
    found: set[Path] = set()
    left = list(files)
    while left:
        path = left.pop().resolve()
        if path not in found and path not in outside:
            found.add(path)
            left += _led_to(path, importable, nameable)
    return found


def digest(files: Iterable[Path]) -> str:
    """SHA-256 (12 digits) of the contents: neither where the files lie nor what they are called goes in."""
    contents = sorted(hashlib.sha256(path.read_bytes()).digest() for path in files)
    return hashlib.sha256(b"".join(contents)).hexdigest()[:12]


def _led_to(path: Path, importable: Sequence[Path], nameable: Sequence[Path]) -> Iterator[Path]:
    text = path.read_text(errors="replace")
    if path.suffix != ".py":
        for name in _INCLUDE.findall(text):
            yield from _named(name, (path.parent, *nameable))
        return
    modules, strings = _mentions(text)
    for level, name in modules:
        yield from module_files(name, importable if level == 0 else (path.parents[level - 1],))
    for name in strings:
        yield from _named(name, (path.parent, *nameable))


def _named(name: str, folders: Iterable[Path]) -> list[Path]:
    return [file for folder in folders if (file := folder / name).is_file()][:1]


@functools.cache
def _mentions(text: str) -> tuple[list[tuple[int, str]], list[str]]:
    """Modules that a Python text imports, each with its level (0: absolute), and strings that may name a file."""
    modules, strings = [], []
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # whoever runs it is told
        return [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            within = f"{node.module}." if node.module else ""
            modules += [(node.level, f"{within}{alias.name}") for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _FILE_NAME.fullmatch(node.value):
            strings.append(node.value)
    return modules, strings
