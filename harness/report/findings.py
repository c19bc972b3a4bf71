"""The findings page: the study's claims against the records, and what the study left open.

Every number is computed from the records; where they do not say, it is "not measured".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from harness.report import tables, text
from harness.report.claims import (
    CELLS,
    CELLS_ADJOINT,
    ENZYME,
    MILLION,
    NOT_MEASURED,
    REFUTED,
    SCALAR_ENZYME,
    Finding,
    Here,
    claims,
)
from harness.report.data import Entry, Setting, fastest_first, main_settings, ratio
from harness.report.documents import describe, heading
from harness.report.published import published

GROWTH_FROM, GROWTH_TO, GROWTH_LIMIT = 10_000, MILLION, 1.6
CLUSTERED_LIMIT = 1.5
HAND_WRITTEN = ((CELLS_ADJOINT, CELLS), ("warp_adjoint", "warp_autodiff"), (SCALAR_ENZYME, ENZYME))
"""Rows with a hand-written adjoint, each with the row that differentiates the same forward pass automatically."""


def markdown(entries: Sequence[Entry]) -> str:
    """The findings page."""
    parts = [
        "# Findings",
        f"The study's claims, made on its own machine ({published().machine}), against the records made here. Every "
        "number below is computed from them.",
    ]
    for _, group in groupby(main_settings(entries), key=lambda setting: setting.machine):
        parts += _machine(entries, list(group))
    return "\n\n".join(parts) + "\n"


def _machine(entries: Sequence[Entry], settings: Sequence[Setting]) -> Iterator[str]:
    places = {setting.device: Here(entries, setting) for setting in reversed(settings)}
    first = places.get("cpu") or Here(entries, settings[0]._replace(device="cpu", unit="CPU"))
    yield f"## {settings[0].machine}"
    records = [e.record for e in entries if e.setting.machine == settings[0].machine]
    yield f"*Measured {tables.dates(records)}; commit {tables.commits(records)}.*"
    yield "### The study's claims"
    yield claims_table(claims(first, places.get("cuda")))
    for setting in settings:
        here = Here(entries, setting)
        if any(e.timed for e in here.all()):
            yield from _unit(here)


def claims_table(findings: Iterable[Finding]) -> str:
    """Findings as a table, the verdict in bold where the study is contradicted."""
    rows = [[f.claim, f.study, f.here, f"**{f.verdict}**" if f.verdict == REFUTED else f.verdict] for f in findings]
    return text.table(("claim", "the study", "here", "verdict"), rows)


def _unit(here: Here) -> Iterator[str]:
    """What the study does not claim: cost against effort, hand-written adjoints, growth, clustered input."""
    name = f"{heading(here.setting)}, {describe(here.setting)}"
    sections = (
        ("What each row leaves on the table", cost(here)),
        ("What a hand-written adjoint buys", hand_written(here)),
        (f"Time per particle from N = {GROWTH_FROM:,} to {GROWTH_TO:,}", growth(here)),
        (f"Clustered input, N = {tables.CLUSTERED_N:,}", clustered(here)),
    )
    yield f"### Beyond the claims: {name}"
    for title, table in sections:
        yield f"#### {title}"
        yield table or f"{NOT_MEASURED.capitalize()}."


def cost(here: Here) -> str | None:
    """Gradient over the best row's and lines of code, at the largest N measured."""
    timed = [e for e in here.all() if e.timed]
    if not timed:
        return None
    n = max(e.n for e in timed)
    one = {e.implementation: e for e in here.all(n=n, threads=1)} if here.setting.threads > 1 else {}

    def single(e: Entry) -> str:
        return text.times(one[e.implementation].x_of_best) if e.implementation in one else text.DASH

    columns: text.Columns[Entry] = {
        "implementation": lambda e: e.title,
        "adjoint": lambda e: e.record.description.adjoint if e.record.description else text.DASH,
        "gradient": lambda e: text.seconds(e.record.gradient_s),
        "x of best row": lambda e: text.times(e.x_of_best),
        "x of best row, 1 thread": single,
        "lines, forward": lambda e: text.count(e.record.lines_forward),
        "lines, adjoint": lambda e: text.count(e.record.lines_adjoint),
        "remarks": lambda e: tables.remarks(e),
    }
    return f"N = {n:,}.\n\n{text.items_table(fastest_first(here.all(n=n)), columns)}"


