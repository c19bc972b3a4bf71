"""Which outcome an exception is, and in which words."""

from __future__ import annotations

import errno
import os
import re
import traceback
from pathlib import Path

from harness.contract import registry
from harness.contract.extras import missing_module
from harness.contract.problem import InvalidPositionsError
from harness.contract.protocol import CapacityOverflowError, Case, UnavailableError
from harness.contract.records import Outcome

_OUT_OF_MEMORY = re.compile(
    r"RESOURCE_EXHAUSTED|out of memory|not enough memory|bad_alloc|(can't|cannot|failed to|unable to) allocate", re.I
)

_NO_SPACE = re.compile("|".join(re.escape(os.strerror(number)) for number in (errno.ENOSPC, errno.EDQUOT)), re.I)


def is_no_space(words: str) -> bool:
    """Whether words of an error say that the disk is full, which is no row's fault."""
    return _NO_SPACE.search(words) is not None


def outcome_of(error: BaseException, case: Case) -> Outcome:
    """Which of the closed list an exception is."""
    if isinstance(error, UnavailableError | ModuleNotFoundError):
        own = (getattr(error, "name", None) or "").split(".")[0] in ("harness", "implementations")
        return "error" if own else "unavailable"
    if isinstance(error, InvalidPositionsError):
        return "invalid-input"
    if isinstance(error, CapacityOverflowError):
        return "overflow"
    if is_no_space(str(error)):
        return "harness-error"
    if isinstance(error, MemoryError):
        return "out-of-memory-host"
    if _OUT_OF_MEMORY.search(str(error)):
        return "out-of-memory-device" if case.device == "cuda" else "out-of-memory-host"
    return "error"


def reason_of(error: BaseException, case: Case) -> str:
    """The error's own words, and for an unforeseen one the innermost line of the implementation that it passed."""
    if isinstance(error, ModuleNotFoundError):
        return missing_module(error)
    words = f"{type(error).__name__}: {error}".strip()[:2000]
    if isinstance(error, UnavailableError | ImportError | InvalidPositionsError | CapacityOverflowError):
        return words
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if registry.is_source_of(case.implementation, frame.filename)]
    return f"{words} (at {Path(own[-1].filename).name}:{own[-1].lineno})" if own else words
