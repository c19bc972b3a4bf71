"""Two sets of records, case by case: same, faster, slower or ambiguous; never across machines, dtypes or threads.

Forward and gradient are judged apart, each from its raw samples pooled over rounds: a two-sided Mann-Whitney test,
whose level is halved because there are two of them, and a minimum effect on the medians. Samples of one process share
the machine's mood, so noisy ones must also have interquartile ranges that are apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args

import pandas as pd

from harness.contract.identity import UNKNOWN, Machine
from harness.contract.records import Record
from harness.contract.samples import NOISY_SPREAD, Samples
from harness.report import text
from harness.report.data import frame, quotient
from harness.report.text import Columns

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

_CASE = ["implementation", "problem", "scenario", "n", "options"]
"""What was run."""
_PLACE = [*Machine.__struct_fields__, "device", "dtype", "threads"]
"""Where and how: times of two places are never set against each other."""
QUANTITIES = ("forward", "gradient")


class Change(NamedTuple):
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
        """New median over old; NaN where the old one is 0."""
        return quotient(self.new_s, self.old_s)

    def __str__(self) -> str:
        return f"{text.seconds(self.old_s)} → {text.seconds(self.new_s)} ({text.times(self.ratio)})"


def compare(old: Iterable[Record], new: Iterable[Record]) -> pd.DataFrame:
    """Compare two sets of records.

    Args:
        old: the reference.
        new: what is judged.

    Returns:
        One row per case of either set, most urgent verdict first:
            case_id: the case; where two cases only resemble each other, the new one.
            verdict: the more urgent of forward and gradient, or why there is none: broken (was ok, is not), mended,
                unknown (something is not recorded), not comparable, only in old, only in new.
            reason: what differs, what is missing, duplicates; empty where the figures say it all.
            forward, gradient: a `Change` each; None where there is none.
    """
    before, after = _pooled(old), _pooled(new)
    both = before.merge(after, on=[*_CASE, *_PLACE], how="outer", suffixes=("_old", "_new"), indicator=True)
    found = [_judged(pair) for pair in both[both["_merge"] == "both"].to_dict("records")]
    alone = [both[both["_merge"] == side].drop(columns="_merge") for side in ("left_only", "right_only")]
    found += _unmatched(*alone)
    lines = [dict.fromkeys(QUANTITIES) | line for line in found]
    made = pd.DataFrame(lines, columns=["case_id", "verdict", "reason", *QUANTITIES], dtype=object)
    made["verdict"] = pd.Categorical(made["verdict"], VERDICTS, ordered=True)
    return made.sort_values(["verdict", "case_id"], ignore_index=True)


def change(old: Sequence[float], new: Sequence[float]) -> Change:
    """Judge one quantity from its samples, seconds, at least one on each side."""
    from scipy.stats import mannwhitneyu

    before, after = Samples(list(old)), Samples(list(new))
    p = float(mannwhitneyu(new, old, alternative="two-sided").pvalue)
    less, more = sorted((before.median, after.median))
    beyond = more > (1.0 + MINIMUM_EFFECT) * less
    noisy = max(before.spread, after.spread) > NOISY_SPREAD
    verdict: Verdict = "same"
    if beyond and p < LEVEL / 2 and not (noisy and _overlap(before.quartiles, after.quartiles)):
        verdict = "slower" if after.median > before.median else "faster"
    elif beyond or noisy:
        verdict = "ambiguous"
    return Change(verdict, before.median, after.median, p)


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether two interquartile ranges do: a rank test of many samples tells apart two moods of a busy machine."""
    return one[0] <= other[1] and other[0] <= one[1]


_COLUMNS: Columns = {
    "case": ("case_id", str),
    "verdict": ("verdict", lambda verdict: text.Markdown(f"**{verdict}**" if verdict in REGRESSIONS else verdict)),
    "forward": ("forward", lambda change: str(change or text.DASH)),
    "gradient": ("gradient", lambda change: str(change or text.DASH)),
    "remarks": ("reason", str),
}


def markdown(comparisons: pd.DataFrame) -> str:
    """The comparison as a page."""
    return f"# New against old\n\n{summary(comparisons)}\n\n{text.frame_table(comparisons, _COLUMNS)}\n"


def summary(comparisons: pd.DataFrame) -> str:
    """How many cases got each verdict, and what a verdict takes."""
    counts = comparisons["verdict"].value_counts(sort=False)
    numbers = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count) or "nothing to compare"
    return (
        f"{numbers}. Slower or faster: the medians differ by more than {MINIMUM_EFFECT:.0%} and a Mann-Whitney test "
        f"tells the samples apart (level {LEVEL:.0%} for a case); where the spread is above {NOISY_SPREAD:.0%}, the "
        "interquartile ranges must be apart as well. Ambiguous: the medians differ, or the spread is that large, and "
        "this does not hold. The more urgent of forward and gradient is the case's verdict."
    )


