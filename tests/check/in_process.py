"""A fake checked in this process, as a worker checks it in its own."""

from __future__ import annotations

import functools
from typing import Any

from fake_cases import fake, planned

from harness.check.check import RefusedError, build, checked, checked_all
from harness.check.oracle import references
from harness.check.outcomes import outcome_of, reason_of
from harness.check.reference import Reference
from harness.contract import registry
from harness.contract.protocol import Case, Dtype, Implementation
from harness.contract.records import Result


@functools.cache
def right(scenario: str, n: int, dtype: Dtype) -> list[Reference]:
    """What is right for a scenario."""
    return list(references(scenario, n, dtype))


@functools.cache
def row(name: str) -> type[Implementation]:
    """The class of a fake."""
    return registry.load(fake(name))


def judged(name: str, n: int = 100, **fields: Any) -> Result:
    """The result of a fake, whatever becomes of it; `fields` as of a case."""
    case = planned(name, n, **fields).case
    try:
        return _checked(case, row(name))
    except RefusedError as error:
        return error.result
    except Exception as error:
        return Result(outcome=outcome_of(error, case), reason=reason_of(error, case))


def compiled(row: type[Implementation], reference: Reference, case: Case) -> Implementation:
    """A row built and called once, as before every check: one that keeps something of a call has it by then."""
    built = build(row, reference, case)
    x = built.to_device(reference.positions)
    built.compile_forward(x)
    built.compile_gradient(x)
    return built


def _checked(case: Case, row: type[Implementation]) -> Result:
    inputs = right(case.scenario, case.n, case.dtype)
    if len(inputs) != 1:
        return checked_all(row, inputs, case)
    (reference,) = inputs
    return checked(compiled(row, reference, case), reference, case)[0]
