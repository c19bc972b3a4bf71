"""The markdown tables. Each takes entries and returns text; what is missing is a dash, a failure stays in its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from harness.contract.protocol import Description
from harness.contract.records import Record
from harness.report import text
from harness.report.data import Entry, Setting, fastest_first, machine, pick, ratio
from harness.report.published import AGREEMENT_N, PublishedAgreement, PublishedTiming, published

CLUSTERED_N = 100_000

TIMING_COLUMNS: text.Columns[Entry] = {
    "implementation": lambda e: e.label,
    "forward": lambda e: text.seconds(e.record.forward_s),
    "gradient": lambda e: text.seconds(e.record.gradient_s),
    "gradient / forward": lambda e: text.times(e.gradient_over_forward),
    "x of best row": lambda e: text.times(e.x_of_best),
    "pair slots": lambda e: text.count(e.record.pair_slots),
    "true pairs": lambda e: text.count(e.record.true_pairs),
    "slots / true pair": lambda e: text.number(e.padding),
    "compile": lambda e: text.seconds(e.compile_s),
    "peak memory": lambda e: text.size(e.peak_bytes),
    "spread": lambda e: text.per_cent(e.spread),
    "samples": lambda e: samples(e),
    "remarks": lambda e: remarks(e),
}

SHORT_TIMING_COLUMNS: text.Columns[Entry] = {
    header: TIMING_COLUMNS[header]
    for header in (
        "implementation",
        "forward",
        "gradient",
        "gradient / forward",
        "x of best row",
        "pair slots",
        "compile",
        "peak memory",
        "remarks",
    )
}

AGREEMENT_COLUMNS: text.Columns[Entry] = {
    "implementation": lambda e: e.label,
    "loss": lambda e: text.exact(e.record.loss),
    "‖g‖₂": lambda e: text.norm(e.record.grad_norm),
    "max rel. diff": lambda e: text.difference(e.record.max_rel_diff),
    "remarks": lambda e: remarks(e, timing=False),
}


def samples(entry: Entry) -> str:
    """Number of samples of forward and gradient."""
    counts = [len(s) for s in (entry.record.forward_samples_s, entry.record.gradient_samples_s) if s]
    return " + ".join(map(str, counts)) or text.DASH


def remarks(entry: Entry, timing: bool = True) -> str:
    """What a reader must know about a row: its failure and why, or what qualifies its numbers."""
    record = entry.record
    if not entry.ok:
        return f"**{record.outcome}**" + (f": {text.one_line(record.reason)}" if record.reason else "")
    notes = []
    if timing and record.noisy:
        notes.append("noisy")
    if timing and record.recompilations:
        notes.append(f"{record.recompilations} recompilations while sampling")
    if record.reallocations:
        notes.append(f"{record.reallocations} reallocations")
    if timing and entry.setting.device == "cpu" and entry.setting.threads > 1 and not entry.multithreaded:
        notes.append("one thread")
    return ", ".join(notes)


def agreement(entries: Iterable[Entry]) -> str:
    """The study's table "Same gradient from all": entries of one N and setting, the study's own lines below."""
    shown = sorted(entries, key=lambda e: e.implementation)
    studied = any((e.n, e.setting.scenario, e.setting.dtype) == (AGREEMENT_N, "published", "float64") for e in shown)
    below = [_study_agreement(line) for line in published().agreement] if studied else []
    return text.items_table(shown, AGREEMENT_COLUMNS, below)


def timing(entries: Sequence[Entry], columns: text.Columns[Entry] = TIMING_COLUMNS) -> str:
    """Entries of one N and setting, fastest gradient first, failures last; the study's own lines below."""
    below = [study_timing_cells(line, columns) for line in study_timings(entries[0].setting, entries[0].n)]
    return text.items_table(fastest_first(entries), columns, below)


def study_timings(setting: Setting, n: int) -> list[PublishedTiming]:
    """What the study printed for a setting: it ran float64 on its own input, one device at a time."""
    if (setting.dtype, setting.scenario) != ("float64", "published"):
        return []
    return [line for line in published().timings if (line.device, line.n) == (setting.device, n)]


def study_timing_cells(line: PublishedTiming, columns: Iterable[str]) -> list[str]:
    """A line of the study under our headers, in italics."""
    cells = {
        "implementation": f"study: {line.system}",
        "forward": text.seconds(line.forward_s),
        "gradient": text.seconds(line.gradient_s),
        "gradient / forward": text.times(line.gradient_over_forward),
        "pair slots": line.pair_slots or text.DASH,
        "compile": text.seconds(line.compile_s),
        "remarks": f"**failed**: {line.failure}" if line.failure else "its own machine",
    }
    return [_italic(cells.get(column, text.DASH)) for column in columns]


