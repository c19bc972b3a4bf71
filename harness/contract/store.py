"""The store of records: a file that never loses one, and reading any number of folders."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from harness.contract.records import SCHEMA_VERSION, Record

LOCAL = "local"
"""A subfolder of this name holds untracked records, read only when it is named itself."""


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
        write_atomically(self.path, earlier + msgspec.json.encode(record) + b"\n")


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file as a whole or leave it untouched."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_records(folders: Iterable[Path]) -> list[Record]:
    """All records of files and folders (searched for *.jsonl), oldest first.

    Raises:
        RecordsError: a path is missing, a line does not parse, or was written by a newer schema.
    """
    records = [record for path in files(folders, ".jsonl") for record in read_file(path)]
    return sorted(records, key=lambda record: record.timestamp)


def read_file(path: Path) -> list[Record]:
    """All records of one JSON-lines file. Raises as `read_records`."""
    records = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
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
    """The files of folders whose names end so, searched in depth, and every file named itself.

    Hidden files and the subfolder `LOCAL` are left out.

    Raises:
        RecordsError: a path is missing.
    """
    for folder in folders:
        if folder.is_file():
            yield folder
        elif folder.is_dir():
            found = sorted(path for path in folder.rglob(f"*{suffix}") if not path.name.startswith("."))
            yield from (path for path in found if path.relative_to(folder).parts[0] != LOCAL)
        else:
            raise RecordsError(f"{folder} is neither a file nor a folder of records")
