"""Finds implementations: folders of `implementations/`, or any module given by its path; imports none before `load`."""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import inspect
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from harness.contract.encoding import is_unicode
from harness.contract.protocol import Description, Implementation
from harness.contract.sources import closure, digest, module_files

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "implementations"
MODULE = "implementation.py"
_MEASURING = ("harness.check.oracle", "harness.run.child", "harness.run.process", "harness.run.worker")
"""Modules that a case runs through, whatever the row; all that they import goes with them."""
_FACE = ROOT / "harness" / "__init__.py"
"""What users of records import; no case runs through it."""


class UnknownImplementationError(ValueError):
    """No implementation of that name; lists those there are."""


def names() -> list[str]:
    """Names of the project's implementations, in alphabetical order."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{MODULE}"))


def resolve(name_or_path: str) -> str:
    """A known name as it is, a path as an absolute one.

    Raises:
        UnknownImplementationError: it is neither, or the path of a module with the name of a row.
    """
    if name_or_path in names():
        return name_or_path
    path = Path(name_or_path)
    if path.suffix == ".py" and path.is_file():
        path = path.resolve()
        if path.stem in names():
            raise UnknownImplementationError(f"{name_or_path} has the name of the row {path.stem!r}: rename the file")
        if not is_unicode(path.stem):
            raise UnknownImplementationError(f"the name of {name_or_path!r} is no UTF-8: rename the file")
        return str(path)
    raise UnknownImplementationError(_unknown(name_or_path))


def _unknown(name_or_path: str) -> str:
    path = Path(name_or_path)
    if path.exists():
        return f"{name_or_path!r} is not a .py file"
    if "/" in name_or_path or path.suffix == ".py":
        return f"no such file: {name_or_path!r}"
    near = "".join(f"did you mean {name}? " for name in difflib.get_close_matches(name_or_path, names(), 1))
    known = ", ".join(names())
    return f"no implementation {name_or_path!r}: {near}give one of {known}, or the path of a Python module"


def resolve_all(names_or_paths: Iterable[str]) -> list[str]:
    """`resolve` for each, once, in order.

    Raises:
        UnknownImplementationError: as `resolve`; or two of them would have the same name in tables.
    """
    resolved = list(dict.fromkeys(resolve(each) for each in names_or_paths))
    for name, count in Counter(row_name(each) for each in resolved).items():
        if count > 1:
            raise UnknownImplementationError(f"{count} implementations are called {name!r}: rename all but one")
    return resolved


def row_name(name_or_path: str) -> str:
    """The name in tables: a module given by path goes by its stem."""
    return Path(name_or_path).stem if name_or_path.endswith(".py") else name_or_path


def load(name_or_path: str) -> type[Implementation]:
    """Import an implementation, its framework with it: for worker processes only.

    Raises:
        ImportError: a package is missing.
        TypeError: the module does not define exactly one subclass of `Implementation`, with its description.
    """
    if name_or_path.endswith(".py"):
        sys.path.insert(0, str(Path(name_or_path).parent))  # it may import its neighbours, as a script may
        module_name = f"pairgrad_plugin_{row_name(name_or_path)}"  # never the name of a package
        spec = importlib.util.spec_from_file_location(module_name, name_or_path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(f"implementations.{name_or_path}.{Path(MODULE).stem}")
    return _row(module)


def _row(module: ModuleType) -> type[Implementation]:
    found = {
        value.__name__: value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Implementation) and value.__module__ == module.__name__
    }
    if not found:
        way_out = "derive one from harness.contract.protocol.Implementation (docs/template.py)"
        raise TypeError(f"{module.__file__} defines no subclass of Implementation: {way_out}")
    if len(found) > 1:
        way_out = "keep one here and import the others from files of their own"
        raise TypeError(f"{module.__file__} defines {len(found)} implementations, {', '.join(found)}: {way_out}")
    (row,) = found.values()
    if not isinstance(getattr(row, "description", None), Description):
        raise TypeError(f"class {row.__name__} has no `description`; see docs/template.py")
    return row


def is_source_of(name_or_path: str, filename: str) -> bool:
    """Whether a file is an implementation's own: in `implementations/`, or the module given by path or beside it."""
    folder = Path(filename).parent
    if name_or_path.endswith(".py") and folder == Path(name_or_path).parent:
        return True
    return folder.is_relative_to(FOLDER)


@functools.cache
def code_hash(name_or_path: str) -> str:
    """SHA-256 (12 digits) over what decides a record: see `sources`."""
    return digest(sources(name_or_path))


def sources(name_or_path: str) -> frozenset[Path]:
    """The files that decide a record: of the harness those that measure, and the row with all that it leads to."""
    if name_or_path.endswith(".py"):
        path = Path(name_or_path)
        return _measuring() | _closure([path], path.parent)
    return _measuring() | _closure(_files(f"{FOLDER.name}.{name_or_path}.{Path(MODULE).stem}"))


@functools.cache
def _measuring() -> frozenset[Path]:
    return frozenset(_closure(file for name in _MEASURING for file in _files(name)))


def _files(module: str) -> list[Path]:
    return module_files(module, (ROOT,))


def _closure(files: Iterable[Path], *beside: Path) -> set[Path]:
    return closure(files, importable=(*beside, ROOT), nameable=(*beside, FOLDER), outside=(_FACE,))


def lines_of_code(name_or_path: str, description: Description) -> tuple[int | None, int | None]:
    """Code lines of the forward pass and of a hand-written adjoint, without blank lines, comments and docstrings.

    None for a module given by path, whose parts nobody has told apart. Where a framework derives the adjoint: 0.
    """
    if name_or_path.endswith(".py"):
        return None, None
    adjoint = f"{name_or_path}/adjoint.py"
    return (
        _code_lines(description.forward_sources or (f"{name_or_path}/forward.py",)),
        _code_lines(description.adjoint_sources or ((adjoint,) if (FOLDER / adjoint).is_file() else ())),
    )


@functools.cache
def _code_lines(sources: tuple[str, ...]) -> int | None:
    try:
        from pygount import SourceAnalysis
    except ModuleNotFoundError:
        return None
    paths = [FOLDER / source for source in sources]
    if not all(path.is_file() for path in paths):
        return None
    return sum(int(SourceAnalysis.from_file(str(path), "pairgrad").code_count) for path in paths)