def _pooled(records: Iterable[Record]) -> pd.DataFrame:
    """One row per case and place: the newest record of each round, their samples, the first failure, a note."""
    held = frame(records)
    held["accelerator"] = held["accelerator"].mask(held["device"] == "cpu", "none")
    held["cpu_quota"] = held["cpu_quota"].map(lambda quota: "none" if pd.isna(quota) else f"{quota:g}").astype(str)
    for name in ("processor", "cores", "accelerator"):
        held[name] = held[name].astype(object).replace("", pd.NA).fillna(UNKNOWN)
    key = [*_CASE, *_PLACE]
    newest = held.drop_duplicates([*key, "round"], keep="last").sort_values("round", kind="stable")
    repeats = held.groupby(key).size() - newest.groupby(key).size()
    failed = newest[newest["outcome"] != "ok"].drop_duplicates(key).set_index(key)
    samples = newest.groupby(key)[[f"{quantity}_samples_s" for quantity in QUANTITIES]].agg(_joined)
    made = samples.assign(case_id=newest.groupby(key)["case_id"].last(), repeats=repeats)
    return made.join(failed[["outcome", "reason"]]).reset_index()


def _joined(samples: pd.Series) -> tuple[float, ...]:
    return tuple(chain.from_iterable(samples.dropna()))


def _judged(pair: dict[Any, Any]) -> dict[str, Any]:
    """The comparison of one case at one place."""
    notes = [f"{note} ({name})" for name in ("old", "new") if (note := _repeats(pair[f"repeats_{name}"]))]
    verdict, reasons, changes = _verdict(pair)
    return {"case_id": pair["case_id_new"], "verdict": verdict, "reason": "; ".join([*reasons, *notes]), **changes}


def _verdict(pair: dict[Any, Any]) -> tuple[Verdict, list[str], dict[str, Change]]:
    unknown = [name for name in _PLACE if pair[name] == UNKNOWN]
    if unknown:
        return "unknown", [f"{', '.join(unknown)} not recorded"], {}
    before, after = ("ok" if pd.isna(pair[f"outcome_{name}"]) else pair[f"outcome_{name}"] for name in ("old", "new"))
    if (before, after) != ("ok", "ok"):
        words = f"{before} → {after}" + (
            "" if pd.isna(pair["reason_new"]) else f": {text.one_line(pair['reason_new'])}"
        )
        if "ok" in (before, after):
            return "broken" if before == "ok" else "mended", [words], {}
        return "unknown", [f"no timings: {words}"], {}
    samples = {quantity: [pair[f"{quantity}_samples_s_{name}"] for name in ("old", "new")] for quantity in QUANTITIES}
    missing = [
        f"no {quantity} samples in {name}"
        for quantity, sides in samples.items()
        for name, side in zip(("old", "new"), sides, strict=True)
        if not side
    ]
    if missing:
        return "unknown", missing, {}
    changes = {quantity: change(*sides) for quantity, sides in samples.items()}
    return min((c.verdict for c in changes.values()), key=VERDICTS.index), [], changes


def _repeats(count: int) -> str:
    return f"{count} duplicate{'s' * (count > 1)} left out, the newest of each round counts" if count else ""


def _unmatched(old: pd.DataFrame, new: pd.DataFrame) -> list[dict[str, Any]]:
    """Cases without an exact partner: beside the one that resembles them most, or alone."""
    pairs = new.reset_index().merge(old.reset_index(), on=_CASE, suffixes=("", "_there"))
    differing = pd.DataFrame({name: pairs[name] != pairs[f"{name}_there"] for name in _PLACE}, index=pairs.index)
    found = []
    taken: dict[str, set[int]] = {"index": set(), "index_there": set()}
    for k in differing.sum(axis=1).sort_values(kind="stable").index:
        pair = pairs.loc[k]
        if not any(pair[side] in used for side, used in taken.items()):
            found.append(_not_comparable(pair, [name for name in _PLACE if differing.loc[k, name]]))
            for side, used in taken.items():
                used.add(pair[side])
    for name, cases, used in (("new", new, taken["index"]), ("old", old, taken["index_there"])):
        for case in cases.drop(index=used).to_dict("records"):
            note = _repeats(case[f"repeats_{name}"])
            found.append({"case_id": case[f"case_id_{name}"], "verdict": f"only in {name}", "reason": note})
    return found


def _not_comparable(pair: pd.Series, differing: Sequence[str]) -> dict[str, Any]:
    sides = {name: (pair[f"{name}_there"], pair[name]) for name in differing}
    verdict = "unknown" if any(UNKNOWN in values for values in sides.values()) else "not comparable"
    words = ", ".join(f"{name} ({old}, {new})" for name, (old, new) in sides.items())
    return {"case_id": pair["case_id_new"], "verdict": verdict, "reason": f"{verdict}: {words}"}
