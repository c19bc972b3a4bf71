"""The segment operations' timings: what `make bench-segments` wrote, as ratios, tables and a page.

A ratio is another library's median time over that of this project's operations in the same framework, on the same
input: above 1, this project's are faster. Ratios of several inputs are joined by their geometric mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import geometric_mean
from typing import Annotated, Any

import msgspec
import pandas as pd

from harness.contract import identity
from harness.contract.store import RecordsError, files
from harness.report import documents, tables, text
from harness.report.data import Computer
from harness.report.documents import computer_name
from harness.report.text import Markdown

OURS = "segment_ops"
ORDERS = ("sorted", "shuffled")
INPUT = ["op", "stage", "n", "segments", "order", "dtype", "framework"]
_FRAMEWORKS = {"jax": "JAX", "torch": "Torch"}
_PACKAGES = ("jax", "torch", "warp-lang", "nvalchemi-toolkit-ops")


class _Input(msgspec.Struct):
    """What one benchmark timed, from its `extra_info`."""

    op: str
    stage: str
    n: int
    segments: int
    order: str
    dtype: str
    framework: str
    library: str
    device: str = "cpu"


class _Statistics(msgspec.Struct):
    median: Annotated[float, msgspec.Meta(gt=0)]


class _Benchmark(msgspec.Struct):
    extra_info: _Input
    stats: _Statistics


class _File(msgspec.Struct):
    """What is read of a pytest-benchmark file."""

    machine_info: dict[str, Any]
    commit_info: dict[str, Any]
    datetime: str
    benchmarks: list[_Benchmark]


@dataclass(frozen=True)
class Run:
    """The benchmarks of one run on one device.

    Attributes:
        computer: what computed.
        datetime: UTC, ISO 8601.
        commit: of the sources, as in tables.
        packages: versions by name.
        medians: one row per benchmark, in the order they were timed: `INPUT`, library, median_s.
    """

    computer: Computer
    datetime: str
    commit: str
    packages: dict[str, str]
    medians: pd.DataFrame

    @property
    def name(self) -> str:
        """Its figure's file name without a suffix."""
        return f"segments-{computer_name(self.computer)}"

    @cached_property
    def ratios(self) -> pd.DataFrame:
        """One row per benchmark of another library: how many times as long as ours it took on the same input.

        In order of framework, plain composites first; columns of `medians` and `rival`, `operation`, `ratio`.
        """
        ours = self.medians[self.medians["library"] == OURS]
        found = self.medians[self.medians["library"] != OURS].merge(ours[[*INPUT, "median_s"]], on=INPUT)
        found = found.assign(
            rival=found["framework"].map(framework_title) + " " + found["library"],
            operation=found["op"].map(short),
            ratio=found["median_s_x"] / found["median_s_y"],
        )
        return found.sort_values(
            ["framework", "library"], key=lambda c: c.mask(c == "plain", ""), kind="stable", ignore_index=True
        )

    def values(self, column: str) -> list[Any]:
        """What a column of the benchmarks takes, in the order it was timed."""
        return list(self.medians[column].unique())


def framework_title(name: str) -> str:
    """A framework for readers."""
    return _FRAMEWORKS.get(name, name)


def short(op: str) -> str:
    """An operation's name without what all have in common."""
    return op.removeprefix("segmented_")


def read_runs(folders: Iterable[Path]) -> list[Run]:
    """The newest run on every machine and device.

    Folders are searched for *.json. A file is one of ours if it is pytest-benchmark's and the `extra_info` of some
    benchmark names a library; other JSON is left alone.

    Raises:
        RecordsError: a file is no JSON, or one of ours lacks something.
    """
    paths = files((folder for folder in folders if folder.is_dir()), ".json")
    runs = sorted((run for path in paths for run in _read(path)), key=lambda run: run.datetime)
    newest = {run.computer: run for run in runs}
    return [newest[computer] for computer in sorted(newest)]


def _read(path: Path) -> Iterator[Run]:
    """The runs of one file, one for each device."""
    try:
        content = msgspec.json.decode(path.read_bytes())
        ours = _ours(content)
        if not ours:
            return
        file = msgspec.convert({**content, "benchmarks": ours}, _File)
    except msgspec.MsgspecError as error:
        raise RecordsError(f"{path}: not a file of pytest-benchmark ({error}); mend or remove it") from error
    inputs = pd.DataFrame([msgspec.structs.asdict(benchmark.extra_info) for benchmark in file.benchmarks])
    commit = file.commit_info
    medians = inputs.assign(median_s=[benchmark.stats.median for benchmark in file.benchmarks])
    for device, timed in medians.groupby("device"):
        hardware = "CPU" if device == "cpu" else identity.accelerator(file.machine_info) or str(device)
        yield Run(
            computer=Computer(identity.machine(file.machine_info).name, hardware, str(device)),
            datetime=file.datetime,
            commit=tables.commit_name(str(commit.get("id") or text.DASH), bool(commit.get("dirty"))),
            packages=file.machine_info.get("packages") or {},
            medians=timed.drop_duplicates([*INPUT, "library"], keep="last"),
        )


