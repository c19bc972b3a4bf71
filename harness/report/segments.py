"""The segment operations' timings: what `make bench-segments` wrote, as ratios, tables and a page.

A ratio is another library's median time over that of this project's operations in the same framework, on the same
input: above 1, this project's are faster. Ratios of several inputs are joined by their geometric mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from typing import Annotated, Any, NamedTuple

import msgspec

from harness.contract.store import RecordsError, files
from harness.report import tables, text
from harness.report.data import Unit, accelerator, machine_of
from harness.report.documents import heading, slug

OURS = "segment_ops"
ORDERS = ("sorted", "shuffled")
_FRAMEWORKS = {"jax": "JAX", "torch": "Torch"}
_PACKAGES = ("jax", "torch", "warp-lang", "nvalchemi-toolkit-ops")

_INTRODUCTION = (
    "The operations of `implementations/segment_ops` beside *plain* composites of each framework's own operations and, "
    "where it was installed, the released *peer*, nvalchemi-toolkit-ops, on rows of three components. Every variant "
    "agreed with the closed form before it was timed; the variants of one input took turns in one process. A number is "
    "the other library's median time over that of `segment_ops` in the same framework, a geometric mean over inputs: "
    "above 1, `segment_ops` is faster; **bold** is where the other library is."
)
_NOT_MEASURED = "Not measured: `make bench-segments` makes the record."


class Input(msgspec.Struct, frozen=True):
    """What one benchmark timed, from its `extra_info`."""

    op: str
    stage: str
    n: int
    segments: int
    order: str
    dtype: str
    framework: str
    contender: str = msgspec.field(name="library")
    device: str = "cpu"


class _Statistics(msgspec.Struct, frozen=True):
    median: Annotated[float, msgspec.Meta(gt=0)]


class _Benchmark(msgspec.Struct, frozen=True):
    extra_info: Input
    stats: _Statistics


class _Commit(msgspec.Struct, frozen=True):
    id: str | None = None
    dirty: bool | None = None


class _File(msgspec.Struct, frozen=True):
    """What is read of a pytest-benchmark file."""

    machine_info: dict[str, Any]
    commit_info: _Commit
    datetime: str
    benchmarks: list[_Benchmark]


class Rival(NamedTuple):
    """Another library in one framework."""

    framework: str
    contender: str

    @property
    def title(self) -> str:
        """As in tables."""
        return f"{framework_title(self.framework)} {self.contender}"


def framework_title(name: str) -> str:
    """A framework for readers."""
    return _FRAMEWORKS.get(name, name)


class Ratio(NamedTuple):
    """How many times as long as this project's operation a rival's took on one input."""

    rival: Rival
    op: str
    stage: str
    order: str
    value: float


@dataclass(frozen=True)
class Run:
    """The benchmarks of one run on one device.

    Attributes:
        where: what computed.
        datetime: UTC, ISO 8601.
        commit: of the sources, as in tables.
        packages: versions by name.
        seconds: median time by input.
    """

    where: Unit
    datetime: str
    commit: str
    packages: dict[str, str]
    seconds: dict[Input, float]

    @property
    def name(self) -> str:
        """Its figure's file name without a suffix."""
        return f"segments-{slug(self.where)}"

    @cached_property
    def ratios(self) -> list[Ratio]:
        """Every benchmark of another library beside ours on the same input."""
        found = []
        for timed, seconds in self.seconds.items():
            ours = self.seconds.get(msgspec.structs.replace(timed, contender=OURS))
            if ours and timed.contender != OURS:
                rival = Rival(timed.framework, timed.contender)
                found.append(Ratio(rival, timed.op, timed.stage, timed.order, seconds / ours))
        return found

    def values(self, field: str) -> list[Any]:
        """What an input's field takes, in the order it was timed."""
        return list(dict.fromkeys(getattr(timed, field) for timed in self.seconds))

    @property
    def rivals(self) -> list[Rival]:
        """The other libraries: by framework, plain composites first."""
        return sorted({ratio.rival for ratio in self.ratios}, key=lambda r: (r.framework, r.contender != "plain", r))

    @property
    def libraries(self) -> list[str]:
        """The other libraries whatever the framework."""
        return list(dict.fromkeys(rival.contender for rival in self.rivals))


def read_runs(folders: Iterable[Path]) -> list[Run]:
    """The newest run on every machine and device.

    Folders are searched for *.json. A file is one of ours if it is pytest-benchmark's and the `extra_info` of some
    benchmark names a library; other JSON is left alone.

    Raises:
        RecordsError: a file is no JSON, or one of ours lacks something.
    """
    newest: dict[Unit, Run] = {}
    for path in files((folder for folder in folders if folder.is_dir()), ".json"):
        for run in _read(path):
            if run.where not in newest or newest[run.where].datetime < run.datetime:
                newest[run.where] = run
    return [newest[where] for where in sorted(newest)]


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
    for device in dict.fromkeys(benchmark.extra_info.device for benchmark in file.benchmarks):
        unit = "CPU" if device == "cpu" else accelerator(file.machine_info) or device
        yield Run(
            where=Unit(machine_of(file.machine_info), unit, device),
            datetime=file.datetime,
            commit=tables.commit_name(file.commit_info.id or text.DASH, bool(file.commit_info.dirty)),
            packages=file.machine_info.get("packages") or {},
            seconds={b.extra_info: b.stats.median for b in file.benchmarks if b.extra_info.device == device},
        )


