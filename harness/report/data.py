"""Records of any number of machines as what the tables and figures show: one entry per machine and case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from harness.contract.records import Record
from harness.contract.samples import NOISY_SPREAD, Samples


class Unit(NamedTuple):
    """What computed: a machine's processor or its accelerator; fields as in `Setting`."""

    machine: str
    unit: str
    device: str


class Setting(NamedTuple):
    """What entries must have in common to stand in one table.

    Attributes:
        machine: processor and number of cores.
        unit: what computed: the processor ("CPU") or the accelerator's name.
        device: cpu or cuda.
        dtype, threads, scenario: of the case.
    """

    machine: str
    unit: str
    device: str
    dtype: str
    threads: int
    scenario: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One case on one machine: the newest run's record, its samples pooled over that run's rounds.

    Attributes:
        record: without timings unless every round ended ok.
        setting: the table it belongs to.
        title: the row's name for readers.
        best_gradient_s: median gradient of the fastest row of the same setting and N.
    """

    record: Record
    setting: Setting
    title: str
    best_gradient_s: float | None = None

    @property
    def implementation(self) -> str:
        """Name of the row."""
        return self.record.implementation

    @property
    def n(self) -> int:
        """Particles."""
        return self.record.n

    @property
    def ok(self) -> bool:
        """Whether it was found right, in every round."""
        return self.record.outcome == "ok"

    @property
    def timed(self) -> bool:
        """Whether it has samples: a mere check has none."""
        return self.record.gradient_s is not None

    @property
    def variant(self) -> str:
        """Options that differ from the row's defaults, as text; empty for the row itself."""
        defaults = self.record.description.options if self.record.description else {}
        changed = {k: v for k, v in sorted(self.record.options.items()) if defaults.get(k) != v}
        return ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in changed.items())

    @property
    def label(self) -> str:
        """Title and variant."""
        return f"{self.title}, {self.variant}" if self.variant else self.title

    @property
    def multithreaded(self) -> bool:
        """Whether the row can use more than one core; taken as so where it does not say."""
        return self.record.description is None or self.record.description.multithreaded

    @property
    def compile_s(self) -> float | None:
        """Seconds to compile the forward pass and the gradient."""
        return total(self.record.compile_forward_s, self.record.compile_gradient_s)

    @property
    def gradient_over_forward(self) -> float | None:
        """Median gradient over median forward pass."""
        return ratio(self.record.gradient_s, self.record.forward_s)

    @property
    def padding(self) -> float | None:
        """Slots the kernel is evaluated on per true pair."""
        return ratio(self.record.pair_slots, self.record.true_pairs)

    @property
    def x_of_best(self) -> float | None:
        """Median gradient over that of the best row."""
        return ratio(self.record.gradient_s, self.best_gradient_s)

    @property
    def seconds_per_particle(self) -> float | None:
        """Median gradient per particle."""
        return ratio(self.record.gradient_s, self.n)

    @property
    def seconds_per_pair(self) -> float | None:
        """Median gradient per true pair."""
        return ratio(self.record.gradient_s, self.record.true_pairs)

    @property
    def peak_bytes(self) -> int | None:
        """Peak memory where the row computes; on an accelerator the framework's figure, else the driver's."""
        if self.setting.device == "cpu":
            return self.record.peak_host_bytes
        return self.record.peak_device_bytes or self.record.driver_device_bytes

    @property
    def spread(self) -> float | None:
        """Interquartile range over median, the larger of forward and gradient."""
        r = self.record
        shares = (ratio(r.forward_iqr_s, r.forward_s), ratio(r.gradient_iqr_s, r.gradient_s))
        return max((share for share in shares if share is not None), default=None)


def entries(records: Iterable[Record]) -> list[Entry]:
    """One entry per machine and case, in a fixed order: by machine, setting, N, row.

    Of several records of a round the newest counts; of a case's rounds those made by the code of the newest are pooled,
    and one that failed stands for all.
    """
    rounds: dict[tuple[str, str, str], dict[int, Record]] = defaultdict(dict)
    titles = {}
    for record in sorted(records, key=lambda record: record.timestamp):
        newest = rounds[machine(record), unit(record), record.case_id]
        newest.pop(record.round, None)  # so that the newest comes last
        newest[record.round] = record
        if record.description is not None:
            titles[record.implementation] = record.description.title
    groups = [list(newest.values()) for newest in rounds.values()]
    merged = [_pooled([r for r in group if r.code_hash == group[-1].code_hash]) for group in groups]
    return _with_best([_entry(record, titles.get(record.implementation)) for record in merged])


def machine(record: Record) -> str:
    """Processor and cores, as in headings."""
    return machine_of(record.environment)


