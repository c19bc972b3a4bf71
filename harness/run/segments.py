"""The gate of the segment operations, run in a process of its own because they import frameworks."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import msgspec

from harness.run.child import answer, ask
from harness.run.process import Ended

_GATE = "implementations.segment_ops.agreement"


class SegmentCheck(msgspec.Struct, frozen=True):
    """One operation in one framework and dtype against its closed form, value and gradient.

    Attributes:
        scaled_diff: largest difference over the sum of the magnitudes added up; None where it is not finite.
        reason: why it does not agree; empty where it does.
    """

    op: str
    framework: str
    dtype: str
    scaled_diff: float | None
    reason: str


def check_segments(variables: Mapping[str, str] | None = None) -> tuple[list[SegmentCheck], list[str]]:
    """Check every operation at small N.

    Args:
        variables: of the environment, as in a case.

    Returns:
        The checks, and what is wrong, one line each; a framework that is not installed is not wrong.
    """
    checks = ask("harness.run.segments", of=list[SegmentCheck], variables=variables, warm=not variables)
    if isinstance(checks, Ended):
        return [], [f"segment operations: {checks.words}"]
    wrong = [
        f"{check.op} in {check.framework}, {check.dtype}: {check.reason}"
        for check in checks
        if check.reason and not check.reason.startswith(ModuleNotFoundError.__name__)
    ]
    if all(check.reason for check in checks):
        wrong.append("segment operations: nothing was checked")
    return checks, wrong


def main() -> None:
    """`python -m harness.run.segments CHANNEL`."""
    found = importlib.import_module(_GATE).check()
    checks = [
        SegmentCheck(each.op, each.framework, each.dtype, each.scaled_diff if each.ok else None, each.reason)
        for each in found
    ]
    answer(checks)


if __name__ == "__main__":
    main()
