"""Records of any number of machines as frames: what the tables, the figures and `harness.load_results` show."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pandas as pd

from harness.contract import identity, output
from harness.contract.names import number_name
from harness.contract.records import Record
from harness.contract.samples import NOISY_SPREAD, Samples


class Computer(NamedTuple):
    """What computed: a machine's processor or its accelerator; fields as in `Setting`."""

    machine: str
    hardware: str
    device: str


class Setting(NamedTuple):
    """What cases must have in common to stand in one table.

    Attributes:
        machine: processor and number of cores.
        hardware: what computed: the processor ("CPU") or the accelerator's name.
        device: cpu or cuda.
        dtype, threads, scenario: of the case.
    """

    machine: str
    hardware: str
    device: str
    dtype: str
    threads: int
    scenario: str


SETTING = list(Setting._fields)
CASE = [*SETTING, "n", "implementation", "options"]
"""What tells one case on one machine from another."""
_ORDER = ["machine", "device", "hardware", "scenario", "dtype", "threads", "n", "implementation", "variant"]

_STRING = pd.StringDtype("python")  # the same with pyarrow and without
_DTYPES = {str: _STRING, int: "Int64", float: "float64", bool: "boolean"}
_SAMPLES = ("forward_samples_s", "gradient_samples_s")
_FROM_RECORD: dict[str, Any] = {"outcome": _STRING} | {
    field.name: dtype
    for field in msgspec.structs.fields(Record)
    for plain, dtype in _DTYPES.items()
    if field.type in (plain, plain | None)
}
_FROM_ELSEWHERE: dict[str, Any] = {
    **dict.fromkeys(("title", "neighbours", "adjoint", "slots_are"), _STRING),
    **dict.fromkeys(("options", "effective_options", "variant"), _STRING),
    **dict.fromkeys(("machine", "hardware", "processor", "os", "python", "packages", "commit"), _STRING),
    **dict.fromkeys(("accelerator", "accelerators"), _STRING),
    **dict.fromkeys(("cores", "memory_bytes"), "Int64"),
    "cpu_quota": "float64",
    **dict.fromkeys(("multithreaded", "dirty", "is_expected"), "boolean"),
    **dict.fromkeys(_SAMPLES, "object"),
}


def frame(records: Iterable[Record]) -> pd.DataFrame:
    """One row per record, oldest first: its plain fields, its description, its machine, and its samples as lists."""
    dtypes = _FROM_RECORD | _FROM_ELSEWHERE
    made = pd.DataFrame([_flat(record) for record in records], columns=list(dtypes), dtype="object")
    return made.astype(dtypes).sort_values("timestamp", kind="stable", ignore_index=True)


def cases(records: Iterable[Record]) -> pd.DataFrame:
    """One row per machine and case, as `harness.load_results` describes it."""
    every = frame(records)
    every["title"] = every.groupby("implementation")["title"].transform("last").fillna(every["implementation"])
    newest = every.drop_duplicates([*CASE, "round"], keep="last")
    newest = newest[newest["code_hash"] == newest.groupby(CASE)["code_hash"].transform("last")]
    failed = newest["outcome"] != "ok"
    # of the rounds the last stands for the case, or the last that failed
    made = newest.assign(failed=failed).sort_values("failed", kind="stable").drop_duplicates(CASE, keep="last")
    made = _pooled(made.set_index(CASE), newest).reset_index()
    return made.assign(**_DERIVED).sort_values(_ORDER, key=_rank, ignore_index=True)


def by_setting(cases: pd.DataFrame) -> Iterator[tuple[Setting, pd.DataFrame]]:
    """The cases of each setting, the study's own setting first: float64, published, every core."""
    for key, group in cases.groupby(SETTING, sort=False):
        yield Setting(*key), group


def setting_of(cases: pd.DataFrame) -> Setting:
    """The setting of cases that share one."""
    return Setting(*cases[SETTING].iloc[0])


