"""The gate of the segment operations, run in a process of its own because they import frameworks."""

from __future__ import annotations

import importlib
import io
import os
import sys
import tempfile
from pathlib import Path

import msgspec

from harness.contract.encoding import encode
from harness.contract.protocol import Case
from harness.run import caches
from harness.run.child import child_environment
from harness.run.process import supervise

_LIMIT_S = 300.0
_MEMORY_LIMIT_BYTES = 8 << 30
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


def check_segments() -> tuple[list[SegmentCheck], list[str]]:
    """Check every operation at small N.

    Returns:
        The checks, and what is wrong, one line each; a framework that is not installed is not wrong.
    """
    case = Case(implementation="segment_ops", scenario="published", n=0)
    with tempfile.TemporaryDirectory(prefix="pairgrad-", ignore_cleanup_errors=True) as private:
        ended = supervise(
            "harness.run.segments",
            environment=caches.shared(child_environment(case, 1, Path(private), Path(private))),
            limit_s=_LIMIT_S,
            memory_limit_bytes=_MEMORY_LIMIT_BYTES,
        )
    try:
        checks = msgspec.json.decode(ended.channel, type=list[SegmentCheck])
    except msgspec.MsgspecError:
        return [], [f"segment operations: {ended.killed or 'crashed'}: {ended.tail[-500:]}"]
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
    io.FileIO(int(sys.argv[1]), "w").write(encode(checks))
    os._exit(0)


if __name__ == "__main__":
    main()