def _ours(content: Any) -> list[Any]:
    """The benchmarks that name a library; none of what pytest-benchmark did not write."""
    benchmarks = content.get("benchmarks") if isinstance(content, dict) else None
    if not isinstance(benchmarks, list):
        return []
    return [b for b in benchmarks if isinstance(b, dict) and "library" in (b.get("extra_info") or {})]


# -- markdown ----------------------------------------------------------------------------------------------------------


def page(runs: Sequence[Run]) -> str:
    """segments.md: every run's summary, figure and table."""
    parts = ["# Segment operations", _INTRODUCTION]
    for run in runs:
        parts += [
            f"## {heading(run.where)}",
            f"*{provenance(run)}.*",
            summary(run),
            f"![The ratios, {heading(run.where)}](figures/{run.name}.svg)",
            "### Every operation",
            details(run),
        ]
    return "\n\n".join(parts if runs else [*parts, _NOT_MEASURED]) + "\n"


def guide_block(runs: Sequence[Run]) -> str:
    """What the guide to the operations shows: every run's summary, and where another library is faster."""
    parts = [f"{heading(run.where)}; {provenance(run)}.\n\n{summary(run)}\n\n{_faster(run)}" for run in runs]
    return "\n\n".join(parts) or _NOT_MEASURED


def provenance(run: Run) -> str:
    """Inputs, date, commit and versions."""
    sizes, segments = (", ".join(f"{count:,}" for count in sorted(run.values(name))) for name in ("n", "segments"))
    versions = ", ".join(f"{name} {run.packages[name]}" for name in _PACKAGES if name in run.packages)
    return (
        f"{run.where.device}; N = {sizes}; {segments} segments; {' and '.join(sorted(run.values('dtype')))}; "
        f"measured {run.datetime[:10]}; commit {run.commit}{'; ' * bool(versions)}{versions}"
    )


def summary(run: Run) -> str:
    """Geometric means over all operations against each rival, ids in each order and in any, and the lowest of one."""
    orders = [*((order,) for order in ORDERS), ORDERS]
    rows = [_summary_row(run, rival, ids) for rival in run.rivals for ids in orders]
    return text.table(["against", "ids", *run.values("stage"), "lowest"], rows)


def _summary_row(run: Run, rival: Rival, orders: Sequence[str]) -> list[str]:
    ratios = [ratio for ratio in run.ratios if ratio.rival == rival and ratio.order in orders]
    by_stage = means(ratios, lambda ratio: ratio.stage)
    by_operation = means(ratios, lambda ratio: f"{short(ratio.op)}, {ratio.stage}")
    lowest = min(by_operation, key=by_operation.__getitem__, default="")
    return [
        rival.title,
        " and ".join(orders),
        *(_cell(by_stage.get(stage)) for stage in run.values("stage")),
        f"{lowest}: {_cell(by_operation.get(lowest))}",
    ]


def details(run: Run) -> str:
    """The ratio of every operation and stage, ids sorted and shuffled apart."""
    columns = [(rival, order) for rival in run.rivals for order in ORDERS]
    found = means(run.ratios, lambda ratio: (ratio.stage, ratio.op, ratio.rival, ratio.order))
    rows = [
        [stage, short(op), *(_cell(found.get((stage, op, *column))) for column in columns)]
        for stage in run.values("stage")
        for op in run.values("op")
    ]
    return text.table(["stage", "operation", *(f"{rival.title}, {order}" for rival, order in columns)], rows)


def _faster(run: Run) -> str:
    """Where another library is faster: one line for each rival and order of ids, with its operations."""
    found = means(run.ratios, lambda ratio: (ratio.rival, ratio.order, f"{short(ratio.op)}, {ratio.stage}"))
    lines = []
    for rival, order in product(run.rivals, ORDERS):
        slower = [f"{op} ({value:.2f})" for (*key, op), value in found.items() if key == [rival, order] and value < 1]
        if slower:
            lines.append(f"- {rival.title}, {order} ids: {'; '.join(slower)}")
    return "\n".join(["Faster than `segment_ops`:", "", *lines] if lines else ["Nothing is faster than `segment_ops`."])


def means(ratios: Iterable[Ratio], key: Callable[[Ratio], Any]) -> dict[Any, float]:
    """Geometric mean of the ratios that have a key in common, by key."""
    groups: dict[Any, list[float]] = {}
    for ratio in ratios:
        groups.setdefault(key(ratio), []).append(ratio.value)
    return {name: geometric_mean(values) for name, values in groups.items()}


def short(op: str) -> str:
    """An operation's name without what all have in common."""
    return op.removeprefix("segmented_")


def _cell(value: float | None) -> str:
    """A ratio, bold where the other library is faster."""
    shown = text.number(value)
    return f"**{shown}**" if value is not None and value < 1 else shown
