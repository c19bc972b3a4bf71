"""Hard inputs of every problem: the oracle against all pairs written out in extended precision, and its derivative."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from harness.check import judgement, oracle
from harness.contract.problem import InvalidPositionsError
from harness.contract.scenario import Input
from harness.problems import lj3d, sph2d, sph3d

Long = np.longdouble
PI = Long("3.14159265358979323846264338327950288")
HARD = {"sph2d": sph2d.HARD_CASES, "sph3d": sph3d.HARD_CASES, "lj3d": lj3d.HARD_CASES}
VALID = [pytest.param(name, case, id=f"{name} {case.name}") for name in HARD for case in HARD[name] if not case.refused]
REFUSED = [pytest.param(case, id=f"{name} {case.name}") for name in HARD for case in HARD[name] if case.refused]


def spline(q: np.ndarray) -> np.ndarray:
    """Monaghan's cubic spline without its normalisation."""
    return np.where(q < 1, 1 - Long("1.5") * q**2 + Long("0.75") * q**3, np.maximum(2 - q, 0) ** 3 / 4)


def sph(case: Input, r: np.ndarray, sigma: np.longdouble) -> np.longdouble:
    h, m, rho0 = map(Long, (case.problem.smoothing_length, case.problem.mass, case.problem.rest_density))
    return np.sum((m * sigma * np.sum(spline(r / h), axis=1) - rho0) ** 2)


def sph_in_the_plane(case: Input, r: np.ndarray) -> np.longdouble:
    return sph(case, r, 10 / (7 * PI * Long(case.problem.smoothing_length) ** 2))


def sph_in_space(case: Input, r: np.ndarray) -> np.longdouble:
    return sph(case, r, 1 / (PI * Long(case.problem.smoothing_length) ** 3))


def lennard_jones(case: Input, r: np.ndarray) -> np.longdouble:
    sigma, epsilon = Long(case.problem.sigma), Long(case.problem.epsilon)
    reach = Long(case.problem.cutoff)
    r = r[np.triu_indices(len(r), 1)]
    r = r[r < reach]
    phi = lambda r: 4 * epsilon * ((sigma / r) ** 12 - (sigma / r) ** 6)  # noqa: E731
    return np.sum(phi(r) - phi(reach))


LOSSES: dict[str, Callable[[Input, np.ndarray], np.longdouble]] = {
    "sph2d": sph_in_the_plane,
    "sph3d": sph_in_space,
    "lj3d": lennard_jones,
}


def distances(case: Input) -> np.ndarray:
    """(N, N) of the minimum image, from its definition."""
    x, length = case.positions().astype(Long), Long(case.problem.box_length)
    d = x[:, None] - x[None]
    d -= length * np.rint(d / length)
    return np.sqrt(np.sum(d**2, axis=-1))


@pytest.mark.parametrize(("name", "case"), VALID)
def test_the_loss_is_that_of_all_pairs(name: str, case: Input) -> None:
    found = oracle.reference(case.name, case.problem, case.positions())
    right = LOSSES[name](case, distances(case))
    scale = max(abs(float(right)), 1e-3 * case.problem.magnitude(found.sums))
    assert abs(found.loss - float(right)) <= 1e-12 * scale
    if case.loss is not None:
        assert case.loss == pytest.approx(float(right), rel=1e-11)  # given to 10 to 14 digits
    if case.gradient_norm is not None:
        assert np.linalg.norm(found.gradient) == pytest.approx(case.gradient_norm, rel=1e-11, abs=1e-10)


@pytest.mark.parametrize(("name", "case"), VALID)
def test_the_gradient_is_the_derivative_of_the_loss(name: str, case: Input) -> None:
    positions = case.positions()
    right = oracle.reference(case.name, case.problem, positions)
    step = judgement.FINITE_DIFFERENCE_STEP * case.problem.unit
    shift = step * judgement.direction(positions.shape)
    losses = (oracle.loss_only(case.problem, positions + shift), oracle.loss_only(case.problem, positions - shift))
    assert judgement.finite_difference(right, right.gradient, step, losses) <= judgement.FINITE_DIFFERENCE_TOLERANCE


@pytest.mark.parametrize(("name", "case"), VALID)
def test_counts_agree_with_all_pairs(name: str, case: Input) -> None:
    """True pairs and the pairs of neighbouring cells, from their definitions."""
    positions = case.positions()
    n, length = len(positions), case.problem.box_length
    counts = oracle.reference(case.name, case.problem, positions).counts
    r = distances(case)
    np.fill_diagonal(r, np.inf)
    edge = int(np.count_nonzero(np.abs(r - case.problem.cutoff) < 1e-12 * max(1.0, length)))
    assert abs(counts.true_pairs - int(np.count_nonzero(r < case.problem.cutoff))) <= edge
    nc = counts.cells_per_side
    cells = case.problem.cell_coordinates(positions, nc)
    apart = np.abs(cells[:, None] - cells[None])
    near = (np.minimum(apart, nc - apart) <= 1).all(axis=-1)
    assert counts.stencil_pairs == np.count_nonzero(near)
    assert counts.n == n


@pytest.mark.parametrize("case", REFUSED)
def test_inputs_without_a_place_in_the_box_are_refused(case: Input) -> None:
    with pytest.raises(InvalidPositionsError, match="row 7"):
        oracle.reference(case.name, case.problem, case.positions())


@pytest.mark.parametrize("name", HARD)
def test_every_problem_has_every_kind(name: str) -> None:
    sides = {case.problem.cells_per_side(1_000) for case in HARD[name]}
    sizes = {len(case.positions()) for case in HARD[name]}
    assert {1, 2, 3} <= sides
    assert {0, 1, 2} <= sizes
    assert {"float64", "float32"} == {dtype for case in HARD[name] for dtype in case.dtypes}
    assert any((case.positions() < -case.problem.box_length).any() for case in HARD[name])
    assert sum(case.refused for case in HARD[name]) >= 3


def test_lennard_jones_inputs_keep_their_particles_apart() -> None:
    """But for the overlapping pair none is so near that its energy drowns all others."""
    for case in lj3d.HARD_CASES:
        if not case.refused and case.name != "overlapping pair":
            r = distances(case)
            np.fill_diagonal(r, np.inf)
            assert r.min(initial=np.inf) > 0.7 * case.problem.sigma, case.name