def _ours(content: Any) -> list[Any]:
    """The benchmarks that name a library; none of what pytest-benchmark did not write."""
    benchmarks = content.get("benchmarks") if isinstance(content, dict) else None
    if not isinstance(benchmarks, list):
        return []
    return [b for b in benchmarks if isinstance(b, dict) and "library" in (b.get("extra_info") or {})]


def page(runs: Iterable[Run]) -> str:
    """segments.md: every run's summary, figure and table."""
    return documents.render("segments.md", runs=runs, provenance=provenance, summary=summary, details=details)


def guide_block(runs: Iterable[Run]) -> str:
    """What the guide to the operations shows: every run's summary, and where another library is faster."""
    return documents.render("guide.md", runs=runs, provenance=provenance, summary=summary, faster=faster).strip()


def provenance(run: Run) -> str:
    """Inputs, date, commit and versions."""
    sizes, segments = (", ".join(f"{count:,}" for count in sorted(run.values(name))) for name in ("n", "segments"))
    versions = ", ".join(f"{name} {run.packages[name]}" for name in _PACKAGES if name in run.packages)
    return (
        f"{run.computer.device}; N = {sizes}; {segments} segments; {' and '.join(sorted(run.values('dtype')))}; "
        f"measured {run.datetime[:10]}; commit {run.commit}{'; ' * bool(versions)}{versions}"
    )


def summary(run: Run) -> Markdown:
    """Geometric means over all operations against each rival, ids in each order and in any, and the lowest of one."""
    both = " and ".join(ORDERS)
    ratios = pd.concat([run.ratios, run.ratios.assign(order=both)])
    by_stage = means(ratios, ["rival", "order", "stage"]).unstack()[run.values("stage")]
    by_operation = means(ratios, ["rival", "order", "operation", "stage"])
    lowest = by_operation.groupby(level=["rival", "order"], sort=False).idxmin()
    lines = pd.MultiIndex.from_product([run.ratios["rival"].unique(), [*ORDERS, both]])
    rows = []
    for key in lines[lines.isin(lowest.index)]:
        _, _, operation, stage = lowest[key]
        words = f"{text.markdown(operation)}, {text.markdown(stage)}: {_cell(by_operation[lowest[key]])}"
        rows.append([*key, *map(_cell, by_stage.loc[key]), Markdown(words)])
    return text.table(["against", "ids", *by_stage, "lowest"], rows)


def details(run: Run) -> Markdown:
    """The ratio of every operation and stage, ids sorted and shuffled apart."""
    columns = pd.MultiIndex.from_product([run.ratios["rival"].unique(), ORDERS])
    lines = pd.MultiIndex.from_product([run.values("stage"), map(short, run.values("op"))])
    found = means(run.ratios, ["stage", "operation", "rival", "order"]).unstack(["rival", "order"])
    rows = [[*line, *map(_cell, cells)] for line, cells in found.reindex(index=lines, columns=columns).iterrows()]
    return text.table(["stage", "operation", *map(", ".join, columns)], rows)


def faster(run: Run) -> dict[str, str]:
    """Where another library is faster: its operations, by rival and order of ids."""
    found = means(run.ratios, ["rival", "order", "operation", "stage"]).reset_index()
    words = found["operation"] + ", " + found["stage"] + found["ratio"].map(" ({:.2f})".format)
    ids = found["rival"] + ", " + found["order"] + " ids"
    slower = (found["ratio"] < 1) & found["order"].isin(ORDERS)
    return words[slower].groupby(ids[slower], sort=False).agg("; ".join).to_dict()


def means(ratios: pd.DataFrame, by: list[str]) -> pd.Series:
    """Geometric mean of the ratios that have values in common, by these, in the order they come."""
    return ratios.groupby(by, sort=False)["ratio"].agg(geometric_mean)


def _cell(value: float) -> Markdown:
    """A ratio, bold where the other library is faster."""
    shown = text.number(value)
    return Markdown(f"**{shown}**" if value < 1 else shown)
