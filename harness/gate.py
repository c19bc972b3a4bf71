"""The gate: does everything that was checked agree, with the oracle and with each other?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from harness.agreement import pairwise, tolerance
from harness.hard_cases import HARD_SCENARIO
from harness.plan import Planned
from harness.problem import FloatArray, Problem
from harness.protocol import Case
from harness.records import Record, case_id
from harness.registry import row_name
from harness.runner import Finished, Runner


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


def _record_problems(records: Sequence[Record], required: set[str]) -> Iterable[str]:
    for record in records:
        if not record.is_expected or (record.implementation in required and record.outcome != "ok"):
            yield f"{record.case_id}: {record.outcome}: {record.reason}"
    if not any(record.outcome == "ok" for record in records):
        yield "nothing was checked: no case ended ok"


def _pairwise_problems(case: Case, gradients: dict[str, FloatArray], scale: float) -> Iterable[str]:
    """Two rows within the tolerance of the oracle are within twice that of each other."""
    limit = 2.0 * tolerance(Problem.of_size(case.n), case.dtype)
    for (a, b), difference in pairwise(gradients, scale).items():
        if not difference <= limit:
            yield f"{a} and {b} differ by {difference:.1e} on {case.scenario}, N = {case.n:,}, {case.dtype}"