def study_only(device: str) -> str:
    """The study's timings on a device that was not measured here."""
    headers = ("implementation", "N", "forward", "gradient", "gradient / forward", "pair slots", "compile", "remarks")
    lines = [line for line in published().timings if line.device == device]
    rows = []
    for line in lines:
        first, *rest = study_timing_cells(line, [header for header in headers if header != "N"])
        rows.append([first, _italic(text.count(line.n)), *rest])
    return text.table(headers, rows)


def machines(records: Iterable[Record]) -> str:
    """Every machine: what it is, what ran on it and when."""
    rows = []
    ordered = sorted(records, key=lambda r: (machine(r), r.timestamp))
    for name, group in groupby(ordered, key=machine):
        found = list(group)
        environment = found[-1].environment
        accelerators = [str(d.get("name")) for d in environment.get("cuda_devices") or ()]
        rows.append(
            [
                name,
                text.size(environment.get("memory_bytes")),
                ", ".join(accelerators) or "none",
                text.DASH if not environment.get("os") else str(environment["os"]),
                text.DASH if not environment.get("python") else str(environment["python"]),
                ", ".join(f"{k} {v}" for k, v in sorted((environment.get("packages") or {}).items())) or text.DASH,
                dates(found),
                commits(found),
                text.count(len(found)),
            ]
        )
    headers = ("machine", "memory", "accelerator", "system", "Python", "packages", "measured", "commit", "records")
    return text.table(headers, rows)


def dates(records: Iterable[Record]) -> str:
    """First and last day of measuring."""
    days = sorted({record.timestamp[:10] for record in records if record.timestamp})
    return text.DASH if not days else days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def commits(records: Iterable[Record]) -> str:
    """Commits the records were made from, in order of time; see `commit_name`."""
    names: dict[str, None] = {}
    for record in records:
        commit = record.environment.get("commit")
        if commit:
            names[commit_name(str(commit), bool(record.environment.get("dirty")))] = None
    return ", ".join(names) or text.DASH


def commit_name(commit: str, dirty: bool) -> str:
    """A commit for readers; a plus sign where sources had been changed since."""
    return commit[:10] + ("+" if dirty else "")


def implementations(entries: Iterable[Entry]) -> str:
    """What each row is, in its own words, and its lines of code."""
    newest: dict[str, Entry] = {}
    for entry in sorted(entries, key=lambda e: (e.record.lines_forward is not None, e.record.timestamp)):
        if entry.record.description is not None:
            newest[entry.implementation] = entry

    def described(entry: Entry) -> Description:
        assert entry.record.description is not None
        return entry.record.description

    columns: text.Columns[Entry] = {
        "implementation": lambda e: e.title,
        "name": lambda e: f"`{e.implementation}`",
        "neighbours": lambda e: described(e).neighbours,
        "adjoint": lambda e: described(e).adjoint,
        "pair slots are": lambda e: described(e).pair_slots,
        "threads": lambda e: "many" if e.multithreaded else "one",
        "flags that change values": lambda e: described(e).fast_math,
        "lines, forward": lambda e: text.count(e.record.lines_forward),
        "lines, adjoint": lambda e: text.count(e.record.lines_adjoint),
    }
    return text.items_table([newest[name] for name in sorted(newest)], columns)


def threads(entries: Sequence[Entry], setting: Setting, n: int) -> str | None:
    """One thread beside all of them; None where only one of the two was measured."""
    one = _by_row(pick(entries, **setting._replace(threads=1)._asdict(), n=n))
    every = pick(entries, **setting._asdict(), n=n)
    if setting.threads == 1 or not one:
        return None
    pairs = [(e, one[e.implementation]) for e in fastest_first(every) if e.implementation in one]
    columns: text.Columns[tuple[Entry, Entry]] = {
        "implementation": lambda p: p[0].title,
        "1 thread: gradient": lambda p: text.seconds(p[1].record.gradient_s),
        "1 thread: x of best row": lambda p: text.times(p[1].x_of_best),
        f"{setting.threads} threads: gradient": lambda p: text.seconds(p[0].record.gradient_s),
        f"{setting.threads} threads: x of best row": lambda p: text.times(p[0].x_of_best),
        "speed-up": lambda p: text.times(ratio(p[1].record.gradient_s, p[0].record.gradient_s)),
        "remarks": lambda p: remarks(p[0] if not p[0].ok else p[1] if not p[1].ok else p[0]),
    }
    return text.items_table(pairs, columns)


