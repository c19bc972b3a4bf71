"""What a run and its worker processes say to each other."""

from __future__ import annotations

import msgspec

from harness.contract.protocol import Case, Description
from harness.contract.records import Result


class CheckRequest(msgspec.Struct, kw_only=True, tag="check"):
    """Check cases of one row, one after the other.

    The worker ends early, after a result that nobody expects, since what a failure leaves behind is not for the next
    case: the parent asks another worker for the rest.

    Attributes:
        cases: alike but for scenario and n.
        references: file of the oracle's references for each case.
        gradients: folder for the gradients; see `gradient_file`.
    """

    cases: list[Case]
    references: list[str]
    gradients: str


class TimeRequest(msgspec.Struct, kw_only=True, tag="time"):
    """Check one case and time it.

    Attributes:
        case: what to run.
        references: file of the oracle's references for it.
        budget_s: seconds for the samples of the forward pass and of the gradient, each.
    """

    case: Case
    references: str
    budget_s: float


class Request(msgspec.Struct):
    """What the parent asks of a worker."""

    work: CheckRequest | TimeRequest


class Message(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line from the worker, about the first case that has no result yet: exactly one field is set."""

    phase: str | None = None
    description: Description | None = None
    result: Result | None = None


def gradient_file(folder: str, number: int) -> str:
    """Where a worker leaves the gradient of the case of this number, an .npy file, before it sends the result."""
    return f"{folder}/gradient-{number}.npy"