def machine_of(environment: Mapping[str, Any]) -> str:
    """Processor and cores of what `harness.run.machine.environment` recorded."""
    cores = environment.get("cores")
    processor = str(environment.get("processor") or "unknown processor")
    return f"{processor}, {cores} {'core' if cores == 1 else 'cores'}" if cores else processor


def unit(record: Record) -> str:
    """What a case was to run on: CPU, or the accelerator's name."""
    if record.device == "cpu":
        return "CPU"
    return record.device_name or accelerator(record.environment) or record.device


def accelerator(environment: Mapping[str, Any]) -> str | None:
    """Name of the first accelerator; None where there is none."""
    devices = environment.get("cuda_devices") or [{}]
    return devices[0].get("name")


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    """Quotient; None where either is missing or there is nothing to divide by."""
    return numerator / denominator if numerator is not None and denominator else None


def total(*values: float | None) -> float | None:
    """Sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def pick(items: Iterable[Entry], **where: object) -> list[Entry]:
    """Entries whose setting, row, n or variant have these values; without variants unless one is asked for."""
    where.setdefault("variant", "")
    return [item for item in items if all(_field(item, name) == value for name, value in where.items())]


def by_setting(items: Iterable[Entry]) -> dict[Setting, list[Entry]]:
    """Entries of each setting, the study's own setting first: float64, published, every core."""
    groups: dict[Setting, list[Entry]] = defaultdict(list)
    for item in items:
        groups[item.setting].append(item)
    return dict(sorted(groups.items(), key=lambda group: _order(group[0])))


def by_n(items: Iterable[Entry]) -> dict[int, list[Entry]]:
    """Entries of each N, ascending."""
    groups: dict[int, list[Entry]] = defaultdict(list)
    for item in items:
        groups[item.n].append(item)
    return dict(sorted(groups.items()))


def fastest_first(items: Iterable[Entry]) -> list[Entry]:
    """By gradient; what has none last."""
    return sorted(items, key=lambda item: (item.record.gradient_s is None, item.record.gradient_s or 0.0, item.label))


def main_settings(items: Iterable[Entry]) -> list[Setting]:
    """The study's setting on each machine and unit: float64, published, as many threads as were used there."""
    first: dict[tuple[str, str], Setting] = {}
    for setting in by_setting(items):
        if (setting.dtype, setting.scenario) == ("float64", "published"):
            first.setdefault((setting.machine, setting.unit), setting)
    return list(first.values())


def plotted_settings(items: Sequence[Entry]) -> list[Setting]:
    """Those of the main settings where anything was timed: each has its figures."""
    return [setting for setting in main_settings(items) if any(e.timed for e in pick(items, **setting._asdict()))]


def _order(setting: Setting) -> tuple[object, ...]:
    return (
        setting.machine,
        setting.device,
        setting.unit,
        setting.scenario != "published",
        setting.scenario,
        setting.dtype != "float64",
        setting.dtype,
        -setting.threads,
    )


def _field(item: Entry, name: str) -> object:
    return getattr(item.setting, name) if name in Setting._fields else getattr(item, name)


def _pooled(rounds: Sequence[Record]) -> Record:
    """The last record with the samples of all rounds; a failed round instead, where there is one."""
    failed = [record for record in rounds if record.outcome != "ok"]
    if failed:
        return msgspec.structs.replace(failed[-1], **dict.fromkeys(_TIMINGS))
    changes: dict[str, object] = {}
    spreads = []
    for name in ("forward", "gradient"):
        pooled = Samples([s for record in rounds for s in getattr(record, f"{name}_samples_s") or ()])
        if pooled.seconds:
            changes |= {f"{name}_samples_s": pooled.seconds, f"{name}_s": pooled.median, f"{name}_iqr_s": pooled.iqr}
            spreads.append(pooled.spread)
    if spreads:
        changes["noisy"] = max(spreads) > NOISY_SPREAD
    return msgspec.structs.replace(rounds[-1], **changes)


_TIMINGS = tuple(f"{name}_{kind}" for name in ("forward", "gradient") for kind in ("s", "iqr_s", "samples_s"))


def _entry(record: Record, title: str | None) -> Entry:
    setting = Setting(machine(record), unit(record), record.device, record.dtype, record.threads, record.scenario)
    return Entry(record=record, setting=setting, title=title or record.implementation)


def _with_best(items: Iterable[Entry]) -> list[Entry]:
    groups: dict[tuple[Setting, int], list[Entry]] = defaultdict(list)
    for item in items:
        groups[item.setting, item.n].append(item)
    found = []
    for group in groups.values():
        best = min((e.record.gradient_s for e in group if e.record.gradient_s is not None), default=None)
        found += [replace(e, best_gradient_s=best) for e in group]
    return sorted(found, key=lambda e: (_order(e.setting), e.n, e.implementation, e.variant))
