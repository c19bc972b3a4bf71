"""The command line: parse, call, print."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import msgspec
import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from harness import compare as comparing
from harness import gate, measure, registry, report
from harness.describe import describe_all
from harness.plan import Narrowing, Planned, plan
from harness.protocol import Device, Dtype
from harness.records import Record, RecordFile, RecordsError, case_id, read_records, write_atomically
from harness.report import terminal
from harness.resume import MixedRecordsError, remaining
from harness.runner import DEFAULT_LIMIT_S, Finished, Runner, Settings

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What does it cost to differentiate an irregular particle algorithm in each framework? "
    "Every gradient is checked before it is timed.",
    epilog="Start with: pairgrad list, then pairgrad check, then pairgrad bench.",
)

ScenarioName = Literal["published", "clustered", "hard"]
TimedScenarioName = Literal["published", "clustered"]
ProfileName = Literal["quick", "study", "full", "gpu"]

LOCAL_RESULTS = Path("results/local")
LOCAL_REPORTS = Path("reports/local")
COMMITTED_RESULTS = Path("results")
COMMITTED_REPORTS = Path("reports")
SAMPLE_BUDGET_S = {"quick": 0.5, "gpu": 1.0}
DEFAULT_BUDGET_S = 3.0


def _particles(text: str) -> int:
    """A whole number that may be written 100000, 100_000 or 1e5."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not (0 <= number < 2**31 and number == int(number)):
        raise typer.BadParameter(f"{text!r} is no whole number of particles below 2^31; write for instance 1000 or 1e5")
    return int(number)


def _bytes(text: str) -> int:
    """An amount of memory that may end in K, M, G or T."""
    letters = str(text).strip().upper().removesuffix("B").removesuffix("I")
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}.get(letters[-1:], 1)
    try:
        number = float(letters.rstrip("KMGT"))
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise typer.BadParameter(f"{text!r} is no amount of memory; write for instance 8G or 500M")
    return int(number * factor)


def _shard(text: str) -> tuple[int, int]:
    """I/K: the I-th of K parts."""
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise typer.BadParameter(f"{text!r} is no shard; write I/K with 1 <= I <= K, for instance 2/4")
    return int(index), int(count)


Impl = Annotated[
    list[str] | None,
    typer.Option(help="A row's name, or the path of a module of yours; repeat for more. Default: every row."),
]
N = Annotated[
    list[int] | None, typer.Option("--n", parser=_particles, metavar="N", help="Particles, e.g. 1e5; repeats.")
]
Scenario = Annotated[list[ScenarioName] | None, typer.Option(help="How positions are drawn; repeats.")]
TimedScenario = Annotated[list[TimedScenarioName] | None, typer.Option("--scenario", help="How positions are drawn.")]
DeviceOption = Annotated[list[Device] | None, typer.Option("--device", help="Where to run; repeats.")]
DtypeOption = Annotated[list[Dtype] | None, typer.Option("--dtype", help="Precision; repeats.")]
Threads = Annotated[
    list[int] | None, typer.Option(min=1, help="Cores a case may use; repeats. Default: every core allowed.")
]
Timeout = Annotated[float, typer.Option(min=1.0, help="Wall seconds one case may take.")]
MemoryLimit = Annotated[
    int,
    typer.Option(parser=_bytes, metavar="BYTES", help="Memory a case may take, e.g. 8G; 0: 90 % of what is free."),
]


@app.command("list")
def list_rows(impl: Impl = None) -> None:
    """Show the rows, what they run on, and whether they can run here."""
    names = _implementations(impl)
    with Console(stderr=True).status("asking every row ..."):
        rows = describe_all(names)
    Console().print(terminal.availability_table(rows))


