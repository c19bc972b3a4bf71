"""What rows say together: most of them against the oracle accuse it, and the verdict says what it compared."""

import msgspec
import numpy as np
import pytest
from fake_cases import planned

from harness.check import oracle
from harness.check.judgement import accusers, largest_difference
from harness.run import verdict
from harness.run.runner import CheckRunner
from harness.run.settings import CheckSettings

RIGHT = np.array([[1.0, -2.0], [0.5, 3.0]])
LIMIT = 1e-12


def reached(*names, **fields):
    with CheckRunner(CheckSettings(), "test") as runner:
        return verdict.reach(runner, [planned(name, 50, **fields) for name in names])


def break_oracle(monkeypatch, **factors):
    """Fields of every reference are off by these factors."""
    right = oracle.reference

    def wrong(*arguments):
        reference = right(*arguments)
        return msgspec.structs.replace(
            reference, **{name: getattr(reference, name) * factor for name, factor in factors.items()}
        )

    monkeypatch.setattr(oracle, "reference", wrong)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_most_rows_against_the_oracle_accuse_it(monkeypatch, what, dtype):
    break_oracle(monkeypatch, **{what: 1.001})
    found = reached("right", "noisy", "wrong_sign", dtype=dtype)
    assert not found.agree
    (accusation,) = (problem for problem in found.problems if "the oracle may be wrong" in problem)
    assert accusation.startswith(f"published, N = 50, {dtype}, cpu: the oracle may be wrong: {what} of ")
    assert "right, noisy" in accusation
    assert {record.outcome for record in found.records} == {"disagrees"}


def test_rows_that_are_wrong_each_in_its_own_way_accuse_themselves():
    found = reached("right", "wrong_sign", "wrong_scale", "wrong_zeros")
    assert len(found.problems) == 3
    assert not any("oracle" in problem for problem in found.problems)


def test_the_verdict_says_what_it_compared():
    found = reached("right", "noisy", "wrong_scale")
    assert found.compared[0] == "2 of 3 cases agree with the oracle"
    assert found.compared[1].startswith(
        "published, N = 50, float64, cpu: gradients of 2 rows differ from each other by "
    )
    assert reached("right").compared == ["1 of 1 cases agree with the oracle"]


def test_accusers_are_at_least_two_and_most():
    off, further = RIGHT * (1 + 1e-9), RIGHT * (1 - 1e-9)
    assert accusers({"a": off, "b": off, "c": RIGHT}, RIGHT, 1.0, LIMIT) == ["a", "b"]
    assert accusers({"a": off, "b": off, "c": RIGHT, "d": RIGHT}, RIGHT, 1.0, LIMIT) == []
    assert accusers({"a": off}, RIGHT, 1.0, LIMIT) == []
    assert accusers({"a": off, "b": further}, RIGHT, 1.0, LIMIT) == []
    assert accusers({"a": RIGHT, "b": RIGHT}, RIGHT, 1.0, LIMIT) == []
    assert accusers({}, RIGHT, 1.0, LIMIT) == []


def test_what_is_no_number_accuses_nobody():
    bad = np.full_like(RIGHT, np.nan)
    assert accusers({"a": bad, "b": bad}, RIGHT, 1.0, LIMIT) == []
    assert np.isnan(largest_difference([bad, RIGHT], 1.0))


def test_largest_difference_is_that_of_any_two():
    values = [RIGHT, RIGHT + 1.0, RIGHT - 2.0]
    assert largest_difference(values, 2.0) == 1.5
    assert largest_difference([RIGHT, RIGHT], 0.0) == 0.0
    assert largest_difference([np.zeros((0, 2))] * 2, 0.0) == 0.0
