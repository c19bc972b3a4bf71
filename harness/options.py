"""What the command line takes: types of values, each refused with its limits and a way out, and shared options."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from harness.contract.protocol import DEVICES, DTYPES
from harness.contract.store import LOCAL_RESULTS, RESULTS
from harness.problems.sph2d import SCENARIOS
from harness.run import machine, memory
from harness.run.child import OURS
from harness.run.settings import DEFAULT_LIMIT_S

TIMED_SCENARIOS = [name for name, scenario in SCENARIOS.items() if scenario.timed]

Decorator = Callable[[Callable[..., None]], Callable[..., None]]


class PathName(click.Path):
    """A file or folder, which has a name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A `Path`."""
        if not str(value):
            self.fail("'' names no file or folder", param, ctx)
        return super().convert(value, param, ctx)


class _Typed(click.ParamType):
    """A value that `read` makes of a text, or None where it cannot.

    Attributes:
        what: it is, with its limits.
        instance: of it, as the way out.
    """

    what: str
    instance: str

    def read(self, text: str) -> Any:
        """The value; None where the text is no such thing."""
        raise NotImplementedError

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value of a text, or of a default."""
        read = self.read(str(value).strip())
        if read is None:
            self._refuse(value, param, ctx)
        return read

    def _refuse(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NoReturn:
        self.fail(f"{value!r} is no {self.what}; write for instance {self.instance}", param, ctx)


class Whole(_Typed):
    """A whole number below 2^31 that may be written 100000, 100_000 or 1e5."""

    name = "N"

    def __init__(self, noun: str, minimum: int, instance: str) -> None:
        self.minimum = minimum
        self.what, self.instance = f"whole number of {noun} from {minimum} on and below 2^31", instance

    def read(self, text: str) -> int | None:
        """An `int`."""
        number = _number(text)
        return int(number) if self.minimum <= number < 2**31 and number == int(number) else None


class Seconds(_Typed):
    """A number of seconds; infinity is no limit."""

    name = "SECONDS"

    def __init__(self, minimum: float) -> None:
        self.minimum = minimum
        self.what, self.instance = f"number of seconds from {minimum:g} on", "60, or inf for no limit"

    def read(self, text: str) -> float | None:
        """A `float`."""
        number = _number(text)
        return number if number >= self.minimum else None


class Bytes(_Typed):
    """An amount of memory that may end in K, M, G or T."""

    name = "BYTES"
    what, instance = "amount of memory from 1 byte on and below 8 EiB", "8G or 500M"

    def read(self, text: str) -> int | None:
        """An `int`, in bytes."""
        found = re.fullmatch(r"(.*?)\s*([KMGT]?)(?:I?B)?", text.upper(), re.S)
        assert found is not None
        number = _number(found[1]) * 1024.0 ** " KMGT".index(found[2] or " ")
        return int(number) if 1 <= number < 2**63 else None


class Shard(_Typed):
    """I/K: the I-th of K parts."""

    name = "I/K"
    what, instance = "shard I/K with 1 <= I <= K below 2^31", "2/4"

    def read(self, text: str) -> tuple[int, int] | None:
        """Index, from 1, and count."""
        parts = Whole("parts", 1, "4")
        index, count = (parts.read(part) for part in text.partition("/")[::2])
        return (index, count) if index is not None and count is not None and index <= count else None


class Variable(_Typed):
    """NAME=VALUE: a variable of the environment, none of those that are set here anyway."""

    name = "NAME=VALUE"
    what, instance = "setting NAME=VALUE of a variable, in characters that can be shown", "NUMBA_OPT=2"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value of a text."""
        read = super().convert(value, param, ctx)
        if read[0] in OURS:
            self.fail(f"{read[0]} is set by pairgrad itself; see 'The run' in docs/method.md", param, ctx)
        return read

    def read(self, text: str) -> tuple[str, str] | None:
        """Name and value."""
        found = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", text)
        return (found[1], found[2]) if found and text.isprintable() else None


def _number(text: str) -> float:
    """A number in digits 0 to 9; NaN, with which every comparison fails, for all else."""
    try:
        return float(text) if text.isascii() else math.nan
    except ValueError:
        return math.nan


def default_jobs() -> int:
    """Cases a check runs at once: as many as cores and memory (4 GiB each) allow, at most 4."""
    return max(1, min(4, len(machine.available_cores()), memory.available_bytes() >> 32))


def together(*decorators: Decorator) -> Decorator:
    """Several options as one decorator, in this order on the help page."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


path_type = PathName(path_type=Path)
impl_option = click.option(
    "--impl",
    multiple=True,
    metavar="NAME|FILE",
    help="A row, or the path of a module of yours; repeats. Default: all rows.",
)


records_option = click.option(
    "--results",
    multiple=True,
    type=path_type,
    default=[RESULTS],
    show_default=True,
    help="Folder of records and of the segment operations' timings, or file of records; repeats, and machines may mix. "
    f"Of the default folder {LOCAL_RESULTS} is left out.",
)


def case_options(scenarios: Sequence[str]) -> Decorator:
    """The options of commands that run cases: which, on these scenarios, within which limits, and what is told."""
    return together(
        impl_option,
        click.option("--n", multiple=True, type=Whole("particles", 0, "1000 or 1e5"), help="Particles; repeats."),
        click.option(
            "--scenario", multiple=True, type=click.Choice(scenarios), help="How positions are drawn; repeats."
        ),
        click.option("--device", multiple=True, type=click.Choice(DEVICES), help="Where to run; repeats."),
        click.option("--dtype", multiple=True, type=click.Choice(DTYPES), help="Precision; repeats."),
        click.option(
            "--threads",
            multiple=True,
            type=Whole("cores", 1, "4"),
            help="Cores of one case; repeats. Default: all allowed.",
        ),
        click.option(
            "--env",
            "variables",
            multiple=True,
            type=Variable(),
            help="Set in the rows' processes, which inherit no switch, and recorded; repeats.",
        ),
        click.option(
            "--timeout", type=Seconds(1.0), default=DEFAULT_LIMIT_S, show_default=True, help="Limit of one case."
        ),
        click.option(
            "--memory-limit", type=Bytes(), help="Memory of one case, e.g. 8G. Default: 90 % of what is free."
        ),
        click.option("--quiet", is_flag=True, help="Show no progress, only what was found."),
    )
