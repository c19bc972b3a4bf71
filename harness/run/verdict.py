"""The verdict: does everything that was checked agree, with the oracle and with each other?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from harness.check.judgement import accusers, largest_difference, tolerance
from harness.check.reference import Reference
from harness.contract.protocol import Case
from harness.contract.records import EXPECTED_OUTCOMES, Record, case_id
from harness.contract.registry import row_name
from harness.run.plan import Planned
from harness.run.runner import CheckRunner, Finished


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found.

    Attributes:
        agree: whether the build may pass.
        problems: why not, one line each.
        compared: what was compared with what, one line each.
        records: one per planned case.
    """

    agree: bool
    problems: list[str]
    compared: list[str]
    records: list[Record]


def reach(
    runner: CheckRunner,
    plan: Sequence[Planned],
    required: Iterable[str] = (),
    on_finished: Callable[[Planned, Finished], None] = lambda planned, finished: None,
) -> Verdict:
    """Check a plan and judge the outcome.

    Args:
        runner: to check with.
        plan: the cases.
        required: rows that must have been checked: for them even an expected outcome other than ok is a problem.
        on_finished: called after each case.
    """
    records: list[Record] = []
    inputs: dict[str, _SameInput] = {}
    for planned, finished in zip(plan, runner.run(plan), strict=True):
        records.append(finished.record)
        on_finished(planned, finished)
        if finished.gradient is not None:
            key = case_id(msgspec.structs.replace(planned.case, implementation=""))
            inputs.setdefault(key, _SameInput(planned.case)).finished.append(finished)
    problems = _record_problems(records, {row_name(name) for name in required})
    compared = [f"{sum(record.outcome == 'ok' for record in records)} of {len(records)} cases agree with the oracle"]
    for same in inputs.values():
        (reference,) = runner.references.of(same.case)
        problems += same.accusations(reference)
        compared += same.compared(reference)
    return Verdict(agree=not problems, problems=problems, compared=compared, records=records)


class _SameInput:
    """What rows returned for one input, which is compared across them.

    Attributes:
        case: one of those with this input.
        finished: cases, one of each row, that have a gradient.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.finished: list[Finished] = []

    def compared(self, reference: Reference) -> list[str]:
        """A line on how far rows that agree with the oracle differ from each other."""
        right = [each.gradient for each in self.finished if each.record.outcome == "ok" and each.gradient is not None]
        if len(right) < 2:
            return []
        apart = largest_difference(right, reference.gradient_scale)
        return [f"{self._input}: gradients of {len(right)} rows differ from each other by {apart:.1e} at most"]

    def accusations(self, reference: Reference) -> list[str]:
        """A line for the loss and for the gradient, if most rows agree on another than the oracle's."""
        name = {each.record.implementation: each for each in self.finished}
        losses = {n: np.array(f.record.loss) for n, f in name.items() if f.record.loss is not None}
        gradients = {n: f.gradient for n, f in name.items() if f.gradient is not None}
        return [
            *self._accusation("loss", losses, np.array(reference.loss), abs(reference.loss), reference),
            *self._accusation("gradient", gradients, reference.gradient, reference.gradient_scale, reference),
        ]

    def _accusation(
        self, what: str, values: dict[str, np.ndarray], right: np.ndarray, scale: float, reference: Reference
    ) -> Iterable[str]:
        names = accusers(values, right, scale, tolerance(reference.problem, self.case.dtype))
        if not names:
            return
        apart = largest_difference([values[name] for name in names], scale)
        off = largest_difference([values[names[0]], right], scale)
        yield (
            f"{self._input}: the oracle may be wrong: {what} of {len(names)} of {len(values)} rows differs from it by "
            f"{off:.1e} and from each other by {apart:.1e} ({', '.join(names)})"
        )

    @property
    def _input(self) -> str:
        return f"{self.case.scenario}, N = {self.case.n:,}, {self.case.dtype}, {self.case.device}"


def problems_of(wrong: Iterable[Record], records: Iterable[Record]) -> list[str]:
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


def nothing_timed(records: Iterable[Record], names: Iterable[str]) -> list[str]:
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


def _record_problems(records: Sequence[Record], required: set[str]) -> list[str]:
    wrong = [r for r in records if not r.is_expected or (r.implementation in required and r.outcome != "ok")]
    if any(record.outcome == "ok" for record in records):
        return problems_of(wrong, records)
    return [*problems_of(wrong, records), "nothing was checked: no case ended ok"]
