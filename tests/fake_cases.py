"""The fakes by name, as cases of a plan, their records, and the processes of a command that runs them."""

import json
import shutil
from pathlib import Path

import psutil

from harness.contract.protocol import Case
from harness.contract.records import Record, case_id
from harness.contract.registry import ROOT
from harness.run.plan import Planned

FAKES = Path(__file__).parent / "harness" / "fakes"
LIMIT_S = 4.0


def fake(name):
    return str(FAKES / f"{name}.py")


def planned(name, n=50, number=0, scenario="published", **fields):
    return Planned(Case(implementation=fake(name), scenario=scenario, n=n, **fields), number)


def made_record(name="right", n=10, **fields):
    """A record that no process made; ok where `fields` say nothing else."""
    case = {key: fields.pop(key) for key in ("dtype", "device", "threads") if key in fields}
    case = planned(name, n, **case).case
    return Record(
        **{"outcome": "ok", **fields},
        case_id=case_id(case),
        implementation=name,
        scenario=case.scenario,
        n=n,
        device=case.device,
        dtype=case.dtype,
        threads=case.threads,
    )


def strictly(path):
    """Every line of a records file, parsed as JSON that has no NaN or Infinity."""

    def refuse(constant):
        raise AssertionError(f"{constant} in {path}")

    return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


def copy_of_harness(folder):
    """The package as it lies in a checkout or an installation, in another folder."""
    shutil.copytree(ROOT / "harness", folder / "harness", ignore=shutil.ignore_patterns("__pycache__"))


def marked(mark):
    """Living processes with this TEST_MARK: the command's own, and children that it was given on purpose for."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TEST_MARK") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found
