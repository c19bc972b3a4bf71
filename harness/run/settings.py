"""How cases are run."""

from __future__ import annotations

import math

import msgspec

DEFAULT_LIMIT_S = 600.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How cases are run.

    Attributes:
        budget_s: seconds for the samples of each of forward and gradient; None checks without timing.
        limit_s: wall seconds of one case.
        memory_limit_bytes: resident bytes of one case; 0 for 90 % of what is available, shared by the jobs.
        within_s: seconds for the whole run: no case starts later, and none goes on beyond; what is left is skipped.
        skip_larger: skip larger N of a series after an out-of-memory or a timeout, and in a check, after a timeout, all
            that is left of the row.
        gradients: hand back gradients too.
        jobs: cases at once; more than one only where nothing is timed.

    Raises:
        ValueError: several jobs with a budget for samples.
    """

    budget_s: float | None = None
    limit_s: float = DEFAULT_LIMIT_S
    memory_limit_bytes: int = 0
    within_s: float = math.inf
    skip_larger: bool = True
    gradients: bool = False
    jobs: int = 1

    def __post_init__(self) -> None:
        if self.jobs > 1 and self.budget_s is not None:
            raise ValueError(f"{self.jobs} jobs would disturb each other's times; only a check runs several")