def hand_written(here: Here) -> str | None:
    """Hand-written adjoints beside automatic ones, each at the largest N that both were timed at."""
    pairs = [pair for by_hand, automatic in HAND_WRITTEN if (pair := _largest_common(here, by_hand, automatic))]
    if not pairs:
        return None
    columns: text.Columns[tuple[Entry, Entry]] = {
        "hand-written": lambda p: p[0].title,
        "automatic": lambda p: p[1].title,
        "N": lambda p: text.count(p[0].n),
        "hand-written: gradient": lambda p: text.seconds(p[0].record.gradient_s),
        "automatic: gradient": lambda p: text.seconds(p[1].record.gradient_s),
        "time": lambda p: text.times(ratio(p[0].record.gradient_s, p[1].record.gradient_s)),
        "memory": lambda p: text.times(ratio(p[0].peak_bytes, p[1].peak_bytes)),
        "hand-written: lines of adjoint": lambda p: text.count(p[0].record.lines_adjoint),
        "automatic: lines of adjoint": lambda p: text.count(p[1].record.lines_adjoint),
    }
    return text.items_table(pairs, columns)


def growth(here: Here) -> str | None:
    """Time per particle at the larger N over that at the smaller, and what grew."""
    small = {e.implementation: e for e in here.all(n=GROWTH_FROM) if e.timed}
    large = [e for e in here.all(n=GROWTH_TO) if e.timed]
    pairs = [(small[e.implementation], e) for e in fastest_first(large) if e.implementation in small]
    if not pairs:
        return None
    columns: text.Columns[tuple[Entry, Entry]] = {
        "implementation": lambda p: p[0].title,
        f"N = {GROWTH_FROM:,}": lambda p: text.seconds(p[0].seconds_per_particle),
        f"N = {GROWTH_TO:,}": lambda p: text.seconds(p[1].seconds_per_particle),
        "growth": lambda p: text.times(_grown(p, lambda e: e.seconds_per_particle)),
        "of which slots per particle": lambda p: text.times(_grown(p, _slots_per_particle)),
        "of which time per slot": lambda p: text.times(_grown(p, _seconds_per_slot)),
        "remarks": _growth_remark,
    }
    return text.items_table(pairs, columns)


def clustered(here: Here) -> str | None:
    """Time per true pair on the clustered input over that on the published one, the least affected row first."""
    n = tables.CLUSTERED_N
    even = {e.implementation: e for e in here.all(n=n)}
    grown = {
        entry.title: value
        for entry in here.all(n=n, scenario="clustered")
        if entry.implementation in even
        and (value := ratio(entry.seconds_per_pair, even[entry.implementation].seconds_per_pair)) is not None
    }
    if not grown:
        return None
    ordered = sorted(grown, key=lambda title: grown[title])
    words = {title: f"{title} {text.times(grown[title])}" for title in ordered}
    within = "; ".join(words[title] for title in ordered if grown[title] <= CLUSTERED_LIMIT) or "none"
    above = "; ".join(words[title] for title in ordered if grown[title] > CLUSTERED_LIMIT) or "none"
    limit = text.times(CLUSTERED_LIMIT)
    return (
        "Gradient time per true pair over that of the published input (slots, memory and times of both stand in the "
        f"report).\n\n- Up to {limit}: {within}.\n- Above {limit}: {above}."
    )


def _largest_common(here: Here, first: str, second: str) -> tuple[Entry, Entry] | None:
    """Two rows at the largest N that both were timed at."""
    timed = [{e.n: e for e in here.all(implementation=name) if e.timed} for name in (first, second)]
    common = timed[0].keys() & timed[1].keys()
    return (timed[0][max(common)], timed[1][max(common)]) if common else None


def _grown(pair: tuple[Entry, Entry], value: Callable[[Entry], float | None]) -> float | None:
    return ratio(value(pair[1]), value(pair[0]))


def _slots_per_particle(entry: Entry) -> float | None:
    return ratio(entry.record.pair_slots, entry.n)


def _seconds_per_slot(entry: Entry) -> float | None:
    return ratio(entry.record.gradient_s, entry.record.pair_slots)


def _growth_remark(pair: tuple[Entry, Entry]) -> str:
    """Why a row grows faster than the limit, as far as the records tell."""
    grown, slots = _grown(pair, lambda e: e.seconds_per_particle), _grown(pair, _slots_per_particle)
    if grown is None or grown <= GROWTH_LIMIT:
        return ""
    above = f"above {text.times(GROWTH_LIMIT)}: "
    if slots is not None and slots > grown**0.5:
        return above + "mostly more slots per particle, whose number follows the fullest cell or the list's capacity"
    memory = text.size(pair[1].peak_bytes)
    return above + f"mostly time per slot; {memory} at the larger N against {text.size(pair[0].peak_bytes)}"
