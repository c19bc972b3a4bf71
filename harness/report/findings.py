"""The findings page: the study's claims against the records, and what the study left open.

Every number is computed from the records; where they do not say, it is "not measured".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from harness.report import documents, tables, text
from harness.report.claims import (
    CELLS,
    CELLS_ADJOINT,
    ENZYME,
    MILLION,
    REFUTED,
    SCALAR_ENZYME,
    Finding,
    Scope,
    findings,
)
from harness.report.data import Setting, beside, fastest_first, main_settings, over, where
from harness.report.published import published
from harness.report.text import Columns, Markdown

GROWTH_FROM, GROWTH_TO, GROWTH_LIMIT = 10_000, MILLION, 1.6
CLUSTERED_LIMIT = 1.5
HAND_WRITTEN = ((CELLS_ADJOINT, CELLS), ("warp_adjoint", "warp_autodiff"), (SCALAR_ENZYME, ENZYME))
"""Rows with a hand-written adjoint, each with the row that differentiates the same forward pass automatically."""


def markdown(cases: pd.DataFrame) -> str:
    """The findings page."""
    settings = main_settings(cases)
    machines = {setting.machine: [s for s in settings if s.machine == setting.machine] for setting in settings}
    return documents.render(
        "findings.md",
        machine=published().machine,
        machines=[(name, where(cases, machine=name), scopes(cases, found)) for name, found in machines.items()],
        claims_table=claims_table,
        sections=sections,
    )


def scopes(cases: pd.DataFrame, settings: Iterable[Setting]) -> dict[str, Scope]:
    """The scopes of one machine's settings by device, the CPU's even where it was not measured."""
    found = {setting.device: Scope(cases, setting) for setting in settings}
    first = next(iter(found.values())).setting
    return {"cpu": Scope(cases, first._replace(device="cpu", hardware="CPU")), **found}


def claims_table(scopes: dict[str, Scope]) -> Markdown:
    """Findings as a table, the verdict in bold where the study is contradicted."""
    return text.table(("claim", "the study", "here", "verdict"), [_cells(finding) for finding in findings(scopes)])


def _cells(finding: Finding) -> list[str]:
    verdict = Markdown(f"**{finding.verdict}**") if finding.verdict == REFUTED else finding.verdict
    return [finding.claim, finding.study, finding.found, verdict]


def sections(scope: Scope) -> dict[str, str | None]:
    """What the study does not claim: cost against effort, hand-written adjoints, growth, clustered input."""
    return {
        "What each row leaves on the table": cost(scope),
        "What a hand-written adjoint buys": hand_written(scope),
        f"Time per particle from N = {GROWTH_FROM:,} to {GROWTH_TO:,}": growth(scope),
        f"Clustered input, N = {tables.CLUSTERED_N:,}": clustered(scope),
    }


def cost(scope: Scope) -> Markdown | None:
    """Gradient over the best row's and lines of code, at the largest N measured."""
    timed = scope.all(timed=True)
    if timed.empty:
        return None
    n = timed["n"].max()
    one = scope.all(n=n, threads=1)[["implementation", "x_of_best"]]
    shown = fastest_first(scope.all(n=n)).merge(one, on="implementation", how="left", suffixes=("", "_1_thread"))
    if scope.setting.threads == 1:
        shown["x_of_best_1_thread"] = float("nan")
    columns: Columns = {
        "implementation": ("title", str),
        "adjoint": ("adjoint", text.words),
        "gradient": ("gradient_s", text.seconds),
        "x of best row": ("x_of_best", text.times),
        "x of best row, 1 thread": ("x_of_best_1_thread", text.times),
        "lines, forward": ("lines_forward", text.count),
        "lines, adjoint": ("lines_adjoint", text.count),
        "remarks": ("remarks", Markdown),
    }
    return Markdown(f"N = {n:,}.\n\n{text.frame_table(tables.remarked(shown), columns)}")


