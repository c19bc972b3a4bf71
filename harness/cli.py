"""The command line: parse, call, print."""

from __future__ import annotations

import datetime
import math
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec
import numpy as np
import psutil
from rich.console import Console

from harness import report, terminal
from harness.check.hard_cases import HARD_SCENARIO
from harness.check.inputs import SCENARIOS
from harness.contract import registry
from harness.contract.protocol import DEVICES, DTYPES
from harness.contract.records import Record, case_id
from harness.contract.store import RecordFile, RecordsError, read_records, write_atomically
from harness.report import compare as comparing
from harness.report import segments
from harness.run import gate, machine
from harness.run.describe import describe_all
from harness.run.plan import PROFILES, Narrowing, Planned, plan
from harness.run.resume import MixedRecordsError, split
from harness.run.runner import Finished, Runner
from harness.run.segments import check_segments
from harness.run.settings import DEFAULT_LIMIT_S, Settings

LOCAL_RESULTS = Path("results/local")
LOCAL_REPORTS = Path("reports/local")
COMMITTED_RESULTS = Path("results")
COMMITTED_REPORTS = Path("reports")
TIMED_PROFILES = [name for name in PROFILES if name != "check"]
_PROBLEM, _ERROR = "[red]problem[/] ", "[red]error:[/] "
SAMPLE_BUDGET_S = {"quick": 0.5, "gpu": 1.0}
DEFAULT_BUDGET_S = 3.0
INTERRUPTED = 130
"""Exit code after Ctrl-C, as a shell has it."""


class _Path(click.Path):
    """A file or folder, which has a name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value):
            self.fail("'' names no file or folder", param, ctx)
        return super().convert(value, param, ctx)


class _Particles(click.ParamType):
    """A whole number that may be written 100000, 100_000 or 1e5."""

    name = "N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = float(str(value))
        except ValueError:
            number = -1.0
        if not (0 <= number < 2**31 and number == int(number)):
            self.fail(
                f"{value!r} is no whole number of particles below 2^31; write for instance 1000 or 1e5", param, ctx
            )
        return int(number)


class _Bytes(click.ParamType):
    """An amount of memory that may end in K, M, G or T."""

    name = "BYTES"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        letters = str(value).strip().upper().removesuffix("B").removesuffix("I")
        factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}.get(letters[-1:], 1)
        try:
            number = float(letters.rstrip("KMGT"))
        except ValueError:
            number = -1.0
        if not 0 <= number < float("inf"):
            self.fail(f"{value!r} is no amount of memory; write for instance 8G or 500M", param, ctx)
        return int(number * factor)


class _Shard(click.ParamType):
    """I/K: the I-th of K parts."""

    name = "I/K"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        index, _, count = str(value).partition("/")
        if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
            self.fail(f"{value!r} is no shard; write I/K with 1 <= I <= K, for instance 2/4", param, ctx)
        return int(index), int(count)


def _default_jobs() -> int:
    """Cases a check runs at once: as many as cores and memory (4 GiB each) allow, at most 4."""
    return max(1, min(4, len(machine.available_cores()), psutil.virtual_memory().available >> 32))


_FOLDER = _Path(path_type=Path)
_Read = TypeVar("_Read")
_Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def _options(*decorators: _Decorator) -> _Decorator:
    """Several options as one decorator, in this order on the help page."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


impl_option = click.option(
    "--impl",
    multiple=True,
    metavar="NAME|FILE",
    help="A row, or the path of a module of yours; repeats. Default: all rows.",
)


def case_options(scenarios: Sequence[str]) -> _Decorator:
    """The options that choose cases, for commands that run them on these scenarios."""
    return _options(
        impl_option,
        click.option("--n", multiple=True, type=_Particles(), help="Particles, for instance 1e5; repeats."),
        click.option(
            "--scenario", multiple=True, type=click.Choice(scenarios), help="How positions are drawn; repeats."
        ),
        click.option("--device", multiple=True, type=click.Choice(DEVICES), help="Where to run; repeats."),
        click.option("--dtype", multiple=True, type=click.Choice(DTYPES), help="Precision; repeats."),
        click.option(
            "--threads",
            multiple=True,
            type=click.IntRange(min=1),
            help="Cores of one case; repeats. Default: all allowed.",
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(min=1.0),
            default=DEFAULT_LIMIT_S,
            show_default=True,
            help="Seconds of one case.",
        ),
        click.option(
            "--memory-limit",
            type=_Bytes(),
            default=0,
            help="Memory of one case, e.g. 8G. Default: 90 % of what is free.",
        ),
    )