def clustered(entries: Sequence[Entry], setting: Setting) -> str | None:
    """The clustered input beside the published one, at N = 1e5; None where it was not measured."""
    hard = pick(entries, **setting._replace(scenario="clustered")._asdict(), n=CLUSTERED_N)
    even = _by_row(pick(entries, **setting._asdict(), n=CLUSTERED_N))
    pairs = [(even[e.implementation], e) for e in fastest_first(hard) if e.implementation in even]
    if not pairs:
        return None
    columns: text.Columns[tuple[Entry, Entry]] = {
        "implementation": lambda p: p[0].title,
        "published: slots / true pair": lambda p: text.number(p[0].padding),
        "clustered: slots / true pair": lambda p: text.number(p[1].padding),
        "published: peak memory": lambda p: text.size(p[0].peak_bytes),
        "clustered: peak memory": lambda p: text.size(p[1].peak_bytes),
        "published: gradient": lambda p: text.seconds(p[0].record.gradient_s),
        "clustered: gradient": lambda p: text.seconds(p[1].record.gradient_s),
        "published: gradient / true pair": lambda p: text.seconds(p[0].seconds_per_pair),
        "clustered: gradient / true pair": lambda p: text.seconds(p[1].seconds_per_pair),
        "ratio": lambda p: text.times(ratio(p[1].seconds_per_pair, p[0].seconds_per_pair)),
        "remarks": lambda p: remarks(p[1] if not p[1].ok else p[0]),
    }
    return text.items_table(pairs, columns)


def precision(entries: Sequence[Entry], setting: Setting, n: int) -> str | None:
    """float32 beside float64; None where it was not measured."""
    single = _by_row(pick(entries, **setting._replace(dtype="float32")._asdict(), n=n))
    pairs = [
        (e, single[e.implementation])
        for e in fastest_first(pick(entries, **setting._asdict(), n=n))
        if e.implementation in single
    ]
    if not pairs:
        return None
    columns: text.Columns[tuple[Entry, Entry]] = {
        "implementation": lambda p: p[0].title,
        "float64: gradient": lambda p: text.seconds(p[0].record.gradient_s),
        "float32: gradient": lambda p: text.seconds(p[1].record.gradient_s),
        "float32 / float64": lambda p: text.times(ratio(p[1].record.gradient_s, p[0].record.gradient_s)),
        "float64: peak memory": lambda p: text.size(p[0].peak_bytes),
        "float32: peak memory": lambda p: text.size(p[1].peak_bytes),
        "float32: max rel. diff": lambda p: text.difference(p[1].record.max_rel_diff),
        "remarks": _precision_remarks,
    }
    return text.items_table(pairs, columns)


def _precision_remarks(pair: tuple[Entry, Entry]) -> str:
    double, single = pair
    share = ratio(single.record.gradient_s, double.record.gradient_s)
    slower = "float32 is slower" if share is not None and share > 1.0 else ""
    return ", ".join(note for note in (remarks(single if not single.ok else double), slower) if note)


def variants(entries: Sequence[Entry], setting: Setting, n: int) -> str | None:
    """Rows with an option changed, beside the row itself; None where there are none."""
    here = [e for e in entries if e.setting == setting and e.n == n]
    varied = {e.implementation for e in here if e.variant}
    shown = sorted((e for e in here if e.implementation in varied), key=_options)
    if not shown:
        return None
    columns: text.Columns[Entry] = {
        "implementation": lambda e: e.title,
        "option": lambda e: ", ".join(f"{k.replace('_', ' ')} {v:g}" for k, v in _options(e)[1]),
        "capacity": lambda e: text.count(e.record.capacity),
        **{h: TIMING_COLUMNS[h] for h in ("pair slots", "slots / true pair", "peak memory", "forward", "gradient")},
        "reallocations": lambda e: text.count(e.record.reallocations),
        "remarks": lambda e: remarks(e),
    }
    return text.items_table(shown, columns)


def _options(entry: Entry) -> tuple[str, tuple[tuple[str, float], ...]]:
    defaults = entry.record.description.options if entry.record.description else {}
    return entry.implementation, tuple(sorted({**defaults, **entry.record.options}.items()))


def _by_row(entries: Iterable[Entry]) -> dict[str, Entry]:
    return {entry.implementation: entry for entry in entries}


def _study_agreement(line: PublishedAgreement) -> list[str]:
    cells = (
        f"study: {line.system}",
        line.loss,
        line.grad_norm,
        line.max_rel_diff,
        "as printed; difference to Enzyme.jl",
    )
    return [_italic(cell) for cell in cells]


def _italic(cell: str) -> str:
    return cell if cell == text.DASH else f"*{cell}*"
