"""What a resumed run still has to do, and whether its records may stand beside those already there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from harness.contract.identity import machine, software
from harness.contract.records import RETRIED_OUTCOMES, Record, case_id
from harness.contract.registry import code_hash
from harness.run.plan import Planned
from harness.run.runner import DEADLINE_OVER


class MixedRecordsError(ValueError):
    """Earlier records were made by other code, packages, flags or on another machine; says what differs."""


def split(
    plan: Sequence[Planned], records: Iterable[Record], environment: dict[str, Any]
) -> tuple[list[Planned], list[Record]]:
    """The planned cases without a record that says anything of them, and the newest record of each of the others.

    Args:
        plan: of this run.
        records: already in the results folder, oldest first.
        environment: of this run, as `machine.environment` gives it.

    Raises:
        MixedRecordsError: a record of a planned case was made under other conditions.
    """
    newest = {(record.case_id, record.round): record for record in records}
    left, done = [], []
    for planned in plan:
        record = newest.get((case_id(planned.case), planned.round))
        if record is None or _is_to_do_again(record):
            left.append(planned)
            continue
        differences = _differences(record, planned, environment)
        if differences:
            raise MixedRecordsError(
                f"cannot resume: {record.case_id} was recorded with {'; '.join(differences)}. "
                "Give --results another folder, or run without --resume to measure everything anew"
            )
        done.append(record)
    return left, done


def _is_to_do_again(record: Record) -> bool:
    """Whether a record says nothing of its case: the run's time was over, the harness failed, nothing was timed."""
    untimed = record.outcome == "ok" and not record.gradient_samples_s
    return untimed or record.outcome in RETRIED_OUTCOMES or record.reason == DEADLINE_OVER


def _differences(record: Record, planned: Planned, environment: dict[str, Any]) -> list[str]:
    current = code_hash(planned.case.implementation)
    found = [] if record.code_hash == current else [f"code {record.code_hash}, now {current}"]
    before, now = (_conditions(each, record.device) for each in (record.environment, environment))
    for name in now:
        if before[name] != now[name]:
            found.append(f"{name} {_shortened(before[name], now[name])}, now {_shortened(now[name], before[name])}")
    return found


def _conditions(environment: dict[str, Any], device: str) -> dict[str, Any]:
    return msgspec.structs.asdict(machine(environment, device)) | software(environment, device)


def _shortened(value: Any, other: Any) -> Any:
    """Of a table only the entries that differ."""
    if isinstance(value, dict) and isinstance(other, dict):
        return {key: entry for key, entry in value.items() if other.get(key) != entry}
    return value
