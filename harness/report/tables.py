"""The markdown tables. Each takes cases and returns text; what is missing is a dash, a failure stays in its place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from harness.report import text
from harness.report.data import Setting, beside, fastest_first, over, select, setting_of, where
from harness.report.published import AGREEMENT_N, PublishedAgreement, PublishedTiming, published
from harness.report.text import Columns, Markdown

CLUSTERED_N = 100_000

TIMING_COLUMNS: Columns = {
    "implementation": ("label", str),
    "forward": ("forward_s", text.seconds),
    "gradient": ("gradient_s", text.seconds),
    "gradient / forward": ("gradient_over_forward", text.times),
    "x of best row": ("x_of_best", text.times),
    "search slots": ("search_slots", text.count),
    "pair slots": ("pair_slots", text.count),
    "true pairs": ("true_pairs", text.count),
    "slots / true pair": ("slots_per_pair", text.number),
    "compile": ("compile_s", text.seconds),
    "peak memory": ("peak_bytes", text.size),
    "spread": ("spread", text.per_cent),
    "samples": ("samples", str),
    "remarks": ("remarks", Markdown),
}
SHORT_TIMING_COLUMNS = {
    header: column
    for header, column in TIMING_COLUMNS.items()
    if header not in ("search slots", "true pairs", "slots / true pair", "spread", "samples")
}
AGREEMENT_COLUMNS: Columns = {
    "implementation": ("label", str),
    "loss": ("loss", text.exact),
    "‖g‖₂": ("grad_norm", text.norm),
    "max rel. diff": ("max_rel_diff", text.difference),
    "remarks": ("remarks", Markdown),
}
_ROW_COLUMNS: Columns = {
    "implementation": ("title", str),
    "name": ("implementation", text.code),
    "neighbours": ("neighbours", str),
    "adjoint": ("adjoint", str),
    "pair slots are": ("slots_are", str),
    "threads": ("multithreaded", lambda many: "many" if many else "one"),
    "flags that change values": ("fast_math", text.words),
    "lines, forward": ("lines_forward", text.count),
    "lines, adjoint": ("lines_adjoint", text.count),
}
_MACHINE_COLUMNS: Columns = {
    "machine": ("machine", str),
    "memory": ("memory_bytes", text.size),
    "accelerator": ("accelerators", lambda names: "none" if pd.isna(names) else names),
    "system": ("os", text.words),
    "Python": ("python", text.words),
    "packages": ("packages", text.words),
    "measured": ("dates", str),
    "commit": ("commits", str),
    "records": ("records", text.count),
}


def remarks(cases: pd.DataFrame, timing: bool = True) -> list[Markdown]:
    """What a reader must know about each row: its failure and why, or what qualifies its numbers."""
    return [_remark(case, timing) for case in cases.itertuples()]


def _remark(case: Any, timing: bool) -> Markdown:
    if not case.ok:
        why = "" if pd.isna(case.reason) else f": {text.markdown(text.one_line(case.reason))}"
        return Markdown(f"**{case.outcome}**{why}")
    more = case.device == "cpu" and case.threads > 1
    notes = (
        ("noisy", timing and _is_true(case.noisy)),
        (f"{case.recompilations} recompilations while sampling", timing and _is_true(case.recompilations)),
        (f"{case.reallocations} reallocations", _is_true(case.reallocations)),
        ("one thread", timing and more and not case.multithreaded),
    )
    return Markdown(", ".join(note for note, holds in notes if holds))


def _is_true(value: Any) -> bool:
    return not pd.isna(value) and bool(value)


def remarked(cases: pd.DataFrame, timing: bool = True) -> pd.DataFrame:
    """Cases with columns of remarks and of numbers of samples, as text."""
    counts = zip(cases["forward_samples"].fillna(0), cases["gradient_samples"].fillna(0), strict=True)
    samples = [" + ".join(str(count) for count in pair if count) or text.DASH for pair in counts]
    return cases.assign(samples=samples, remarks=remarks(cases, timing))


def agreement(cases: pd.DataFrame) -> Markdown:
    """The study's table "Same gradient from all": cases of one N and setting, the study's own lines below."""
    studied = select(cases, n=AGREEMENT_N, scenario="published", dtype="float64")
    below = [_study_agreement(line) for line in published().agreement] if len(studied) else []
    shown = remarked(cases.sort_values("implementation", kind="stable"), timing=False)
    return text.frame_table(shown, AGREEMENT_COLUMNS, below)


def timing(cases: pd.DataFrame, columns: Columns = TIMING_COLUMNS) -> Markdown:
    """Cases of one N and setting, fastest gradient first, failures last; the study's own lines below."""
    below = [study_timing_cells(line, columns) for line in study_timings(setting_of(cases), cases["n"].iloc[0])]
    return text.frame_table(remarked(fastest_first(cases)), columns, below)


