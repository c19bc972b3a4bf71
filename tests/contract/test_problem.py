"""Parameters, cells and the rules for odd positions."""

import math

import numpy as np
import pytest

from harness.contract.problem import InvalidPositionsError
from harness.problems.sph2d import Sph2d


@pytest.mark.parametrize(
    ("problem", "n", "expected"),
    [
        (Sph2d.of_size(1_000), 1_000, 10),
        (Sph2d.of_size(1_000_000), 1_000_000, 316),
        (Sph2d.of_size(50), 50, 2),
        (Sph2d.of_size(39), 39, 1),
        (Sph2d(2.0), 40, 2),
        (Sph2d(1.0), 1, 1),
        (Sph2d(0.6, smoothing_length=0.1), 36, 3),  # 0.6 / 0.2 evaluates to just under 3
        (Sph2d(1e6), 2, 3),  # as many cells as particles, not 1e12
    ],
)
def test_cells_per_side(problem: Sph2d, n: int, expected: int) -> None:
    assert problem.cells_per_side(n) == expected


@pytest.mark.parametrize("n", [0, 1, 2, 1_000, 10**6])
@pytest.mark.parametrize("length", [1e-3, 1.0, 1e4, 46341.0, 1e6, 1e12])
def test_cells_never_outnumber_particles_by_much(n: int, length: float) -> None:
    assert Sph2d(length).cells_per_side(n) ** 2 <= max(9, n + 2 * math.isqrt(n) + 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cell_coordinates_of_any_finite_coordinate_are_in_range(dtype: type) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-1e3, 1e3, 1000), [0.0, -0.0, -1e-20, 10.0, -10.0, 1e6, np.nextafter(10.0, 0)]])
    cells = Sph2d(10.0).cell_coordinates(np.stack([x, x], axis=1).astype(dtype), 10)
    assert cells.min() >= 0
    assert cells.max() <= 9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e19, -1e19])
def test_positions_without_a_place_in_the_box_are_refused_by_row(value: float, dtype: type) -> None:
    x = np.random.default_rng(0).random((50, 2)).astype(dtype) * 10
    x[7, 0] = value
    x[9, 1] = value
    with pytest.raises(InvalidPositionsError, match=r"row 7 .* 2 of 50 rows"):
        Sph2d(10.0).require_valid(x)


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        (np.zeros(3), "shape"),
        (np.zeros((3, 3)), "shape"),
        (np.zeros((3, 2), np.int64), "int64"),
        (np.zeros((3, 2), np.float16), "float16"),
    ],
)
def test_arrays_that_are_no_positions_are_refused(positions: np.ndarray, words: str) -> None:
    with pytest.raises(InvalidPositionsError, match=words):
        Sph2d(10.0).require_valid(positions)


@pytest.mark.parametrize("field", ["box_length", "smoothing_length", "mass"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_parameters_must_be_positive_and_finite(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} is {value!r}"):
        Sph2d(**{"box_length": 10.0, field: value})
