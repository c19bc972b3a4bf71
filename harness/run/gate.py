"""The gate: does everything that was checked agree, with the oracle and with each other?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from harness.check.hard_cases import HARD_SCENARIO
from harness.check.judgement import pairwise, tolerance
from harness.contract.problem import FloatArray, Problem
from harness.contract.protocol import Case
from harness.contract.records import EXPECTED_OUTCOMES, Record, case_id
from harness.contract.registry import row_name
from harness.run.plan import Planned
from harness.run.runner import Finished, Runner


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate found.

    Attributes:
        agree: whether the build may pass.
        problems: why not, one line each.
        records: one per planned case.
    """

    agree: bool
    problems: list[str]
    records: list[Record]


def check(
    runner: Runner,
    plan: Sequence[Planned],
    required: Iterable[str] = (),
    on_finished: Callable[[Planned, Finished], None] = lambda planned, finished: None,
) -> Verdict:
    """Run a plan without timing it and judge the outcome.

    Args:
        runner: with settings that hand gradients back.
        plan: the cases.
        required: rows that must have been checked: for them even an expected outcome other than ok is a problem.
        on_finished: called after each case.
    """
    records: list[Record] = []
    inputs: dict[str, dict[str, FloatArray]] = defaultdict(dict)
    cases: dict[str, Case] = {}
    for planned, finished in zip(plan, runner.run(plan), strict=True):
        records.append(finished.record)
        on_finished(planned, finished)
        case = planned.case
        if finished.gradient is not None and case.scenario != HARD_SCENARIO:
            key = case_id(msgspec.structs.replace(case, implementation=""))
            inputs[key][row_name(case.implementation)] = finished.gradient
            cases[key] = case
    problems = [*_record_problems(records, {row_name(name) for name in required})]
    for key, gradients in inputs.items():
        problems += _pairwise_problems(cases[key], gradients, runner.gradient_scale(cases[key]))
    return Verdict(agree=not problems, problems=problems, records=records)


def told(wrong: Iterable[Record], records: Iterable[Record]) -> list[str]:
    """What is wrong, one line for each row and reason: its case, or how many of the row's cases share it.

    Args:
        wrong: records that are a problem.
        records: these and all others of the run.
    """
    cases = Counter(record.implementation for record in records)
    alike: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in wrong:
        alike[record.implementation, f"{record.outcome}: {record.reason}"].append(record)
    return [f"{_where(found, cases[name])}: {words}" for (name, words), found in alike.items()]


def _where(found: Sequence[Record], cases: int) -> str:
    if len(found) == 1:
        return found[0].case_id
    share = f"all {cases}" if len(found) == cases else f"{len(found)} of {cases}"
    return f"{found[0].implementation}, in {share} cases"


def untimed(records: Iterable[Record], names: Iterable[str]) -> list[str]:
    """A line for each of these rows all of whose cases are unsupported or unavailable.

    Args:
        records: of the run.
        names: of rows, or module paths.
    """
    outcomes: dict[str, set[str]] = defaultdict(set)
    for record in records:
        outcomes[record.implementation].add(record.outcome)
    return [
        f"{name}: nothing was timed: {' and '.join(sorted(outcomes[name]))}"
        for name in map(row_name, names)
        if outcomes[name] and outcomes[name] <= EXPECTED_OUTCOMES - {"ok"}
    ]


def _record_problems(records: Sequence[Record], required: set[str]) -> Iterable[str]:
    wrong = [r for r in records if not r.is_expected or (r.implementation in required and r.outcome != "ok")]
    yield from told(wrong, records)
    if not any(record.outcome == "ok" for record in records):
        yield "nothing was checked: no case ended ok"


def _pairwise_problems(case: Case, gradients: dict[str, FloatArray], scale: float) -> Iterable[str]:
    """Two rows within the tolerance of the oracle are within twice that of each other."""
    limit = 2.0 * tolerance(Problem.of_size(case.n), case.dtype)
    for (a, b), difference in pairwise(gradients, scale).items():
        if not difference <= limit:
            yield f"{a} and {b} differ by {difference:.1e} on {case.scenario}, N = {case.n:,}, {case.dtype}"
