"""The terminal at hand, whatever it can show: lines as they are, without what it would obey."""

from __future__ import annotations

import io
import sys

from rich.console import Console
from rich.markup import escape

from harness.contract.encoding import printable


def standard_output() -> Console:
    """Standard output; 100 columns where it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=100)


def replace_what_cannot_be_shown() -> None:
    """Let standard output show a question mark for what its encoding lacks, where Python would raise."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def say(console: Console, *lines: str, mark: str = "") -> None:
    """Print lines as they are, each after a mark: none is broken, so that paths and commands can be copied."""
    for line in lines:
        console.print(f"{mark}{escape(printable_lines(line))}", highlight=False, soft_wrap=True)


def printable_lines(words: str) -> str:
    """Text with its line ends, and nothing else that a terminal would obey."""
    return "\n".join(map(printable, words.split("\n")))
