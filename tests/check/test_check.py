"""The check of one row: what it returns, what it asks of the row, and what becomes of several inputs."""

import msgspec
import numpy as np
import pytest
from fake_cases import planned
from in_process import compiled, right, row

from harness.check.check import (
    PERMUTATIONS,
    RefusedError,
    build,
    checked,
    checked_all,
    permutations,
    require_still_right,
)
from harness.check.outcomes import outcome_of, reason_of
from harness.contract.problem import InvalidPositionsError
from harness.contract.protocol import CapacityOverflowError, UnavailableError

N = 40
CASE = planned("right", N).case
(REFERENCE,) = right("published", N, "float64")


def test_a_right_row_gives_its_result_and_its_gradient():
    result, gradient = checked(compiled(row("right"), REFERENCE, CASE), REFERENCE, CASE)
    assert result.outcome == "ok"
    assert (result.true_pairs, result.pair_slots) == (REFERENCE.counts.true_pairs, N**2)
    assert result.fd_diff < 1e-6
    np.testing.assert_allclose(gradient, REFERENCE.gradient, atol=1e-12 * REFERENCE.gradient_scale)


def test_no_finite_difference_is_taken_in_float32():
    case = planned("right", N, dtype="float32").case
    (reference,) = right("published", N, "float32")
    assert checked(compiled(row("right"), reference, case), reference, case)[0].fd_diff is None


def test_constructor_that_takes_no_such_option_is_told():
    case = planned("right", N, options={"capacity": 2.0}).case
    with pytest.raises(RefusedError, match=r"Right.__init__ must take \(problem, positions, device, dtype, capacity\)"):
        build(row("right"), REFERENCE, case)


def test_the_first_wrong_input_is_named_and_each_is_announced():
    small, large = REFERENCE, right("published", 1000, "float64")[0]
    references = [msgspec.structs.replace(small, name="small"), msgspec.structs.replace(large, name="large")]
    announced = []
    with pytest.raises(RefusedError) as refused:
        checked_all(row("wrong_at_large_n"), references, CASE, announced.append)
    result = refused.value.result
    assert (result.outcome, result.reason.split(" ")[:2]) == ("disagrees", ["large:", "gradient"])
    assert announced == ["small", "large"]


def test_the_result_of_several_inputs_is_the_one_furthest_off():
    references = [*right("published", N, "float64"), *right("clustered", N, "float64")]
    each = [checked_all(row("right"), [reference], CASE).scaled_diff for reference in references]
    result = checked_all(row("right"), references, CASE)
    assert (result.scaled_diff, result.reason) == (max(each), "2 inputs")


def test_an_input_that_must_be_refused_and_is_not_is_told():
    refusal = msgspec.structs.replace(REFERENCE, name="bad", refusal="position row 7 is not finite")
    with pytest.raises(RefusedError) as refused:
        checked_all(row("right"), [refusal], CASE)
    assert refused.value.result.reason == "bad: was not refused; expected: position row 7 is not finite"


def test_a_refusal_in_other_words_is_told():
    positions = REFERENCE.positions.copy()
    positions[3] = np.nan
    refusal = msgspec.structs.replace(REFERENCE, positions=positions, refusal="something else")
    with pytest.raises(RefusedError, match=r"refused with .*row 3.*; expected: something else"):
        checked_all(row("right"), [refusal], CASE)


def test_a_row_right_to_the_end_is_still_right():
    built = compiled(row("right"), REFERENCE, CASE)
    result, _ = checked(built, REFERENCE, CASE)
    order = permutations(N)[1]
    x = REFERENCE.positions[order]
    require_still_right(built, REFERENCE, CASE, (built.loss(x), built.grad(x), order), result)


def test_last_outputs_of_other_positions_are_refused():
    built = compiled(row("right"), REFERENCE, CASE)
    result, _ = checked(built, REFERENCE, CASE)
    x = REFERENCE.positions + 0.1
    x[0] += 0.3
    with pytest.raises(RefusedError, match="after the samples: "):
        require_still_right(built, REFERENCE, CASE, (built.loss(x), built.grad(x), slice(None)), result)


def test_permutations_are_always_the_same_and_of_all_particles():
    first, again = permutations(N), permutations(N)
    assert len(first) == PERMUTATIONS
    for order, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(order, same)
        np.testing.assert_array_equal(np.sort(order), np.arange(N))


@pytest.mark.parametrize(
    ("error", "device", "outcome"),
    [
        (UnavailableError("no CUDA device"), "cuda", "unavailable"),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), "cpu", "unavailable"),
        (ModuleNotFoundError("No module named 'harness.x'", name="harness.x"), "cpu", "error"),
        (ImportError("cannot import name 'x'"), "cpu", "error"),
        (InvalidPositionsError("row 7"), "cpu", "invalid-input"),
        (CapacityOverflowError("too many"), "cpu", "overflow"),
        (MemoryError(), "cpu", "out-of-memory-host"),
        (RuntimeError("RESOURCE_EXHAUSTED: 3 GB"), "cuda", "out-of-memory-device"),
        (RuntimeError("CUDA out of memory"), "cpu", "out-of-memory-host"),
        (RuntimeError("std::bad_alloc"), "cpu", "out-of-memory-host"),
        (RuntimeError("a bug"), "cpu", "error"),
        (SystemExit(0), "cpu", "error"),
    ],
)
def test_each_exception_has_its_outcome(error, device, outcome):
    case = planned("right", device=device).case
    assert outcome_of(error, case) == outcome
    assert str(error) in reason_of(error, case)
