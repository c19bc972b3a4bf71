"""The command line: parse, call, print."""

from __future__ import annotations

import datetime
import math
import sys
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
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from harness import compare as comparing
from harness import gate, measure, registry, report
from harness.describe import describe_all
from harness.hard_cases import HARD_SCENARIO
from harness.inputs import SCENARIOS
from harness.plan import PROFILES, Narrowing, Planned, plan
from harness.protocol import DEVICES, DTYPES
from harness.records import Record, RecordFile, RecordsError, case_id, read_records, write_atomically
from harness.report import segments, terminal
from harness.resume import MixedRecordsError, split
from harness.runner import DEFAULT_LIMIT_S, Finished, Runner, Settings
from harness.segments import check_segments

LOCAL_RESULTS = Path("results/local")
LOCAL_REPORTS = Path("reports/local")
COMMITTED_RESULTS = Path("results")
COMMITTED_REPORTS = Path("reports")
TIMED_PROFILES = [name for name in PROFILES if name != "check"]
SAMPLE_BUDGET_S = {"quick": 0.5, "gpu": 1.0}
DEFAULT_BUDGET_S = 3.0


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
    return max(1, min(4, len(measure.available_cores()), psutil.virtual_memory().available >> 32))


_FOLDER = click.Path(path_type=Path)
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


class _Command(click.Group):
    """Tells of a file that cannot be read or written, as of any other mistake, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OSError as error:
            _fail(str(error))


@click.group(cls=_Command, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def main() -> None:
    """What does it cost to differentiate an irregular particle algorithm in each framework?

    Every gradient is checked before it is timed. Start with pairgrad list, then pairgrad check, then pairgrad bench.
    """


@main.command("list")
@impl_option
def list_rows(impl: tuple[str, ...]) -> None:
    """Show the rows, what they run on, and whether they can run here."""
    names = _implementations(impl)
    with Console(stderr=True).status("asking every row ..."):
        rows = describe_all(names)
    _console().print(terminal.availability_table(rows))


@main.command()
@case_options([*SCENARIOS, HARD_SCENARIO])
@click.option("--jobs", type=click.IntRange(min=1), default=_default_jobs, help="Cases at once.")
@click.option("--require", multiple=True, metavar="NAME", help="A row that must have been checked; repeats.")
@click.option("--json", "json_file", type=_FOLDER, help="Write the verdict and every record to this file.")
@click.option("--save", type=_FOLDER, help="Keep the gradients in this folder as .npy files.")
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
    with _progress(planned) as progress, Runner(settings, _run_id(), progress.phase) as runner:

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
    console = _console()
    console.print(terminal.agreement_table(verdict.records))
    if segments:
        right = sum(not check.reason for check in segments)
        console.print(f"segment operations: {right} of {len(segments)} checks agree", highlight=False)
    for problem in problems:
        console.print(f"[red]problem[/] {escape(problem)}", highlight=False, soft_wrap=True)
    console.print(f"[red]{len(problems)} problems[/]" if problems else "[green]all agree[/]")
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
    capacity. gpu: N = 1e5 and 1e6 on cuda. Exits 1 on an outcome that nobody expected, and names it.
    """
    planned = plan(profile, _implementations(impl), _narrowing(**narrowing), rounds, shard)
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
            planned, done = split(planned, _read(read_records, [results]), measure.environment())
        except MixedRecordsError as error:
            _usage(str(error))
    console = _console()
    if dry_run:
        for each in planned:
            console.print(f"round {each.round}  {case_id(each.case)}", highlight=False, soft_wrap=True)
        console.print(f"{len(planned)} cases")
        return
    records = _run(planned, settings, results, done)
    for table in terminal.timing_tables(done + records):
        console.print(table)
    surprises = [record for record in done + records if not record.is_expected]
    for record in surprises:
        console.print(
            f"[red]{record.outcome}[/] {record.case_id}: {escape(record.reason or '')}", highlight=False, soft_wrap=True
        )
    console.print(f"{len(records)} records in {results}")
    sys.exit(1 if surprises else 0)


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
    records = _read(read_records, results)
    if not records:
        _usage(f"no records in {', '.join(map(str, results))}; run pairgrad bench first, or give --results")
    console = _console()
    runs = _read(segments.read_runs, results)
    if not only_check:
        report.write(records, out, runs)
        console.print(f"reports in {out}")
        return
    stale = report.stale(records, out, runs)
    for line in stale:
        console.print(f"[red]stale[/] {escape(line)}", highlight=False, soft_wrap=True)
    if stale:
        console.print("run pairgrad report and commit what it writes")
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
    comparisons = comparing.compare(_read(read_records, [old]), _read(read_records, [new]))
    _console().print(terminal.comparison_table(comparisons))
    if markdown is not None:
        write_atomically(markdown, comparing.markdown(comparisons).encode())
    sys.exit(1 if fail and any(each.verdict in comparing.REGRESSIONS for each in comparisons) else 0)


