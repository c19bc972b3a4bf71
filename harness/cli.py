"""The command line: parse, call, print."""

from __future__ import annotations

import datetime
import io
import math
import shlex
import sys
import tempfile
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
import numpy as np
from rich.console import Console

from harness import terminal
from harness.console import say, standard_output
from harness.contract import output, registry
from harness.contract.encoding import encode, is_unicode
from harness.contract.names import file_name
from harness.contract.problem import FloatArray
from harness.contract.records import Record, case_id
from harness.contract.store import LOCAL_RESULTS, RecordFile, read_records
from harness.failures import Commands, Failure, Mistake, tried, when_interrupted, why, written
from harness.options import (
    TIMED_SCENARIOS,
    Seconds,
    Shard,
    Whole,
    case_options,
    default_jobs,
    impl_option,
    path_type,
    records_option,
)
from harness.problems.sph2d import SCENARIOS
from harness.report import compare as comparing
from harness.report import data
from harness.report import files as reports
from harness.report.segments import read_runs
from harness.run import machine, verdict
from harness.run.describe import describe_all
from harness.run.plan import PROFILES, Narrowing, Planned, check_plan, plan
from harness.run.resume import split
from harness.run.runner import CheckRunner, Finished, TimeRunner
from harness.run.segments import check_segments
from harness.run.settings import CheckSettings, TimeSettings

REPORTS = Path("reports")
LOCAL_REPORTS = REPORTS / "local"
SAMPLE_BUDGET_S = {"quick": 0.5, "gpu": 1.0}
DEFAULT_BUDGET_S = 3.0
_PROBLEM = "[red]problem[/] "
_Read = TypeVar("_Read")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
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
    _require_temporary_folder()
    names = registry.resolve_all(impl or registry.names())
    with Console(stderr=True).status("asking every row ..."):
        rows = describe_all(names)
    standard_output().print(terminal.availability_table(rows))
    sys.exit(1 if impl and any(row.problem for row in rows) else 0)


