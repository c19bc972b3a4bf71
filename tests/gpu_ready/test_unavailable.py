"""Asked for cuda where there is none, every row says so and nothing gets a time."""

import pytest

from harness import measure, registry
from harness.plan import Narrowing, plan
from harness.records import Record
from harness.runner import Runner, Settings

pytestmark = pytest.mark.skipif(bool(measure.cuda_devices()), reason="there is a CUDA device here")


@pytest.fixture(scope="module")
def records() -> dict[str, Record]:
    asked = Narrowing(ns=(100,), devices=("cuda",))
    planned = plan("quick", registry.names(), asked)
    with Runner(Settings(budget_s=0.0), "no-gpu") as runner:
        return {finished.record.implementation: finished.record for finished in runner.run(planned)}


@pytest.mark.parametrize("name", registry.names())
def test_cuda_without_a_device_is_no_cpu_time(name: str, records: dict[str, Record]) -> None:
    record = records[name]
    assert record.device == "cuda"
    assert record.outcome in ("unavailable", "unsupported")
    assert record.reason
    assert record.forward_s is None
    assert record.gradient_s is None
    assert record.forward_samples_s is None
    assert record.gradient_samples_s is None
    assert record.is_expected
