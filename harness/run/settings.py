"""How cases are run."""

from __future__ import annotations

import math

import msgspec

DEFAULT_LIMIT_S = 600.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How cases are run, for whatever purpose.

    Attributes:
        limit_s: wall seconds of one case.
        memory_limit_bytes: resident bytes of one case; None for 90 % of what is available.
        within_s: seconds for the whole run: no case starts later, and none goes on beyond; what is left is skipped.
        skip_larger: skip larger N of a series after an out-of-memory or a timeout, and in a check a row that hangs.
    """

    limit_s: float = DEFAULT_LIMIT_S
    memory_limit_bytes: int | None = None
    within_s: float = math.inf
    skip_larger: bool = True


class CheckSettings(Settings, frozen=True, kw_only=True):
    """How cases are checked.

    Attributes:
        jobs: worker processes at once, which share the memory that is available.
    """

    jobs: int = 1


class TimeSettings(Settings, frozen=True, kw_only=True):
    """How cases are timed: one at a time.

    Attributes:
        budget_s: seconds for the samples of each of forward and gradient.
    """

    budget_s: float
