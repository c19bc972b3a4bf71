"""The plan of a check: every scenario, grouped by what one process may do."""

from itertools import groupby

import pytest

from harness.contract.records import case_id
from harness.contract.scenario import Scenario
from harness.problems.sph2d import SCENARIOS
from harness.run import machine, plan
from harness.run.plan import Narrowing, check_plan


def test_cases_of_one_row_and_dtype_follow_each_other():
    cases = [planned.case for planned in check_plan(["a", "b"])]
    groups = [key for key, _ in groupby((case.implementation, case.dtype) for case in cases)]
    assert groups == [("a", "float64"), ("a", "float32"), ("b", "float64"), ("b", "float32")]
    assert [case.scenario for case in cases] == [*SCENARIOS] * 4
    assert {case.threads for case in cases} == {len(machine.available_cores())}


@pytest.mark.parametrize(
    ("narrowing", "wanted"),
    [
        (Narrowing(ns=(10, 20, 10)), [("published", 10), ("published", 20), ("clustered", 10), ("clustered", 20)]),
        (Narrowing(scenarios=("clustered",)), [("clustered", 1000)]),
        (Narrowing(scenarios=("hard",), ns=(10, 20)), []),
    ],
)
def test_a_number_of_particles_is_for_the_scenarios_that_have_one(narrowing, wanted):
    cases = [planned.case for planned in check_plan(["a"], narrowing) if planned.case.dtype == "float64"]
    hard = [("hard", 0)] if not narrowing.scenarios or "hard" in narrowing.scenarios else []
    assert [(case.scenario, case.n) for case in cases] == wanted + hard
    assert len({case_id(case) for case in cases}) == len(cases)


def test_a_scenario_that_is_not_sized_needs_no_name_of_its_own(monkeypatch):
    """What is special of the hard inputs is said by their scenario, not known by the plan."""
    other = {"many": Scenario(lambda n: [], timed=False, sized=False)}
    monkeypatch.setattr(plan, "SCENARIOS", other)
    (case, _) = (planned.case for planned in check_plan(["a"], Narrowing(scenarios=("many",), ns=(10, 20))))
    assert (case.scenario, case.n) == ("many", 0)
