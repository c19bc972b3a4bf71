"""One rule says what makes a machine the same, and resume, compare, env and the reports all follow it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.contract import identity
from harness.contract.records import Record, case_id
from harness.contract.registry import code_hash
from harness.report.compare import compare
from harness.report.data import cases
from harness.run.plan import Planned
from harness.run.resume import MixedRecordsError, split

NOW: dict[str, Any] = {
    "processor": "AMD EPYC",
    "cores": 16,
    "cpu_quota": None,
    "memory_bytes": 25_276_502_016,
    "memory_limit_bytes": None,
    "os": "Linux-6.18.44-fc-v669-x86_64-with-glibc2.36",
    "python": "3.11.7",
    "packages": {"numpy": "2.4.6"},
    "flags": {},
    "cuda_devices": [{"name": "Large Card", "uuid": "GPU-1", "memory_bytes": 80 << 30, "driver": "600.1"}],
    "commit": "0123",
    "dirty": False,
}
LARGE = NOW["cuda_devices"][0]

SAME = {
    "a reboot": {"memory_bytes": NOW["memory_bytes"] + 4096},
    "a kernel update": {"os": "Linux-6.18.45-fc-v857-x86_64-with-glibc2.36"},
    "another card of the kind": {"cuda_devices": [LARGE | {"uuid": "GPU-2"}]},
    "a job that was given another card": {"flags": {"CUDA_VISIBLE_DEVICES": "3"}},
    "an earlier record": {"cpu_quota": None, "memory_limit_bytes": None},
    "a limit of memory": {"memory_limit_bytes": 8 << 30},
    "a commit that changes no measuring code": {"commit": "4567", "dirty": True},
}
OTHER_MACHINE = {
    "processor": {"processor": "Another CPU"},
    "cores": {"cores": 8},
    "cpu_quota": {"cpu_quota": 1.5},
    "accelerator": {"cuda_devices": [LARGE | {"name": "Small Card"}]},
}
OTHER_SOFTWARE = {
    "os": {"os": "Linux-5.15.0-91-generic-x86_64-with-glibc2.36"},
    "C library": {"os": "Linux-6.18.44-fc-v669-x86_64-with-glibc2.41"},
    "python": {"python": "3.12.1"},
    "packages": {"packages": {"numpy": "2.0.0"}},
    "flags": {"flags": {"OPENBLAS_CORETYPE": "HASWELL"}},
    "driver": {"cuda_devices": [LARGE | {"driver": "500.0"}]},
}


def record(environment: dict[str, Any], device: str = "cuda", **fields: Any) -> Record:
    samples = [1.0, 1.01, 1.02, 1.03, 1.04]
    made = Record(
        timestamp="2026-01-02T03:04:05+00:00",
        implementation="warp_adjoint",
        scenario="published",
        n=1000,
        device=device,
        dtype="float64",
        threads=2,
        outcome="ok",
        device_name=environment["cuda_devices"][0]["name"] if device == "cuda" else environment["processor"],
        forward_samples_s=samples,
        gradient_samples_s=samples,
        forward_s=1.02,
        gradient_s=1.02,
        environment=environment,
        code_hash=code_hash("warp_adjoint"),
        **fields,
    )
    return msgspec.structs.replace(made, case_id=case_id(made.case))


def resumed(before: Record, now: dict[str, Any]) -> None:
    """Continue from a record; raises where it was made under other conditions."""
    assert split([Planned(before.case, 0)], [before], now) == ([], [before])


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_what_wavers_makes_no_other_machine(change: dict[str, Any]) -> None:
    before, now = NOW | change, NOW
    assert identity.machine(before, "cuda") == identity.machine(now, "cuda")
    resumed(record(before), now)
    assert list(compare([record(before)], [record(now)])["verdict"]) == ["same"]
    assert len(cases([record(before), record(now)])) == 1


@pytest.mark.parametrize("change", OTHER_MACHINE.values(), ids=OTHER_MACHINE)
def test_another_machine_is_another_to_all(change: dict[str, Any]) -> None:
    before, now = NOW | change, NOW
    assert identity.machine(before, "cuda") != identity.machine(now, "cuda")
    with pytest.raises(MixedRecordsError, match="cannot resume"):
        resumed(record(before), now)
    assert list(compare([record(before)], [record(now)])["verdict"]) == ["not comparable"]
    assert len(cases([record(before), record(now)])) == 2


@pytest.mark.parametrize("change", OTHER_SOFTWARE.values(), ids=OTHER_SOFTWARE)
def test_other_software_on_the_same_machine_is_compared_but_not_resumed(change: dict[str, Any]) -> None:
    before = NOW | change
    with pytest.raises(MixedRecordsError, match="cannot resume"):
        resumed(record(before), NOW)
    assert list(compare([record(before)], [record(NOW)])["verdict"]) == ["same"]


def test_an_accelerator_does_not_matter_to_a_case_on_the_processor() -> None:
    """A job without a card, on a node that has some, goes on with what a job with one began."""
    without = NOW | {"cuda_devices": []}
    resumed(record(NOW, "cpu"), without)
    assert list(compare([record(NOW, "cpu")], [record(without, "cpu")])["verdict"]) == ["same"]


def test_records_made_before_quotas_were_recorded_have_none() -> None:
    old = {name: value for name, value in NOW.items() if name not in ("cpu_quota", "memory_limit_bytes")}
    resumed(record(old), NOW)


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"processor": "AMD EPYC", "cores": 2}, "AMD EPYC, 2 cores"),
        ({"processor": "AMD EPYC", "cores": 1}, "AMD EPYC, 1 core"),
        ({"processor": "AMD EPYC", "cores": 4, "cpu_quota": 1.5}, "AMD EPYC, 4 cores, quota of 1.5"),
        ({"cores": 2}, "unknown processor, 2 cores"),
        ({}, "unknown processor"),
    ],
)
def test_name_of_a_machine(environment: dict[str, Any], name: str) -> None:
    assert identity.machine(environment).name == name


def test_two_settings_of_one_case_are_never_mixed() -> None:
    plain, given = record(NOW), record(NOW, variables={"NUMBA_OPT": "2"})
    assert set(compare([plain], [given])["verdict"]) == {"only in old", "only in new"}
    assert list(cases([plain, given])["variant"]) == ["", "$NUMBA_OPT=2"]
