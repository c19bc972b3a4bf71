"""What a file imports, read from its text."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from pathlib import Path


def imported(path: Path, known: Container[str] = ()) -> Iterator[str]:
    """Dotted names of all that a file imports, wherever in it; for `from a import b` a.b if that is known, else a."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                within = f"{node.module}.{alias.name}"
                yield within if within in known else node.module