def study_timings(setting: Setting, n: int) -> list[PublishedTiming]:
    """What the study printed for a setting: it ran float64 on its own input, one device at a time."""
    if (setting.dtype, setting.scenario) != ("float64", "published"):
        return []
    return [line for line in published().timings if (line.device, line.n) == (setting.device, n)]


def study_timing_cells(line: PublishedTiming, columns: Iterable[str]) -> list[Markdown]:
    """A line of the study under our headers, in italics."""
    cells = {
        "implementation": f"study: {line.system}",
        "N": text.count(line.n),
        "forward": text.seconds(line.forward_s),
        "gradient": text.seconds(line.gradient_s),
        "gradient / forward": text.times(line.gradient_over_forward),
        "pair slots": line.pair_slots or text.DASH,
        "compile": text.seconds(line.compile_s),
        "remarks": f"**failed**: {text.markdown(line.failure)}" if line.failure else "its own machine",
    }
    return [_italic(cells.get(column, text.DASH)) for column in columns]


def study_only(device: str) -> Markdown:
    """The study's timings on a device that was not measured here."""
    headers = ("implementation", "N", "forward", "gradient", "gradient / forward", "pair slots", "compile", "remarks")
    lines = [line for line in published().timings if line.device == device]
    return text.table(headers, [study_timing_cells(line, headers) for line in lines])


def machines(records: pd.DataFrame) -> Markdown:
    """Every machine of a frame of records: what it is, what ran on it and when."""
    groups = records.groupby("machine")
    said = {"dates": groups.apply(dates), "commits": groups.apply(commits), "records": groups.size()}
    return text.frame_table(groups.last().assign(**said).reset_index(), _MACHINE_COLUMNS)


def dates(records: pd.DataFrame) -> str:
    """First and last day of measuring."""
    days = records["timestamp"].str[:10].loc[lambda day: day != ""]
    return text.DASH if days.empty else " to ".join(dict.fromkeys((days.min(), days.max())))


def commits(records: pd.DataFrame) -> str:
    """Commits the records were made from, in order of time; see `commit_name`."""
    made = records.sort_values("timestamp", kind="stable").dropna(subset="commit").drop_duplicates(["commit", "dirty"])
    return ", ".join(dict.fromkeys(map(commit_name, made["commit"], made["dirty"]))) or text.DASH


def commit_name(commit: str, dirty: bool) -> str:
    """A commit for readers; a plus sign where sources had been changed since."""
    return commit[:10] + ("+" if dirty else "")


def implementations(cases: pd.DataFrame) -> Markdown:
    """What each row is, in its own words, and its lines of code: from the newest case that has both, if any has."""
    described = cases.dropna(subset="neighbours").assign(counted=lambda f: f["lines_forward"].notna())
    ordered = described.sort_values(["implementation", "counted", "timestamp"])
    return text.frame_table(ordered.drop_duplicates("implementation", keep="last"), _ROW_COLUMNS)


def threads(cases: pd.DataFrame, setting: Setting, n: int) -> Markdown | None:
    """One thread beside all of them; None where only one of the two was measured."""
    if setting.threads == 1:
        return None
    every, one = (select(cases, **s._asdict(), n=n) for s in (setting, setting._replace(threads=1)))
    columns: Columns = {
        "implementation": ("title", str),
        "1 thread: gradient": ("gradient_s_other", text.seconds),
        "1 thread: x of best row": ("x_of_best_other", text.times),
        f"{setting.threads} threads: gradient": ("gradient_s", text.seconds),
        f"{setting.threads} threads: x of best row": ("x_of_best", text.times),
        "speed-up": ("ratio", text.times),
        "remarks": ("remarks", Markdown),
    }
    return _pairs(every, one, columns)


