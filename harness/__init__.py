"""The benchmark harness: everything that is the same for all implementations. Imports no framework."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["load_results"]


def load_results(*paths: str | os.PathLike[str]) -> pd.DataFrame:
    """Records as a frame, one row per machine and case.

    Of several runs of a case the newest counts; its rounds are pooled, and a failed one stands for all.

    Args:
        paths: folders, searched for *.jsonl, and files of records.

    Returns:
        The fields of docs/record_schema.md that are one value, and what follows from them. Seconds end in `_s`, bytes
        in `_bytes`; times are medians, NaN unless every round ended ok. Numbers are float64, counts Int64, words
        string, flags boolean: a whole number stays one where others are missing.

    Raises:
        ValueError: no path is given; or, as `RecordsError`, a path is missing or holds what is no record.
    """
    from harness.contract.store import read_records
    from harness.report.data import cases

    if not paths:
        raise ValueError("load_results() names no records; give it a folder, such as results/")
    return cases(read_records(map(Path, paths)))
