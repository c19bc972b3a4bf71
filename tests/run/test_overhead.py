"""A long run costs no more than its cases: the parent's memory stays flat."""

import psutil
import pytest
from fake_cases import planned

from harness.run.runner import TimeRunner
from harness.run.settings import TimeSettings


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_parent_memory_is_flat_over_a_thousand_cases():
    resident = []
    with TimeRunner(TimeSettings(budget_s=0.0), "test") as runner:
        for finished in runner.run(planned("right", 2, number) for number in range(1000)):
            assert finished.record.outcome == "ok"
            resident.append(psutil.Process().memory_info().rss)
    assert resident[-1] - resident[100] < 2 << 20
