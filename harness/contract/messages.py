"""What a run and its worker processes say to each other."""

from __future__ import annotations

import msgspec

from harness.contract.protocol import Case, Description
from harness.contract.records import Result


class Request(msgspec.Struct, kw_only=True):
    """What the parent asks of a worker.

    Attributes:
        case: what to run.
        references: file of the oracle's references for the case's scenario, n and dtype.
        budget_s: seconds for the samples of the forward pass and of the gradient, each; None checks only.
        gradient: whether to send the gradient after the result.
    """

    case: Case
    references: str
    budget_s: float | None
    gradient: bool = False


class Message(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line from the worker: exactly one field is set."""

    phase: str | None = None
    description: Description | None = None
    result: Result | None = None