@app.command()
def check(
    impl: Impl = None,
    n: N = None,
    scenario: Scenario = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    threads: Threads = None,
    timeout: Timeout = DEFAULT_LIMIT_S,
    memory_limit: MemoryLimit = 0,
    json: Annotated[Path | None, typer.Option(help="Write the verdict and every record to this file.")] = None,
    save: Annotated[Path | None, typer.Option(help="Keep the gradients in this folder as .npy files.")] = None,
) -> None:
    """The gate: exit 1 unless every gradient agrees with the oracle, with finite differences and with each other.

    Rows named with --impl must have been checked; the others may be unavailable or unsupported here.
    """
    names = _implementations(impl)
    planned = plan("check", names, _narrowing(n, scenario, device, dtype, threads))
    settings = Settings(limit_s=timeout, memory_limit_bytes=memory_limit, gradients=True)
    with _progress(planned) as progress, Runner(settings, _run_id(), progress.phase) as runner:

        def on_finished(each: Planned, finished: Finished) -> None:
            progress.finished(each, finished.record)
            if save is not None and finished.gradient is not None:
                save.mkdir(parents=True, exist_ok=True)
                np.save(save / (case_id(each.case).replace("/", "_") + ".npy"), finished.gradient)

        verdict = gate.check(runner, planned, (impl and names) or (), on_finished)
    if json is not None:
        content = {"agree": verdict.agree, "problems": verdict.problems, "records": verdict.records}
        write_atomically(json, msgspec.json.format(msgspec.json.encode(content)))
    console = Console()
    console.print(terminal.agreement_table(verdict.records))
    for problem in verdict.problems:
        console.print(f"[red]disagreement[/] {problem}" if verdict.records else problem, highlight=False)
    console.print("[green]all agree[/]" if verdict.agree else f"[red]{len(verdict.problems)} problems[/]")
    raise typer.Exit(0 if verdict.agree else 1)