def clustered(cases: pd.DataFrame, setting: Setting) -> Markdown | None:
    """The clustered input beside the published one, at N = 1e5; None where it was not measured."""
    even, uneven = (
        select(cases, **s._asdict(), n=CLUSTERED_N) for s in (setting, setting._replace(scenario="clustered"))
    )
    columns: Columns = {
        "implementation": ("title", str),
        "published: slots / true pair": ("slots_per_pair", text.number),
        "clustered: slots / true pair": ("slots_per_pair_other", text.number),
        "published: peak memory": ("peak_bytes", text.size),
        "clustered: peak memory": ("peak_bytes_other", text.size),
        "published: gradient": ("gradient_s", text.seconds),
        "clustered: gradient": ("gradient_s_other", text.seconds),
        "published: gradient / true pair": ("gradient_s_per_pair", text.seconds),
        "clustered: gradient / true pair": ("gradient_s_per_pair_other", text.seconds),
        "ratio": ("ratio", text.times),
        "remarks": ("remarks", Markdown),
    }
    return _pairs(even, uneven, columns, "gradient_s_per_pair", by="gradient_s_other")


def precision(cases: pd.DataFrame, setting: Setting, n: int) -> Markdown | None:
    """float32 beside float64; None where it was not measured."""
    double, single = (select(cases, **s._asdict(), n=n) for s in (setting, setting._replace(dtype="float32")))
    columns: Columns = {
        "implementation": ("title", str),
        "float64: gradient": ("gradient_s", text.seconds),
        "float32: gradient": ("gradient_s_other", text.seconds),
        "float32 / float64": ("ratio", text.times),
        "float64: peak memory": ("peak_bytes", text.size),
        "float32: peak memory": ("peak_bytes_other", text.size),
        "float32: max rel. diff": ("max_rel_diff_other", text.difference),
        "remarks": ("remarks", Markdown),
    }
    return _pairs(double, single, columns, slower="float32 is slower")


def _pairs(
    left: pd.DataFrame,
    right: pd.DataFrame,
    columns: Columns,
    of: str = "gradient_s",
    *,
    by: str = "gradient_s",
    slower: str = "",
) -> Markdown | None:
    """Rows beside themselves under other conditions, a failure's remarks first; None where no row has both.

    Args:
        left, right: cases, at most one of each row.
        columns: of the table; those of the right end in `_other`.
        of: whose right value over the left one is the column `ratio`.
        by: column to sort by.
        slower: a remark on rows whose `ratio` is above 1.
    """
    pairs = beside(remarked(left), remarked(right)).sort_values([by, "label"])
    if pairs.empty:
        return None
    pairs["ratio"] = over(pairs[f"{of}_other"], pairs[of])
    said = pairs["remarks"].where(pairs["ok_other"], pairs["remarks_other"])
    if slower:
        said = said + (pairs["ratio"] > 1.0).map({True: f", {slower}", False: ""})
    return text.frame_table(pairs.assign(remarks=said.str.removeprefix(", ")), columns)


def variants(cases: pd.DataFrame, setting: Setting, n: int) -> Markdown | None:
    """Rows with an option changed, beside the row itself; None where there are none."""
    here = where(cases, **setting._asdict(), n=n)
    shown = here[here.groupby("implementation")["variant"].transform("max") != ""]
    if shown.empty:
        return None
    columns: Columns = {
        "implementation": ("title", str),
        "option": ("effective_options", str),
        "capacity": ("capacity", text.count),
        **{h: TIMING_COLUMNS[h] for h in ("pair slots", "slots / true pair", "peak memory", "forward", "gradient")},
        "reallocations": ("reallocations", text.count),
        "remarks": ("remarks", Markdown),
    }
    return text.frame_table(remarked(shown.sort_values(["implementation", "effective_options"], key=_natural)), columns)


def _natural(column: pd.Series) -> pd.Series:
    """Words in whose order 2 stands before 10."""
    return column.str.replace(r"\d+(\.\d+)?", lambda number: f"{float(number[0]):030.9f}", regex=True)


def _study_agreement(line: PublishedAgreement) -> list[Markdown]:
    words = (f"study: {line.system}", line.loss, line.grad_norm, line.max_rel_diff)
    return [_italic(cell) for cell in (*words, "as printed; difference to Enzyme.jl")]


def _italic(cell: str) -> Markdown:
    return Markdown(cell if cell == text.DASH else f"*{cell}*")