@main.command()
@case_options([*SCENARIOS])
@click.option("--jobs", type=Whole("jobs", 1, "2"), default=default_jobs, help="Cases at once.")
@click.option("--require", multiple=True, metavar="NAME", help="A row that must have been checked; repeats.")
@click.option("--json", "json_file", type=path_type, help="Write the verdict and every record to this file.")
@click.option("--save", type=path_type, help="Keep the gradients in this folder as .npy files.")
def check(
    impl: tuple[str, ...],
    timeout: float,
    memory_limit: int | None,
    quiet: bool,
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
    _require_temporary_folder()
    names = registry.resolve_all(impl or registry.names())
    required = [*(names if impl else ()), *registry.resolve_all(require)]
    narrowed = _narrowing(**narrowing)
    planned = check_plan(names, narrowed)
    settings = CheckSettings(limit_s=timeout, memory_limit_bytes=memory_limit, jobs=jobs)
    if json_file is not None:
        with tried(json_file, "give --json a file that can be written"):
            output.require_writable(json_file)
    if save is not None:
        with tried(save, "give --save a folder"):
            output.require_writable_folder(save)
    unwritten: list[str] = []
    when_interrupted(lambda: "nothing was decided")
    reached = _judged(planned, settings, required, save, quiet, unwritten)
    checks, wrong = ([], []) if impl else check_segments(narrowed.variables)
    problems = reached.problems + wrong
    if json_file is not None:
        content = {
            "agree": not problems,
            "problems": problems,
            "compared": reached.compared,
            "records": reached.records,
            "segments": checks,
        }
        with written(json_file, unwritten):
            output.write(json_file, msgspec.json.format(encode(content)))
    console = standard_output()
    console.print(terminal.agreement_table(reached.records))
    say(console, *reached.compared)
    if checks:
        right = sum(not check.reason for check in checks)
        say(console, f"segment operations: {right} of {len(checks)} checks agree")
    say(console, *problems, mark=_PROBLEM)
    console.print(f"[red]{terminal.counted(len(problems), 'problem')}[/]" if problems else "[green]all agree[/]")
    if unwritten:
        raise Failure("\n".join(dict.fromkeys(unwritten)))
    sys.exit(1 if problems else 0)


@main.command()
@click.option(
    "--profile", type=click.Choice([*PROFILES]), default="quick", show_default=True, help="Which cases; see above."
)
@case_options(TIMED_SCENARIOS)
@click.option("--rounds", type=Whole("rounds", 1, "3"), default=1, help="Repeat the plan, series in another order.")
@click.option("--budget", type=Seconds(0.0), help="For the samples of forward and of gradient, each.")
@click.option("--results", type=path_type, default=LOCAL_RESULTS, show_default=True, help="Folder the records go to.")
@click.option("--resume", is_flag=True, help="Run only what the folder has no record of.")
@click.option("--shard", type=Shard(), default="1/1", help="Run the I-th of K parts, for a job array.")
@click.option("--skip/--no-skip", default=True, help="Skip larger N after an out-of-memory or a timeout (default).")
@click.option("--within", type=Seconds(1.0), default=math.inf, help="Limit of the whole run; what is left is skipped.")
@click.option("--dry-run", is_flag=True, help="Print the plan and stop.")
def bench(
    profile: str,
    impl: tuple[str, ...],
    timeout: float,
    memory_limit: int | None,
    quiet: bool,
    rounds: int,
    budget: float | None,
    results: Path,
    resume: bool,
    shard: tuple[int, int],
    skip: bool,
    within: float,
    dry_run: bool,
    **narrowing: tuple[Any, ...],
) -> None:
    """Check and time every case of a profile, each in a fresh process; record each and print the table.

    quick: N = 1e3 to 1e5. study: to 1e6. full: study, then one axis at a time: float32, one thread, clustered input,
    capacity. gpu: N = 1e5 and 1e6 on cuda. Exits 1 on an outcome that nobody expected, and names it, and where nothing
    was timed of a row named with --impl. Ctrl-C keeps what there is.
    """
    _require_temporary_folder()
    names = registry.resolve_all(impl or registry.names())
    planned = plan(profile, names, _narrowing(**narrowing), rounds, shard)
    done: list[Record] = []
    settings = TimeSettings(
        budget_s=SAMPLE_BUDGET_S.get(profile, DEFAULT_BUDGET_S) if budget is None else budget,
        limit_s=timeout,
        memory_limit_bytes=memory_limit,
        within_s=within,
        skip_larger=skip,
    )
    if resume and results.is_dir():
        planned, done = split(planned, _read(read_records, [results]), machine.environment())
    console = standard_output()
    if dry_run:
        say(console, *(f"round {each.round}  {case_id(each.case)}" for each in planned))
        say(console, terminal.counted(len(planned), "case"))
        return
    with tried(results, "give --results a folder"):
        output.require_writable_folder(results)
    records = list(done)

    def interrupted() -> str:
        say(console, *_tabulated(console, records), mark=_PROBLEM)
        share = f"{len(records)} of {terminal.counted(len(done) + len(planned), 'record')}"
        return f"{share} kept in {results}; go on with the same command and --resume"

    when_interrupted(interrupted)
    cut_short = _measured(planned, settings, results, records, quiet)
    problems = _tabulated(console, records)
    if impl and cut_short is None:
        problems += verdict.nothing_timed(records, names)
    say(console, *problems, mark=_PROBLEM)
    if cut_short is not None:
        raise cut_short
    kept = f"{terminal.counted(len(records), 'record')} in {results}"
    say(console, kept if planned else f"nothing left to run; {kept}")
    say(console, *terminal.advice(records, results, LOCAL_REPORTS))
    sys.exit(1 if problems else 0)


@main.command("report")
@records_option
@click.option("--out", type=path_type, default=REPORTS, show_default=True, help="Folder the reports go to.")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit 1 if the reports are stale.")
def write_report(results: tuple[Path, ...], out: Path, only_check: bool) -> None:
    """Make tables, figures, findings and the page from records."""
    records, runs = _records(results), _read(read_runs, results)
    console = standard_output()
    if not only_check:
        with tried(out, "give --out a folder"):
            output.require_writable_folder(out)
        lacking = reports.write(records, out, runs)
        page = f"the page was not written: {lacking}" if lacking else f"open {shlex.quote(str(out / 'index.html'))}"
        say(console, f"reports in {out}", page)
        return
    stale = reports.stale(records, out, runs)
    say(console, *stale, mark="[red]stale[/] ")
    if stale:
        say(console, "run pairgrad report and commit what it writes")
    sys.exit(1 if stale else 0)


@main.command()
@records_option
@click.option(
    "--out", type=path_type, required=True, help=f"File to write; its suffix says how: {', '.join(data.EXPORTS)}."
)
def export(results: tuple[Path, ...], out: Path) -> None:
    """Write the cases of records as one table: a row per machine and case, medians in seconds, sizes in bytes."""
    cases = data.cases(_records(results))
    try:
        with tried(out, "give --out a file that can be written"):
            data.export(cases, out)
    except ValueError as error:
        raise Mistake(str(error)) from error
    say(standard_output(), f"{terminal.counted(len(cases), 'case')} in {out}")


@main.command()
@click.argument("old", type=path_type)
@click.argument("new", type=path_type)
@click.option("--fail", is_flag=True, help="Exit 1 if any case is slower, or failed and did not before.")
@click.option("--markdown", type=path_type, help="Write the comparison to this file too.")
def compare(old: Path, new: Path, fail: bool, markdown: Path | None) -> None:
    """Same, faster, slower or ambiguous, case by case, between two folders or files of records.

    Never across machines, devices, dtypes or thread counts: such cases are shown and not compared.
    """
    before, after, unwritten = _records([old]), _records([new]), list[str]()
    if markdown is not None:
        with tried(markdown, "give --markdown a file that can be written"):
            output.require_writable(markdown)
    comparisons = comparing.compare(before, after)
    if markdown is not None:
        with written(markdown, unwritten):
            output.write(markdown, comparing.markdown(comparisons).encode(errors="replace"))
    standard_output().print(terminal.comparison_table(comparisons))
    if unwritten:
        raise Failure("\n".join(unwritten))
    sys.exit(1 if fail and comparisons["verdict"].isin(comparing.REGRESSIONS).any() else 0)


@main.command()
@click.option("--name", is_flag=True, help="Print only the name of this machine's results folder.")
def env(name: bool) -> None:
    """Print what is recorded about this machine."""
    if name:
        click.echo(machine.machine_name())
    else:
        standard_output().print_json(encode(machine.environment()).decode())


def _judged(
    planned: Sequence[Planned],
    settings: CheckSettings,
    required: Sequence[str],
    save: Path | None,
    quiet: bool,
    unwritten: list[str],
) -> verdict.Verdict:
    """The gate's verdict on a plan; gradients are saved as they come, and what could not be is added to `unwritten`."""
    with terminal.progress(planned, quiet) as progress, CheckRunner(settings, _run_id(), progress.phase) as runner:

        def on_finished(each: Planned, finished: Finished) -> None:
            progress.finished(each, finished.record)
            if save is not None and finished.gradient is not None:
                path = save / f"{file_name(case_id(each.case))}.npy"
                with written(path, unwritten):
                    output.write(path, _npy(finished.gradient))

        return verdict.reach(runner, planned, required, on_finished)


def _measured(
    planned: Sequence[Planned], settings: TimeSettings, results: Path, records: list[Record], quiet: bool
) -> Failure | None:
    """Run what is left of a plan, store each record at once and add it to those there are.

    Returns:
        What ended the run before its time.
    """
    run_id, done = _run_id(), len(records)
    file = RecordFile(results / f"{run_id}.jsonl")
    with (
        terminal.progress(planned, quiet) as progress,
        TimeRunner(settings, run_id, progress.phase, list(records)) as runner,
    ):
        for each, finished in zip(planned, runner.run(planned), strict=True):
            try:
                file.add(finished.record)
            except OSError as error:
                held = terminal.counted(len(records) - done, "record")
                records.append(finished.record)
                return Failure(f"cannot write {file.path} ({error.strerror or error}); it holds the {held} before")
            records.append(finished.record)
            progress.finished(each, finished.record)
    return None


def _tabulated(console: Console, records: Sequence[Record]) -> list[str]:
    """Print the tables of a run, finished or not.

    Returns:
        What nobody expected, one line each.
    """
    console.print(terminal.timing_tables(records))
    return verdict.problems_of([record for record in records if not record.is_expected], records)


def _require_temporary_folder() -> None:
    """End as on a usage error where no temporary folder can be used by all that is started."""
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError as error:
        raise Mistake(f"{error.strerror}; set TMPDIR to a folder on a disk that has space") from error
    if not is_unicode(folder):
        raise Mistake(f"the temporary folder {folder!r} is no UTF-8, as compilers need; set TMPDIR to another")


def _run_id() -> str:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{now}-{uuid.uuid4().hex[:6]}"


def _narrowing(**given: tuple[Any, ...]) -> Narrowing:
    """The values the command line asks for in place of a profile's own."""
    cores = len(machine.available_cores())
    for number in given["threads"]:
        if number > cores:
            raise Mistake(f"--threads {number} is more than the {cores} cores this process may use")
    plural = {"n": "ns", "scenario": "scenarios", "device": "devices", "dtype": "dtypes", "threads": "threads"}
    axes: dict[str, Any] = {many: tuple(given[one]) for one, many in plural.items()}
    return Narrowing(**axes, variables=dict(given["variables"]))


def _records(paths: Sequence[Path]) -> list[Record]:
    records = _read(read_records, paths)
    if not records:
        raise Mistake(f"no records in {', '.join(map(str, paths))}; run pairgrad bench first, or name another folder")
    return records


def _read(reader: Callable[[Sequence[Path]], list[_Read]], paths: Sequence[Path]) -> list[_Read]:
    try:
        return reader(paths)
    except OSError as error:
        raise Mistake(why(error)) from error


def _npy(array: FloatArray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


if __name__ == "__main__":
    main()