@main.command()
@click.option("--name", is_flag=True, help="Print only the name of this machine's results folder.")
def env(name: bool) -> None:
    """Print what is recorded about this machine."""
    if name:
        click.echo(measure.machine_name())
    else:
        _console().print_json(msgspec.json.encode(measure.environment()).decode())


def _console() -> Console:
    """Standard output; 100 columns where it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=100)


class _Shown:
    """A progress display of a plan: what runs, for how long, what is left. Silent where output is piped."""

    def __init__(self, progress: Progress, planned: Sequence[Planned]) -> None:
        self.progress = progress
        self.task = progress.add_task("starting", total=len(planned))

    def phase(self, planned: Planned, phase: str) -> None:
        self.progress.update(self.task, description=f"{case_id(planned.case)}  [dim]{phase}[/]")

    def finished(self, planned: Planned, record: Record) -> None:
        self.progress.advance(self.task)
        if not record.is_expected and self.progress.console.is_terminal:
            self.progress.console.print(f"[red]{record.outcome}[/] {record.case_id}", highlight=False, soft_wrap=True)


@contextmanager
def _progress(planned: Sequence[Planned]) -> Iterator[_Shown]:
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        MofNCompleteColumn(),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        yield _Shown(progress, planned)


def _run(planned: Sequence[Planned], settings: Settings, results: Path, done: Sequence[Record]) -> list[Record]:
    """Run what is left of a plan and store each record as it comes."""
    run_id = _run_id()
    file = RecordFile(results / f"{run_id}.jsonl")
    records: list[Record] = []
    with _progress(planned) as progress, Runner(settings, run_id, progress.phase, done) as runner:
        for each, finished in zip(planned, runner.run(planned), strict=True):
            try:
                file.add(finished.record)
            except OSError as error:
                _fail(f"cannot write {file.path} ({error.strerror}); it holds the {len(records)} records before")
            records.append(finished.record)
            progress.finished(each, finished.record)
    return records


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
    cores = len(measure.available_cores())
    for number in given["threads"]:
        if number > cores:
            _usage(f"--threads {number} is more than the {cores} cores this process may use")
    plural = {"n": "ns", "scenario": "scenarios", "device": "devices", "dtype": "dtypes", "threads": "threads"}
    return Narrowing(**{plural[name]: tuple(values) for name, values in given.items()})


def _read(reader: Callable[[Sequence[Path]], list[_Read]], paths: Sequence[Path]) -> list[_Read]:
    try:
        return reader(paths)
    except (RecordsError, OSError) as error:
        _usage(str(error))


def _usage(message: str) -> NoReturn:
    """End as on a usage error: the message, exit code 2."""
    Console(stderr=True).print(f"[red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    sys.exit(2)


def _fail(message: str) -> NoReturn:
    Console(stderr=True).print(f"[red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    sys.exit(1)


if __name__ == "__main__":
    main()
