"""Two sets of records, case by case: same, faster, slower or ambiguous; never across machines, dtypes or threads.

Forward and gradient are judged apart, each from its raw samples pooled over rounds: a two-sided Mann-Whitney test,
whose level is halved because there are two of them, and a minimum effect on the medians. Samples of one process share
the machine's mood, so noisy ones must also have interquartile ranges that are apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from harness.contract.records import Record
from harness.contract.samples import NOISY_SPREAD, Samples
from harness.report import text

LEVEL = 0.05
"""Chance of calling a case different that is not, forward and gradient together."""
MINIMUM_EFFECT = 0.05
"""Smaller changes of a median are called the same."""

Verdict = Literal[
    "slower",
    "broken",
    "faster",
    "mended",
    "ambiguous",
    "unknown",
    "not comparable",
    "only in old",
    "only in new",
    "same",
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""Most urgent first."""
REGRESSIONS = frozenset({"slower", "broken"})

_UNKNOWN = "unknown"


class Change(msgspec.Struct, frozen=True):
    """One quantity of one case.

    Attributes:
        verdict: same, faster, slower or ambiguous.
        old_s, new_s: median seconds.
        p: of the rank test.
    """

    verdict: Verdict
    old_s: float
    new_s: float
    p: float

    @property
    def ratio(self) -> float:
        """New median over old."""
        return self.new_s / self.old_s

    @property
    def words(self) -> str:
        """Both medians and their ratio."""
        return f"{text.seconds(self.old_s)} → {text.seconds(self.new_s)} ({text.times(self.ratio)})"


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One case of either set.

    Attributes:
        case_id: the case; where two cases only resemble each other, the new one.
        verdict: the more urgent of forward and gradient, or why there is none: broken (was ok, is not), mended,
            unknown (something is not recorded), not comparable, only in old, only in new.
        reason: what differs, what is missing, duplicates; null where the figures say it all.
        forward, gradient: the figures; null where there are none.
    """

    case_id: str
    verdict: Verdict
    reason: str | None = None
    forward: Change | None = None
    gradient: Change | None = None


class _Place(NamedTuple):
    """Where and how a case ran: times of two places are never set against each other."""

    processor: str
    cores: str
    accelerator: str
    device: str
    dtype: str
    threads: int


class _Case(NamedTuple):
    """What was run there."""

    implementation: str
    problem: str
    scenario: str
    n: int
    options: str


class _Pooled(msgspec.Struct, frozen=True):
    """One case in one set: its newest record of each round."""

    rounds: list[Record]
    note: str | None

    @property
    def case_id(self) -> str:
        return self.rounds[-1].case_id

    @property
    def failure(self) -> Record | None:
        return next((record for record in self.rounds if record.outcome != "ok"), None)

    def samples(self, quantity: str) -> list[float]:
        return [s for record in self.rounds for s in getattr(record, f"{quantity}_samples_s") or ()]


def compare(old: Iterable[Record], new: Iterable[Record]) -> list[Comparison]:
    """Compare two sets of records.

    Args:
        old: the reference.
        new: what is judged.

    Returns:
        One comparison per case of either set, most urgent verdict first.
    """
    before, after = _cases(old), _cases(new)
    found = [_compared(before[key], after[key], key[1]) for key in before.keys() & after.keys()]
    found += _unmatched(
        {key: pooled for key, pooled in before.items() if key not in after},
        {key: pooled for key, pooled in after.items() if key not in before},
    )
    return sorted(found, key=lambda c: (VERDICTS.index(c.verdict), c.case_id))


def change(old: Sequence[float], new: Sequence[float]) -> Change:
    """Judge one quantity from its samples, seconds, at least one on each side."""
    from scipy.stats import mannwhitneyu

    before, after = Samples(list(old)), Samples(list(new))
    p = float(mannwhitneyu(new, old, alternative="two-sided").pvalue)
    ratio = after.median / before.median
    beyond = not 1.0 / (1.0 + MINIMUM_EFFECT) <= ratio <= 1.0 + MINIMUM_EFFECT
    noisy = max(before.spread, after.spread) > NOISY_SPREAD
    verdict: Verdict = "same"
    if beyond and p < LEVEL / 2 and not (noisy and _overlap(before.quartiles, after.quartiles)):
        verdict = "slower" if ratio > 1.0 else "faster"
    elif beyond or noisy:
        verdict = "ambiguous"
    return Change(verdict, before.median, after.median, p)


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether two interquartile ranges do: a rank test of many samples tells apart two moods of a busy machine."""
    return one[0] <= other[1] and other[0] <= one[1]


def markdown(comparisons: Sequence[Comparison]) -> str:
    """The comparison as a page."""
    columns: text.Columns[Comparison] = {
        "case": lambda c: c.case_id,
        "verdict": lambda c: f"**{c.verdict}**" if c.verdict in REGRESSIONS else c.verdict,
        "forward": lambda c: c.forward.words if c.forward else text.DASH,
        "gradient": lambda c: c.gradient.words if c.gradient else text.DASH,
        "remarks": lambda c: c.reason or "",
    }
    return f"# New against old\n\n{summary(comparisons)}\n\n{text.items_table(comparisons, columns)}\n"


