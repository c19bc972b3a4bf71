"""The gate of the segment operations, and that it refuses what is wrong."""

import numpy as np
import pytest

from implementations.segment_ops import agreement
from implementations.segment_ops.family import FORMULAS


@pytest.mark.parametrize("framework", agreement.FRAMEWORKS)
def test_every_operation_agrees(framework):
    rows = agreement.check(200, [framework])
    assert {row.op for row in rows} == set(FORMULAS)
    assert not [row for row in rows if not row.ok]


def test_the_reference_is_the_gradient_it_says():
    for op in FORMULAS:
        operands, idx, segments = agreement.example(op, 20, 9, "float64")
        _, *gradients = agreement.reference(op, operands, idx, segments)
        for place, gradient in enumerate(gradients):
            direction = np.cos(np.arange(operands[place].size)).reshape(operands[place].shape)
            ahead, behind = (
                0.5 * np.sum(agreement.reference(op, _moved(operands, place, step * direction), idx, segments)[0] ** 2)
                for step in (1e-6, -1e-6)
            )
            assert np.isclose((ahead - behind) / 2e-6, np.sum(gradient * direction), rtol=1e-6), (op, place)


def _moved(operands, place, step):
    return [operand + step if n == place else operand for n, operand in enumerate(operands)]


WRONG = {
    "NaN": lambda parts: [parts[0] * np.nan, *parts[1:]],
    "zeros": lambda parts: [parts[0], *(0 * part for part in parts[1:])],
    "sign flipped": lambda parts: [-parts[0], *parts[1:]],
    "one part in a million": lambda parts: [parts[0] * (1 + 1e-6), *parts[1:]],
    "one row dropped": lambda parts: [*parts[:-1], np.where(np.arange(len(parts[-1])) == 3, 0, parts[-1].T).T],
    "another order": lambda parts: [*parts[:-1], parts[-1][::-1]],
    "float32": lambda parts: [part.astype("float32") for part in parts],
    "a gradient missing": lambda parts: parts[:-1],
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("op", FORMULAS)
def test_wrong_results_are_refused(op, wrong):
    operands, idx, segments = agreement.example(op, 100, 10, "float64")
    right = agreement.reference(op, operands, idx, segments)
    assert agreement.compare(right, op, operands, idx, segments) == (0.0, "")
    assert agreement.compare(WRONG[wrong](right), op, operands, idx, segments)[1]


def test_an_operation_that_fails_is_a_row(monkeypatch):
    monkeypatch.setitem(agreement._RUN, "jax", lambda *_: 1 / 0)
    row = agreement.check(10, ["jax"])[0]
    assert not row.ok
    assert row.reason == "ZeroDivisionError: division by zero"