def hand_written(scope: Scope) -> Markdown | None:
    """Hand-written adjoints beside automatic ones, each at the largest N that both were timed at."""
    rows = pd.DataFrame(HAND_WRITTEN, columns=["implementation", "implementation_other"])
    timed = scope.all(timed=True)
    # the order of the pairs is kept, and the last of each is the largest
    pairs = rows.merge(beside(timed, timed, on="n"), how="left").dropna(subset="n")
    pairs = pairs.drop_duplicates(list(rows), keep="last")
    if pairs.empty:
        return None
    columns: Columns = {
        "hand-written": ("title", str),
        "automatic": ("title_other", str),
        "N": ("n", text.count),
        "hand-written: gradient": ("gradient_s", text.seconds),
        "automatic: gradient": ("gradient_s_other", text.seconds),
        "time": ("time", text.times),
        "memory": ("memory", text.times),
        "hand-written: lines of adjoint": ("lines_adjoint", text.count),
        "automatic: lines of adjoint": ("lines_adjoint_other", text.count),
    }
    pairs = pairs.assign(time=_ratio(pairs, "gradient_s"), memory=_ratio(pairs, "peak_bytes"))
    return text.frame_table(pairs, columns)


def growth(scope: Scope) -> Markdown | None:
    """Time per particle at the larger N over that at the smaller, and what grew."""
    small, large = (scope.all(n=n, timed=True) for n in (GROWTH_FROM, GROWTH_TO))
    pairs = beside(fastest_first(large), small)
    if pairs.empty:
        return None
    pairs = pairs.assign(
        growth=_ratio(pairs, "gradient_s_per_particle"),
        slots=_ratio(pairs, "slots_per_particle"),
        time=_ratio(pairs, "gradient_s_per_slot"),
    )
    columns: Columns = {
        "implementation": ("title", str),
        f"N = {GROWTH_FROM:,}": ("gradient_s_per_particle_other", text.seconds),
        f"N = {GROWTH_TO:,}": ("gradient_s_per_particle", text.seconds),
        "growth": ("growth", text.times),
        "of which slots per particle": ("slots", text.times),
        "of which time per slot": ("time", text.times),
        "remarks": ("remarks", str),
    }
    return text.frame_table(pairs.assign(remarks=[_growth_remark(pair) for pair in pairs.itertuples()]), columns)


def _ratio(pairs: pd.DataFrame, column: str) -> pd.Series:
    return over(pairs[column], pairs[f"{column}_other"])


def _growth_remark(pair: Any) -> str:
    """Why a row grows faster than the limit, as far as the records tell."""
    if not pair.growth > GROWTH_LIMIT:
        return ""
    above = f"above {text.times(GROWTH_LIMIT)}: "
    if pair.slots > pair.growth**0.5:
        return above + "mostly more slots per particle, whose number follows the fullest cell or the list's capacity"
    memory = f"{text.size(pair.peak_bytes)} at the larger N against {text.size(pair.peak_bytes_other)}"
    return f"{above}mostly time per slot; {memory}"


def clustered(scope: Scope) -> Markdown | None:
    """Time per true pair on the clustered input over that on the published one, the least affected row first."""
    even, uneven = (scope.all(n=tables.CLUSTERED_N, scenario=s) for s in (scope.setting.scenario, "clustered"))
    pairs = beside(even, uneven)
    grown = over(pairs["gradient_s_per_pair_other"], pairs["gradient_s_per_pair"])
    pairs = pairs.assign(grown=grown).dropna(subset="grown").sort_values("grown", kind="stable")
    if pairs.empty:
        return None
    words = pairs["title"] + " " + pairs["grown"].map(text.times)
    within, above = ("; ".join(words[mask]) or "none" for mask in (grown <= CLUSTERED_LIMIT, grown > CLUSTERED_LIMIT))
    limit = text.times(CLUSTERED_LIMIT)
    return documents.render("clustered.md", limit=limit, within=within, above=above)