def where(cases: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Cases whose columns have these values."""
    return cases[pd.DataFrame({name: cases[name] == value for name, value in values.items()}).all(axis=1)]


def select(cases: pd.DataFrame, **values: object) -> pd.DataFrame:
    """The same without variants, unless one is asked for."""
    return where(cases, **{"variant": "", **values})


def fastest_first(cases: pd.DataFrame) -> pd.DataFrame:
    """By gradient; what has none last."""
    return cases.sort_values(["gradient_s", "label"])


def beside(left: pd.DataFrame, right: pd.DataFrame, on: str = "implementation") -> pd.DataFrame:
    """Cases of the left with those of the right that share a value; the right's columns end in `_other`."""
    return left.merge(right, on=on, suffixes=("", "_other"))


def main_settings(cases: pd.DataFrame) -> list[Setting]:
    """The study's setting on each machine and its hardware: float64, published, as many threads as were used there."""
    found = cases[(cases["dtype"] == "float64") & (cases["scenario"] == "published")]
    first = found.drop_duplicates(["machine", "hardware"])[SETTING]
    return [Setting(*row) for row in first.itertuples(index=False)]


def plotted_settings(cases: pd.DataFrame) -> list[Setting]:
    """Those of the main settings where anything was timed: each has its figures."""
    return [s for s in main_settings(cases) if select(cases, **s._asdict())["timed"].any()]


def quotient(numerator: float, denominator: float) -> float:
    """Quotient of two numbers; NaN where there is nothing to divide by."""
    return numerator / denominator if denominator else float("nan")


def over(numerator: pd.Series, denominator: pd.Series) -> pd.Series:
    """Quotient; NaN where either is missing or there is nothing to divide by."""
    below = denominator.astype("float64")
    return numerator.astype("float64") / below.where(below > 0.0)


def compile_s(records: pd.DataFrame) -> pd.Series:
    """Seconds to compile the forward pass and the gradient; of one where the other is missing."""
    return records[["compile_forward_s", "compile_gradient_s"]].sum(axis=1, min_count=1)


def export(cases: pd.DataFrame, path: Path) -> None:
    """Write cases to a file in the form that its suffix names.

    Raises:
        ValueError: another suffix, or a package that the form needs is missing.
        OSError: the file cannot be written.
    """
    if path.suffix not in EXPORTS:
        raise ValueError(f"{path.name!r} names no form to export to; end it in {', '.join(EXPORTS)}")
    output.write(path, EXPORTS[path.suffix](cases))


def _csv(cases: pd.DataFrame) -> bytes:
    return cases.to_csv(index=False, lineterminator="\n").encode()


def _json(cases: pd.DataFrame) -> bytes:
    """One object per case; not with pandas, which cuts numbers to 15 decimals."""
    return msgspec.json.encode(cases.astype(object).where(cases.notna(), None).to_dict("records")) + b"\n"


def _parquet(cases: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    try:
        cases.to_parquet(buffer, index=False, engine="pyarrow")
    except ImportError as error:
        raise ValueError(
            "parquet needs pyarrow: pip install 'pairgrad[parquet]', or export to .csv or .json"
        ) from error
    return buffer.getvalue()


EXPORTS: Mapping[str, Callable[[pd.DataFrame], bytes]] = {".csv": _csv, ".parquet": _parquet, ".json": _json}
"""Suffix -> what writes it."""


def _flat(record: Record) -> dict[str, Any]:
    described, environment = record.description, record.environment
    defaults = described.options if described else {}
    changed = {k: v for k, v in record.options.items() if defaults.get(k) != v}
    variables = [f"${name}={value}" for name, value in sorted(record.variables.items())]
    name = None if record.device == "cpu" else record.device_name or identity.accelerator(environment)
    found = {name: getattr(record, name) for name in (*_FROM_RECORD, *_SAMPLES)}
    known = ("processor", "cores", "cpu_quota", "memory_bytes", "os", "python", "commit")
    found |= {name: environment.get(name) for name in known}
    if described:
        found |= {name: getattr(described, name) for name in ("title", "neighbours", "adjoint")}
    return found | {
        "slots_are": described.pair_slots if described else None,
        "multithreaded": described is None or described.multithreaded,
        "options": ", ".join([f"{k}={number_name(v)}" for k, v in sorted(record.options.items())] + variables),
        "effective_options": ", ".join(_option_words({**defaults, **record.options}) + variables),
        "variant": ", ".join(_option_words(changed) + variables),
        "machine": identity.machine(environment).name,
        "hardware": "CPU" if record.device == "cpu" else name or record.device,
        "accelerator": name,
        "accelerators": ", ".join(str(each.get("name")) for each in environment.get("cuda_devices") or ()) or None,
        "packages": ", ".join(f"{k} {v}" for k, v in sorted((environment.get("packages") or {}).items())) or None,
        "dirty": bool(environment.get("dirty")),
        "is_expected": record.is_expected,
    }


def _option_words(options: Mapping[str, float]) -> list[str]:
    return [f"{name.replace('_', ' ')} {number_name(value)}" for name, value in sorted(options.items())]


def _pooled(made: pd.DataFrame, rounds: pd.DataFrame) -> pd.DataFrame:
    """Cases, indexed by `CASE`, with the statistics of all their rounds' samples; without any where a round failed."""
    for name in ("forward", "gradient"):
        lists = rounds.set_index(CASE)[f"{name}_samples_s"].loc[lambda held: held.str.len() > 0]
        pooled = lists.groupby(level=CASE).agg(lambda some: Samples(list(chain.from_iterable(some))))
        samples = pooled.reindex(made.index[~made["failed"]]).dropna()
        made[f"{name}_samples"] = samples.map(lambda each: len(each.seconds)).reindex(made.index).astype("Int64")
        for column, statistic in ((f"{name}_s", "median"), (f"{name}_iqr_s", "iqr")):
            values = samples.map(lambda each, statistic=statistic: getattr(each, statistic)).astype("float64")
            made[column] = values.reindex(made.index).fillna(made[column]).mask(made["failed"])
    return made.drop(columns=[*_SAMPLES, "failed", "round"])


_DERIVED: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "ok": lambda f: (f["outcome"] == "ok").astype("boolean"),
    "timed": lambda f: f["gradient_s"].notna().astype("boolean"),
    "label": lambda f: f["title"] + (", " + f["variant"]).where(f["variant"] != "", ""),
    "compile_s": compile_s,
    "gradient_over_forward": lambda f: over(f["gradient_s"], f["forward_s"]),
    "slots_per_pair": lambda f: over(f["pair_slots"], f["true_pairs"]),
    "slots_per_particle": lambda f: over(f["pair_slots"], f["n"]),
    "gradient_s_per_particle": lambda f: over(f["gradient_s"], f["n"]),
    "gradient_s_per_pair": lambda f: over(f["gradient_s"], f["true_pairs"]),
    "gradient_s_per_slot": lambda f: over(f["gradient_s"], f["pair_slots"]),
    "x_of_best": lambda f: over(f["gradient_s"], f.groupby([*SETTING, "n"])["gradient_s"].transform("min")),
    "peak_bytes": lambda f: f["peak_host_bytes"].where(
        f["device"] == "cpu", f["peak_device_bytes"].replace(0, pd.NA).fillna(f["driver_device_bytes"])
    ),
    "spread": lambda f: pd.DataFrame(
        {name: over(f[f"{name}_iqr_s"], f[f"{name}_s"]) for name in ("forward", "gradient")}
    ).max(axis=1),
    "noisy": lambda f: f["noisy"].mask(f["gradient_samples"].notna(), f["spread"] > NOISY_SPREAD),
}


def _rank(column: pd.Series) -> pd.Series:
    """What a column is sorted by: published and float64 before all others, many threads before few."""
    first = {"scenario": "published", "dtype": "float64"}.get(str(column.name))
    return -column if column.name == "threads" else column.mask(column == first, "") if first else column