@app.command()
def bench(
    profile: Annotated[ProfileName, typer.Option(help="What to run.")] = "quick",
    impl: Impl = None,
    n: N = None,
    scenario: TimedScenario = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    threads: Threads = None,
    rounds: Annotated[int, typer.Option(min=1, help="Repeat the whole plan, series in another order.")] = 1,
    budget: Annotated[
        float | None, typer.Option(min=0.0, help="Seconds of samples for each of forward and gradient.")
    ] = None,
    timeout: Timeout = DEFAULT_LIMIT_S,
    memory_limit: MemoryLimit = 0,
    results: Annotated[Path, typer.Option(help="Folder the records go to.")] = LOCAL_RESULTS,
    resume: Annotated[bool, typer.Option("--resume", help="Run only what the folder has no record of.")] = False,
    shard: Annotated[str, typer.Option(metavar="I/K", help="Run the I-th of K parts, e.g. in a job array.")] = "1/1",
    skip: Annotated[bool, typer.Option(help="Skip larger N after an out-of-memory or a timeout.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
) -> None:
    """Check and time every case of a profile, each in a fresh process; write a record of each and print the table.

    quick: N = 1e3 to 1e5. study: to 1e6. full: study, then one axis at a time: float32, one thread, clustered input,
    capacity. gpu: N = 1e5 and 1e6 on cuda. Exits 1, naming it, on an outcome that nobody expected.
    """
    narrowing = _narrowing(n, scenario, device, dtype, threads)
    planned = plan(profile, _implementations(impl), narrowing, rounds, _shard(shard))
    budget_s = SAMPLE_BUDGET_S.get(profile, DEFAULT_BUDGET_S) if budget is None else budget
    settings = Settings(budget_s=budget_s, limit_s=timeout, memory_limit_bytes=memory_limit, skip_larger=skip)
    console = Console()
    earlier = _read([results]) if resume and results.is_dir() else []
    if resume:
        try:
            planned = remaining(planned, earlier, measure.environment())
        except MixedRecordsError as error:
            _usage(str(error))
    if dry_run:
        for each in planned:
            console.print(f"round {each.round}  {case_id(each.case)}", highlight=False)
        console.print(f"{len(planned)} cases")
        return
    records = _run(planned, settings, results)
    shown = earlier + records
    for table in terminal.timing_tables(shown):
        console.print(table)
    surprises = [record for record in records if not record.is_expected]
    for record in surprises:
        console.print(f"[red]{record.outcome}[/] {record.case_id}: {record.reason}", highlight=False)
    console.print(f"{len(records)} records in {results}")
    raise typer.Exit(1 if surprises else 0)


@app.command("report")
def write_report(
    results: Annotated[list[Path], typer.Option(help="Folder or file of records; repeats, machines mix.")] = [  # noqa: B006
        COMMITTED_RESULTS
    ],
    out: Annotated[Path, typer.Option(help="Folder the reports go to.")] = COMMITTED_REPORTS,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if the reports are stale.")] = False,
) -> None:
    """Make tables, figures, findings and the page from records."""
    records = _read(results)
    if not records:
        _usage(f"no records in {', '.join(map(str, results))}; run pairgrad bench first, or give --results")
    console = Console()
    if check:
        stale = report.stale(records, out)
        for line in stale:
            console.print(f"[red]stale[/] {line}", highlight=False)
        if stale:
            console.print("run pairgrad report and commit what it writes")
        raise typer.Exit(1 if stale else 0)
    report.write(records, out)
    console.print(f"reports in {out}")


@app.command()
def compare(
    old: Annotated[Path, typer.Argument(help="Folder or file of the earlier records.")],
    new: Annotated[Path, typer.Argument(help="Folder or file of the later records.")],
    fail: Annotated[bool, typer.Option("--fail", help="Exit 1 if any case is slower.")] = False,
    markdown: Annotated[Path | None, typer.Option(help="Write the comparison to this file too.")] = None,
) -> None:
    """Same, faster, slower or ambiguous, case by case; never across machines, devices, dtypes or thread counts."""
    comparisons = comparing.compare(_read([old]), _read([new]))
    Console().print(terminal.comparison_table(comparisons))
    if markdown is not None:
        write_atomically(markdown, comparing.markdown(comparisons).encode())
    slower = any(comparison.verdict == "slower" for comparison in comparisons)
    raise typer.Exit(1 if fail and slower else 0)


@app.command()
def env(
    name: Annotated[bool, typer.Option("--name", help="Print only the name of this machine's results folder.")] = False,
) -> None:
    """Print what is recorded about this machine."""
    if name:
        typer.echo(measure.machine_name())
        return
    Console().print_json(msgspec.json.encode(measure.environment()).decode())


def main() -> None:
    """Entry point of the `pairgrad` command."""
    app()


class _Shown:
    """A progress display of a plan: what runs, for how long, what is left. Silent where output is piped."""

    def __init__(self, progress: Progress, planned: Sequence[Planned]) -> None:
        self.progress = progress
        self.task = progress.add_task("starting", total=len(planned))

    def phase(self, planned: Planned, phase: str) -> None:
        self.progress.update(self.task, description=f"{case_id(planned.case)}  [dim]{phase}[/]")

    def finished(self, planned: Planned, record: Record) -> None:
        self.progress.advance(self.task)
        if not record.is_expected:
            self.progress.console.print(f"[red]{record.outcome}[/] {record.case_id}", highlight=False)


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


def _run(planned: Sequence[Planned], settings: Settings, results: Path) -> list[Record]:
    """Run a plan and store each record as it comes."""
    run_id = _run_id()
    file = RecordFile(results / f"{run_id}.jsonl")
    records: list[Record] = []
    with _progress(planned) as progress, Runner(settings, run_id, progress.phase) as runner:
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
        return [registry.resolve(name) for name in given or registry.names()]
    except registry.UnknownImplementationError as error:
        _usage(str(error))


def _narrowing(
    n: Sequence[int] | None,
    scenario: Sequence[str] | None,
    device: Sequence[str] | None,
    dtype: Sequence[str] | None,
    threads: Sequence[int] | None,
) -> Narrowing:
    cores = len(measure.available_cores())
    for number in threads or ():
        if number > cores:
            _usage(f"--threads {number} is more than the {cores} cores this process may use")
    return msgspec.convert(
        {
            "ns": n or (),
            "scenarios": scenario or (),
            "devices": device or (),
            "dtypes": dtype or (),
            "threads": threads or (),
        },
        Narrowing,
    )


def _read(paths: Sequence[Path]) -> list[Record]:
    try:
        return read_records(paths)
    except (RecordsError, OSError) as error:
        _usage(str(error))


def _usage(message: str) -> NoReturn:
    """End as on a usage error: the message, exit code 2."""
    Console(stderr=True).print(f"[red]error:[/] {message}", highlight=False)
    raise typer.Exit(2)


def _fail(message: str) -> NoReturn:
    Console(stderr=True).print(f"[red]error:[/] {message}", highlight=False)
    raise typer.Exit(1)
