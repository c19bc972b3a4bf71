"""The store of records: a file that never loses one, and reading any number of folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from harness.contract import output
from harness.contract.encoding import encode
from harness.contract.records import SCHEMA_VERSION, Record

RESULTS = Path("results")
"""Committed records, where a command is given no folder of them."""
LOCAL_RESULTS = RESULTS / "local"
"""Untracked records; whoever reads all of `RESULTS` leaves these out."""


class RecordsError(ValueError):
    """A records file that cannot be read; names the file, the line and the way out."""


class RecordFile:
    """A JSON-lines file that parses at any moment, however the process ends, and holds every record added so far.

    It is written by one process only. Nothing exists before the first record.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, record: Record) -> None:
        """Append one record durably.

        Raises:
            OSError: the disk is full or not writable; the file still holds all earlier records.
        """
        earlier = self.path.read_bytes() if self.path.exists() else b""
        output.write(self.path, earlier + encode(record) + b"\n")


def read_records(folders: Iterable[Path]) -> list[Record]:
    """All records of files and folders (searched for *.jsonl), oldest first.

    Raises:
        RecordsError: a path is missing, a line does not parse, or was written by a newer schema.
    """
    records = [record for path in files(folders, ".jsonl") for record in read_file(path)]
    return sorted(records, key=lambda record: record.timestamp)


def read_file(path: Path) -> list[Record]:
    """All records of one JSON-lines file; blank lines are none. Raises as `read_records`."""
    records = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = msgspec.json.decode(line, type=Record)
        except msgspec.MsgspecError as error:
            raise RecordsError(f"{path}, line {number}: not a record ({error}); mend or remove the line") from error
        if record.schema_version > SCHEMA_VERSION:
            raise RecordsError(
                f"{path}, line {number}: schema version {record.schema_version} is newer than {SCHEMA_VERSION}; "
                "read it with the pairgrad that wrote it"
            )
        records.append(record)
    return records


def files(folders: Iterable[Path], suffix: str) -> Iterator[Path]:
    """The files of folders whose names end so, searched in depth, and every file or pipe named itself.

    Hidden files are left out, and of `RESULTS` what lies in `LOCAL_RESULTS`.

    Raises:
        RecordsError: a path is missing.
    """
    for folder in folders:
        if folder.is_dir():
            left_out = folder / LOCAL_RESULTS.name if folder.resolve() == RESULTS.resolve() else None
            found = sorted(path for path in folder.rglob(f"*{suffix}") if not path.name.startswith("."))
            yield from (path for path in found if left_out not in path.parents)
        elif folder.exists():
            yield folder
        else:
            raise RecordsError(f"{folder} is neither a file nor a folder of records")