@contextmanager
def _on_interrupt(words: str) -> Iterator[None]:
    """What Ctrl-C means for a command."""
    try:
        yield
    except KeyboardInterrupt:
        _leave(INTERRUPTED, f"interrupted: {words}")


class _Command(click.Group):
    """Tells of a file that cannot be read or written, and of Ctrl-C, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OSError as error:
            _fail(str(error))
        except KeyboardInterrupt:
            _leave(INTERRUPTED, "interrupted")


@click.group(cls=_Command, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def main() -> None:
    """What does it cost to differentiate an irregular particle algorithm in each framework?

    Every gradient is checked before it is timed. Start with pairgrad list, then pairgrad check, then pairgrad bench.
    """


@main.command("list")
@impl_option
def list_rows(impl: tuple[str, ...]) -> None:
    """Show the rows, their devices and precisions, and whether they can run here.

    Exits 1 if a row named with --impl does not load.
    """
    names = _implementations(impl)
    with Console(stderr=True).status("asking every row ..."):
        rows = describe_all(names)
    terminal.console().print(terminal.availability_table(rows))
    sys.exit(1 if impl and any(row.problem for row in rows) else 0)


@main.command()
@case_options([*SCENARIOS, HARD_SCENARIO])
@click.option("--jobs", type=click.IntRange(min=1), default=_default_jobs, help="Cases at once.")
@click.option("--require", multiple=True, metavar="NAME", help="A row that must have been checked; repeats.")
@click.option("--json", "json_file", type=_FOLDER, help="Write the verdict and every record to this file.")
@click.option("--save", type=_FOLDER, help="Keep the gradients in this folder as .npy files.")
@_on_interrupt("nothing was decided")
def check(
    impl: tuple[str, ...],
    timeout: float,
    memory_limit: int,
    jobs: int,
    require: tuple[str, ...],
    json_file: Path | None,
    save: Path | None,
    **narrowing: tuple[Any, ...],
) -> None:
    """The gate: exit 1 unless every gradient agrees with the oracle, with finite differences and with the others.

    Rows named with --impl or --require must have been checked; the others may be unavailable or unsupported here.
    Without --impl the segment operations are checked too.
    """
    names = _implementations(impl)
    planned = plan("check", names, _narrowing(**narrowing))
    settings = Settings(limit_s=timeout, memory_limit_bytes=memory_limit, gradients=True, jobs=jobs)
    with terminal.progress(planned) as progress, Runner(settings, _run_id(), progress.phase) as runner:

        def on_finished(each: Planned, finished: Finished) -> None:
            progress.finished(each, finished.record)
            if save is not None and finished.gradient is not None:
                save.mkdir(parents=True, exist_ok=True)
                np.save(save / (case_id(each.case).replace("/", "_") + ".npy"), finished.gradient)

        required = [*(names if impl else ()), *(_implementations(require) if require else ())]
        verdict = gate.check(runner, planned, required, on_finished)
    segments, wrong = ([], []) if impl else check_segments()
    problems = verdict.problems + wrong
    if json_file is not None:
        content = {"agree": not problems, "problems": problems, "records": verdict.records, "segments": segments}
        write_atomically(json_file, msgspec.json.format(msgspec.json.encode(content)))
    console = terminal.console()
    console.print(terminal.agreement_table(verdict.records))
    if segments:
        right = sum(not check.reason for check in segments)
        terminal.say(console, f"segment operations: {right} of {len(segments)} checks agree")
    terminal.say(console, *problems, mark=_PROBLEM)
    console.print(f"[red]{terminal.counted(len(problems), 'problem')}[/]" if problems else "[green]all agree[/]")
    sys.exit(1 if problems else 0)


@main.command()
@click.option(
    "--profile", type=click.Choice(TIMED_PROFILES), default="quick", show_default=True, help="Which cases; see above."
)
@case_options([*SCENARIOS])
@click.option("--rounds", type=click.IntRange(min=1), default=1, help="Repeat the plan, series in another order.")
@click.option("--budget", type=click.FloatRange(min=0.0), help="Seconds of samples, for each of forward and gradient.")
@click.option("--results", type=_FOLDER, default=LOCAL_RESULTS, show_default=True, help="Folder the records go to.")
@click.option("--resume", is_flag=True, help="Run only what the folder has no record of.")
@click.option("--shard", type=_Shard(), default=(1, 1), help="Run the I-th of K parts, for a job array.")
@click.option("--skip/--no-skip", default=True, help="Skip larger N after an out-of-memory or a timeout (default).")
@click.option("--within", type=click.FloatRange(min=1.0), help="Seconds for the whole run; what is left is skipped.")
@click.option("--dry-run", is_flag=True, help="Print the plan and stop.")
def bench(
    profile: str,
    impl: tuple[str, ...],
    timeout: float,
    memory_limit: int,
    rounds: int,
    budget: float | None,
    results: Path,
    resume: bool,
    shard: tuple[int, int],
    skip: bool,
    within: float | None,
    dry_run: bool,
    **narrowing: tuple[Any, ...],
) -> None:
    """Check and time every case of a profile, each in a fresh process; record each and print the table.

    quick: N = 1e3 to 1e5. study: to 1e6. full: study, then one axis at a time: float32, one thread, clustered input,
    capacity. gpu: N = 1e5 and 1e6 on cuda. Exits 1 on an outcome that nobody expected, and names it, and where nothing
    was timed of a row named with --impl. Ctrl-C keeps what there is.
    """
    names = _implementations(impl)
    planned = plan(profile, names, _narrowing(**narrowing), rounds, shard)
    settings = Settings(
        budget_s=SAMPLE_BUDGET_S.get(profile, DEFAULT_BUDGET_S) if budget is None else budget,
        limit_s=timeout,
        memory_limit_bytes=memory_limit,
        within_s=within or math.inf,
        skip_larger=skip,
    )
    done: list[Record] = []
    if resume and results.is_dir():
        try:
            planned, done = split(planned, _read(read_records, [results]), machine.environment())
        except MixedRecordsError as error:
            _usage(str(error))
    console = terminal.console()
    if dry_run:
        terminal.say(console, *(f"round {each.round}  {case_id(each.case)}" for each in planned))
        terminal.say(console, terminal.counted(len(planned), "case"))
        return
    _require_writable(results, "--results")
    records, interrupted = list(done), False
    try:
        for record in _run(planned, settings, results, done):
            records.append(record)
    except KeyboardInterrupt:
        interrupted = True
    console.print(terminal.timing_tables(records))
    problems = gate.told([record for record in records if not record.is_expected], records)
    if impl and not interrupted:
        problems += gate.untimed(records, names)
    terminal.say(console, *problems, mark=_PROBLEM)
    if interrupted:
        share = f"{len(records)} of {terminal.counted(len(done) + len(planned), 'record')}"
        terminal.say(console, f"interrupted: {share} kept in {results}; go on with the same command and --resume")
        sys.exit(INTERRUPTED)
    kept = f"{terminal.counted(len(records), 'record')} in {results}"
    terminal.say(console, kept if planned else f"nothing left to run; {kept}")
    terminal.say(console, *terminal.advice(records, results, LOCAL_REPORTS))
    sys.exit(1 if problems else 0)


@main.command("report")
@click.option(
    "--results",
    multiple=True,
    type=_FOLDER,
    default=[COMMITTED_RESULTS],
    show_default=True,
    help="Folder of records and of the segment operations' timings, or file of records; repeats, and machines may mix.",
)
@click.option("--out", type=_FOLDER, default=COMMITTED_REPORTS, show_default=True, help="Folder the reports go to.")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit 1 if the reports are stale.")
def write_report(results: tuple[Path, ...], out: Path, only_check: bool) -> None:
    """Make tables, figures, findings and the page from records."""
    records, runs = _records(results), _read(segments.read_runs, results)
    console = terminal.console()
    if not only_check:
        _require_writable(out, "--out")
        report.write(records, out, runs)
        terminal.say(console, f"reports in {out}", f"open {out / 'index.html'}")
        return
    stale = report.stale(records, out, runs)
    terminal.say(console, *stale, mark="[red]stale[/] ")
    if stale:
        terminal.say(console, "run pairgrad report and commit what it writes")
    sys.exit(1 if stale else 0)


@main.command()
@click.argument("old", type=_FOLDER)
@click.argument("new", type=_FOLDER)
@click.option("--fail", is_flag=True, help="Exit 1 if any case is slower, or failed and did not before.")
@click.option("--markdown", type=_FOLDER, help="Write the comparison to this file too.")
def compare(old: Path, new: Path, fail: bool, markdown: Path | None) -> None:
    """Same, faster, slower or ambiguous, case by case, between two folders or files of records.

    Never across machines, devices, dtypes or thread counts: such cases are shown and not compared.
    """
    comparisons = comparing.compare(_records([old]), _records([new]))
    terminal.console().print(terminal.comparison_table(comparisons))
    if markdown is not None:
        write_atomically(markdown, comparing.markdown(comparisons).encode())
    sys.exit(1 if fail and any(each.verdict in comparing.REGRESSIONS for each in comparisons) else 0)


@main.command()
@click.option("--name", is_flag=True, help="Print only the name of this machine's results folder.")
def env(name: bool) -> None:
    """Print what is recorded about this machine."""
    if name:
        click.echo(machine.machine_name())
    else:
        terminal.console().print_json(msgspec.json.encode(machine.environment()).decode())


def _run(planned: Sequence[Planned], settings: Settings, results: Path, done: Sequence[Record]) -> Iterator[Record]:
    """Run what is left of a plan; each record is stored before it is handed on."""
    run_id = _run_id()
    file = RecordFile(results / f"{run_id}.jsonl")
    with terminal.progress(planned) as progress, Runner(settings, run_id, progress.phase, done) as runner:
        for count, (each, finished) in enumerate(zip(planned, runner.run(planned), strict=True)):
            try:
                file.add(finished.record)
            except OSError as error:
                held = terminal.counted(count, "record")
                _fail(f"cannot write {file.path} ({error.strerror}); it holds the {held} before")
            progress.finished(each, finished.record)
            yield finished.record


def _run_id() -> str:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{now}-{uuid.uuid4().hex[:6]}"


def _implementations(given: Sequence[str] | None) -> list[str]:
    try:
        return registry.resolve_all(given or registry.names())
    except registry.UnknownImplementationError as error:
        _usage(str(error))


def _narrowing(**given: tuple[Any, ...]) -> Narrowing:
    """The values the command line asks for in place of a profile's own."""
    cores = len(machine.available_cores())
    for number in given["threads"]:
        if number > cores:
            _usage(f"--threads {number} is more than the {cores} cores this process may use")
    plural = {"n": "ns", "scenario": "scenarios", "device": "devices", "dtype": "dtypes", "threads": "threads"}
    return Narrowing(**{plural[name]: tuple(values) for name, values in given.items()})


def _require_writable(folder: Path, option: str) -> None:
    """Make a folder, or end as on a usage error where no file can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        why = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        _usage(f"cannot write to {folder}: {why}; give {option} a folder")


def _records(paths: Sequence[Path]) -> list[Record]:
    records = _read(read_records, paths)
    if not records:
        _usage(f"no records in {', '.join(map(str, paths))}; run pairgrad bench first, or name another folder")
    return records


def _read(reader: Callable[[Sequence[Path]], list[_Read]], paths: Sequence[Path]) -> list[_Read]:
    try:
        return reader(paths)
    except (RecordsError, OSError) as error:
        _usage(str(error))


def _usage(message: str) -> NoReturn:
    """End as on a usage error."""
    _leave(2, message, _ERROR)


def _fail(message: str) -> NoReturn:
    _leave(1, message, _ERROR)


def _leave(code: int, message: str, mark: str = "") -> NoReturn:
    terminal.say(Console(stderr=True), message, mark=mark)
    sys.exit(code)


if __name__ == "__main__":
    main()