def summary(comparisons: Iterable[Comparison]) -> str:
    """How many cases got each verdict, and what a verdict takes."""
    counts = Counter(comparison.verdict for comparison in comparisons)
    numbers = (
        ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]) or "nothing to compare"
    )
    return (
        f"{numbers}. Slower or faster: the medians differ by more than {MINIMUM_EFFECT:.0%} and a Mann-Whitney test "
        f"tells the samples apart (level {LEVEL:.0%} for a case); where the spread is above {NOISY_SPREAD:.0%}, the "
        "interquartile ranges must be apart as well. Ambiguous: the medians differ, or the spread is that large, and "
        "this does not hold. The more urgent of forward and gradient is the case's verdict."
    )


_Key = tuple[_Case, _Place]


def _cases(records: Iterable[Record]) -> dict[_Key, _Pooled]:
    groups: dict[_Key, list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record.timestamp):
        groups[_key(record)].append(record)
    return {key: _pool(group) for key, group in groups.items()}


def _key(record: Record) -> _Key:
    options = ", ".join(f"{name}={value:g}" for name, value in sorted(record.options.items()))
    accelerator = record.device_name or _first_accelerator(record) if record.device != "cpu" else "none"
    processor, cores = (str(record.environment.get(name) or _UNKNOWN) for name in ("processor", "cores"))
    return (
        _Case(record.implementation, record.problem, record.scenario, record.n, options),
        _Place(processor, cores, accelerator, record.device, record.dtype, record.threads),
    )


def _first_accelerator(record: Record) -> str:
    devices: list[dict[str, Any]] = record.environment.get("cuda_devices") or [{}]
    return str(devices[0].get("name") or _UNKNOWN)


def _pool(records: Sequence[Record]) -> _Pooled:
    newest = {record.round: record for record in records}
    repeats = len(records) - len(newest)
    note = (
        f"{repeats} duplicate{'s' if repeats > 1 else ''} left out, the newest of each round counts"
        if repeats
        else None
    )
    return _Pooled([newest[number] for number in sorted(newest)], note)


def _compared(old: _Pooled, new: _Pooled, place: _Place) -> Comparison:
    notes = [f"{note} ({name})" for name, note in (("old", old.note), ("new", new.note)) if note]
    verdict, reason, changes = _judged(old, new, place)
    return Comparison(case_id=new.case_id, verdict=verdict, reason="; ".join([*reason, *notes]) or None, **changes)


def _judged(old: _Pooled, new: _Pooled, place: _Place) -> tuple[Verdict, list[str], dict[str, Change]]:
    unknown = [name for name, value in place._asdict().items() if value == _UNKNOWN]
    if unknown:
        return "unknown", [f"{', '.join(unknown)} not recorded"], {}
    if old.failure or new.failure:
        return (*_outcomes(old.failure, new.failure), {})
    sides = (("old", old), ("new", new))
    missing = [
        f"no {q} samples in {name}" for q in ("forward", "gradient") for name, side in sides if not side.samples(q)
    ]
    if missing:
        return "unknown", missing, {}
    changes = {q: change(old.samples(q), new.samples(q)) for q in ("forward", "gradient")}
    return min((c.verdict for c in changes.values()), key=VERDICTS.index), [], changes


def _outcomes(old: Record | None, new: Record | None) -> tuple[Verdict, list[str]]:
    """The verdict where at least one side failed."""
    before, after = (record.outcome if record else "ok" for record in (old, new))
    words = f"{before} → {after}" + (f": {text.one_line(new.reason)}" if new and new.reason else "")
    if old is None:
        return "broken", [words]
    if new is None:
        return "mended", [words]
    return "unknown", [f"no timings: {words}"]


def _unmatched(old: dict[_Key, _Pooled], new: dict[_Key, _Pooled]) -> list[Comparison]:
    """Cases without an exact partner: beside the one that resembles them most, or alone."""
    found = []
    left = dict(old)
    for (case, place), pooled in new.items():
        partners = [key for key in left if key[0] == case]
        if not partners:
            found.append(Comparison(case_id=pooled.case_id, verdict="only in new", reason=pooled.note))
            continue
        partner = min(partners, key=lambda key: len(_differing(key[1], place)))
        left.pop(partner)
        found.append(_not_comparable(pooled, partner[1], place))
    alone = [Comparison(case_id=pooled.case_id, verdict="only in old", reason=pooled.note) for pooled in left.values()]
    return found + alone


def _not_comparable(pooled: _Pooled, old: _Place, new: _Place) -> Comparison:
    differing = _differing(old, new)
    words = ", ".join(f"{name} ({getattr(old, name)}, {getattr(new, name)})" for name in differing)
    unknown = any(_UNKNOWN in (getattr(old, name), getattr(new, name)) for name in differing)
    verdict: Verdict = "unknown" if unknown else "not comparable"
    return Comparison(case_id=pooled.case_id, verdict=verdict, reason=f"{verdict}: {words}")


def _differing(old: _Place, new: _Place) -> list[str]:
    return [name for name in _Place._fields if getattr(old, name) != getattr(new, name)]
