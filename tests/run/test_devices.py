"""Two cards, of which one computes: every figure is that one's, whatever words chose it. The driver is a stand-in."""

import sys
from types import SimpleNamespace

import pytest
from fake_cases import planned

from harness.contract.protocol import Case
from harness.contract.records import Result
from harness.run import machine, memory
from harness.run.child import child_environment
from harness.run.runner import Answer, CheckRunner
from harness.run.settings import CheckSettings
from harness.run.worker import _parallel_units

GIB = 1 << 30
SMALL = SimpleNamespace(uuid="GPU-1111aaaa-0000", name="Small Card", total=8 * GIB, used=1 * GIB, cores=20 * 128)
LARGE = SimpleNamespace(uuid="GPU-2222bbbb-0000", name="Large Card", total=80 * GIB, used=5 * GIB, cores=132 * 128)
PART = SimpleNamespace(uuid="MIG-3333cccc-0000", name="Large Card MIG 1g", total=10 * GIB, used=2 * GIB, cores=None)


class RefusedError(Exception):
    """As pynvml's NVMLError."""


def by_uuid(uuid):
    for card in (SMALL, LARGE, PART):
        if card.uuid == uuid:
            return card
    raise RefusedError("not found")


def number_of_cores(card):
    if card.cores is None:
        raise RefusedError("not supported")
    return card.cores


@pytest.fixture(autouse=True)
def driver(monkeypatch):
    """A driver with two cards in the order of the bus, the second cut into parts."""
    cards = [SMALL, LARGE]
    nvml = SimpleNamespace(
        NVMLError=RefusedError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: len(cards),
        nvmlDeviceGetHandleByIndex=lambda index: cards[index],
        nvmlDeviceGetHandleByUUID=by_uuid,
        nvmlDeviceGetUUID=lambda card: card.uuid,
        nvmlDeviceGetName=lambda card: card.name,
        nvmlDeviceGetMemoryInfo=lambda card: SimpleNamespace(total=card.total, used=card.used),
        nvmlDeviceGetNumGpuCores=number_of_cores,
        nvmlDeviceGetAttributes=lambda card: SimpleNamespace(multiprocessorCount=16),
        nvmlSystemGetDriverVersion=lambda: "600.1",
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    machine._cuda_devices.cache_clear()
    yield
    machine._cuda_devices.cache_clear()


@pytest.fixture
def see(monkeypatch):
    return lambda value: monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("0", [SMALL]),
        ("1", [LARGE]),
        ("1,0", [LARGE, SMALL]),
        (" 1 , 0 ", [LARGE, SMALL]),
        ("GPU-2222bbbb-0000", [LARGE]),
        ("GPU-2222", [LARGE]),
        ("GPU-2222,0", [LARGE, SMALL]),
        ("MIG-3333cccc-0000", [PART]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("7", []),
        ("1,7,0", [LARGE]),
        ("1,-1,0", [LARGE]),
        ("GPU-", []),
        ("GPU-9999", []),
        ("MIG-9999", []),
    ],
)
def test_words_that_choose_devices(see, value, seen):
    see(value)
    assert [device["name"] for device in machine.cuda_devices()] == [card.name for card in seen]


def test_without_a_choice_all_are_seen_and_the_first_computes():
    assert [device["uuid"] for device in machine.cuda_devices()] == [SMALL.uuid, LARGE.uuid]


@pytest.mark.parametrize(
    ("value", "card", "multiprocessors"), [("1", LARGE, 132), ("0", SMALL, 20), (PART.uuid, PART, 16)]
)
def test_every_figure_is_of_the_device_that_computes(see, value, card, multiprocessors):
    see(value)
    case = Case(implementation="right", scenario="published", n=1, device="cuda")
    first = machine.environment()["cuda_devices"][0]
    assert (first["name"], first["uuid"], first["memory_bytes"]) == (card.name, card.uuid, card.total)
    assert card.name.lower().replace(" ", "-") in machine.machine_name()
    assert memory.cuda_used_bytes() == card.used
    assert _parallel_units(case) == multiprocessors
    with CheckRunner(CheckSettings(), "test") as runner:
        record = runner._record(planned("right", device="cuda"), Answer(result=Result(outcome="ok")))
    assert record.device_name == card.name


@pytest.mark.parametrize(("value", "uuid"), [(None, SMALL.uuid), ("1", LARGE.uuid), (PART.uuid, PART.uuid), ("7", "7")])
def test_a_child_sees_that_device_alone_by_its_own_name(monkeypatch, tmp_path, value, uuid):
    """By number two cards of different speed would be told apart one way by CUDA and another way by the driver."""
    if value is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    given = child_environment("cuda", 1, tmp_path, tmp_path)
    assert (given["CUDA_VISIBLE_DEVICES"], given["CUDA_DEVICE_ORDER"]) == (uuid, "PCI_BUS_ID")
    assert child_environment("cpu", 1, tmp_path, tmp_path)["CUDA_VISIBLE_DEVICES"] == ""


def test_without_a_driver_the_caller_s_words_are_passed_on(monkeypatch, tmp_path):
    def refuse():
        raise RefusedError("driver not loaded")

    monkeypatch.setattr(sys.modules["pynvml"], "nvmlInit", refuse)
    assert machine.cuda_devices() == []
    assert "CUDA_VISIBLE_DEVICES" not in child_environment("cuda", 1, tmp_path, tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert child_environment("cuda", 1, tmp_path, tmp_path)["CUDA_VISIBLE_DEVICES"] == "1"
