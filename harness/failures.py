"""How a command ends where it cannot go on: words on standard error, an exit code, and never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import click
from rich.console import Console

from harness.console import replace_what_cannot_be_shown, say
from harness.contract.registry import UnknownImplementationError
from harness.contract.store import RecordsError
from harness.report.documents import MarkersError
from harness.run.resume import MixedRecordsError
from harness.signals import Interrupted, interrupting


class Failure(click.ClickException):
    """Ends a command with words on standard error and an exit code."""

    mark = "[red]error:[/] "

    def show(self, file: IO[Any] | None = None) -> None:
        """Print each line after the mark."""
        say(Console(stderr=True), *self.message.splitlines(), mark=self.mark)


class Mistake(Failure):
    """What the command line asks for cannot be done; says what can."""

    exit_code = 2


_END = "harness.failures.end"
"""Key, in a context's `meta`, of what a command does when it is asked to end."""


def when_interrupted(end: Callable[[], str]) -> None:
    """Let the command under way end so when it is asked to: `end` returns what there is to say then."""
    click.get_current_context().meta[_END] = end


_MISTAKES = (UnknownImplementationError, RecordsError, MixedRecordsError, MarkersError)
"""Errors whose words are for whoever typed the command."""


class Commands(click.Group):
    """Tells of a mistake, of a file that cannot be read or written and of Ctrl-C, TERM and HUP without a traceback."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the command line, on whatever terminal."""
        replace_what_cannot_be_shown()
        return super().main(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command asked for; what goes wrong is a `Failure`."""
        try:
            with interrupting():
                return super().invoke(ctx)
        except _MISTAKES as error:
            raise Mistake(str(error)) from error
        except BrokenPipeError:
            raise  # whoever read the output has gone: click ends without a word
        except OSError as error:
            raise Failure(why(error)) from error
        except Interrupted as asked:
            with suppress(OSError):  # the terminal may be what has gone
                words = ctx.meta[_END]() if _END in ctx.meta else ""
                say(Console(stderr=True), f"{asked.words}: {words}" if words else asked.words)
            sys.exit(asked.exit_code)


@contextmanager
def tried(path: Path, way_out: str) -> Iterator[None]:
    """Try an output before there is anything to lose."""
    try:
        yield
    except OSError as error:
        reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror or error
        raise Mistake(f"cannot write to {path}: {reason}; {way_out}") from error


@contextmanager
def written(path: Path, unwritten: list[str]) -> Iterator[None]:
    """Write an output at the end: where that fails, what was found out is still to be told."""
    try:
        yield
    except OSError as error:
        unwritten.append(f"cannot write {path}: {error.strerror or error}")


def why(error: OSError) -> str:
    """Why, and of which file where that is known."""
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else error.strerror or str(error)
