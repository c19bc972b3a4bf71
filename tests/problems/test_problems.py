"""The problems, one form for all: the oracle against long-double sums and LAMMPS, inputs, derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from harness.check import oracle
from harness.check.reference import load, save
from harness.contract.problem import InvalidPositionsError, Problem
from harness.contract.scenario import Scenario
from harness.problems import PROBLEMS, lj3d, sph2d, sph3d
from harness.problems.lj3d import Lj3d
from harness.problems.sph import Sph
from harness.problems.sph2d import Sph2d
from harness.problems.sph3d import Sph3d

SCENARIOS = {"sph2d": sph2d.SCENARIOS, "sph3d": sph3d.SCENARIOS, "lj3d": lj3d.SCENARIOS}
TIMED = [(name, each) for name, scenarios in SCENARIOS.items() for each in scenarios if scenarios[each].timed]

# loss, |g|_2, true pairs, cells a side, fullest cell, stencil pairs: by other code in extended precision; the
# Lennard-Jones figures also by LAMMPS 2025.7.22
FIGURES = {
    ("sph2d", 1_000): (12476.361742879251, 7526.066606497, 31_496, 10, 23, 91_026),
    ("sph2d", 10_000): (124724.60904311873, 24499.694255063, 312_890, 31, 22, 943_260),
    ("sph3d", 1_000): (17907.031753797737, 12054.363161091, 49_890, 4, 23, 422_626),
    ("sph3d", 10_000): (181016.70197871370, 39918.134295582, 501_566, 9, 26, 3_710_142),
    ("lj3d", 1_000): (-3391.9731089806, 2642.973792327, 56_012, 4, 20, 421_866),
    ("lj3d", 10_000): (-57182.852671915, 2736.958501980, 522_416, 9, 21, 3_728_328),
}
ENDS = {
    "sph3d": ((0.75815679, 1.40498653, 1.12947608), (4.23249507, 3.95984578, 2.67193471)),
    "lj3d": ((10.57782885, 10.54432864, 10.56006933), (9.05696509, 9.79254187, 9.76235679)),
}
"""First and last position of a thousand."""
PLAIN = [Sph2d(1.7), Sph3d(1.7), Lj3d(4.3)]


def first(scenarios: str) -> Scenario:
    """The input on which a problem is timed first."""
    return next(iter(SCENARIOS[scenarios].values()))


@pytest.mark.parametrize(("name", "n"), FIGURES)
def test_figures_are_those_computed_elsewhere(name: str, n: int) -> None:
    loss, norm, pairs, side, fullest, stencil = FIGURES[name, n]
    (drawn,) = first(name).inputs(n)
    right = oracle.reference(name, drawn.problem, drawn.positions())
    assert right.loss == pytest.approx(loss, rel=1e-13)
    assert np.linalg.norm(right.gradient) == pytest.approx(norm, abs=1e-9)
    counts = right.counts
    found = (counts.true_pairs, counts.cells_per_side, counts.max_occupancy, counts.stencil_pairs)
    assert found == (pairs, side, fullest, stencil)


@pytest.mark.parametrize("name", ENDS)
def test_inputs_have_their_first_and_last_positions(name: str) -> None:
    (drawn,) = first(name).inputs(1_000)
    np.testing.assert_allclose(drawn.positions()[[0, -1]], ENDS[name], atol=5e-9)


@pytest.mark.parametrize(("name", "scenario"), TIMED)
@pytest.mark.parametrize("n", [0, 1, 3, 100, 1_000, 2_048])
def test_positions_lie_in_the_box_and_repeat(name: str, scenario: str, n: int) -> None:
    (drawn,) = SCENARIOS[name][scenario].inputs(n)
    positions = drawn.positions()
    assert (positions.shape, positions.dtype) == ((n, PROBLEMS[name].dimension), np.float64)
    assert ((positions >= 0.0) & (positions < drawn.problem.box_length)).all()
    np.testing.assert_array_equal(positions, drawn.positions())


def test_the_film_leaves_two_thirds_of_its_box_empty() -> None:
    (drawn,) = lj3d.SCENARIOS["slab"].inputs(3_000)
    height = drawn.problem.box_length / 3.0
    z = drawn.positions()[:, 2]
    near = 6.0 * lj3d.JITTER
    assert ((z < height + near) | (z > drawn.problem.box_length - near)).all()
    assert drawn.problem.box_length**3 == pytest.approx(3.0 * 3_000 / 0.8442)


@pytest.mark.parametrize("problem", [Sph2d(9.0), Sph3d(9.0, 0.3, 2.0, 5.0), Lj3d(9.0, 0.9, 1.7)], ids=lambda p: p.name)
def test_pair_and_particle_derivatives(problem: Problem) -> None:
    r = np.linspace(0.6, 0.999, 300) * problem.cutoff
    step = 1e-6 * problem.unit
    slope = (problem.pair(r + step) - problem.pair(r - step)) / (2.0 * step)
    np.testing.assert_allclose(problem.pair_derivative(r), slope, rtol=1e-6, atol=1e-6 * np.abs(slope).max())
    s = np.linspace(-20.0, 20.0, 41)
    slope = (problem.particle(s + 1e-5) - problem.particle(s - 1e-5)) / 2e-5
    np.testing.assert_allclose(problem.particle_derivative(s), slope, atol=1e-7)
    beyond = np.array([1.0, 1.5]) * problem.cutoff
    np.testing.assert_array_equal([problem.pair(beyond), problem.pair_derivative(beyond)], 0.0)


@pytest.mark.parametrize("h", [0.5, 0.1])
@pytest.mark.parametrize("make", [Sph2d, Sph3d])
def test_kernels_are_smooth(make: type[Sph], h: float) -> None:
    problem = make(9.0, h)
    below, above = (np.array(h * (1.0 + s * 1e-9)) for s in (-1, 1))
    for function in (problem.pair, problem.pair_derivative):
        assert function(below) == pytest.approx(float(function(above)), rel=1e-8)
    r = np.linspace(0.01, 1.99, 500) * h
    step = 1e-6 * h
    slope = (problem.pair(r + step) - problem.pair(r - step)) / (2.0 * step)
    np.testing.assert_allclose(problem.pair_derivative(r), slope, atol=1e-8 / h ** (problem.dimension + 1))


@pytest.mark.parametrize(
    ("problem", "surface"),
    [(make(9.0, h), s) for make, s in ((Sph2d, 2.0 * math.pi), (Sph3d, 4.0 * math.pi)) for h in (0.5, 0.1)],
)
def test_kernels_integrate_to_one_over_space(problem: Problem, surface: float) -> None:
    shell = lambda r: surface * r ** (problem.dimension - 1) * float(problem.pair(np.array(r)))  # noqa: E731
    assert quad(shell, 0.0, problem.cutoff, points=[problem.unit])[0] == pytest.approx(1.0, abs=1e-8)
    assert problem.self_term == pytest.approx(float(problem.pair(np.zeros(()))), rel=1e-15)


def test_lennard_jones_has_its_known_values() -> None:
    """Zero at sigma but for the shift, the well of depth epsilon at 2^(1/6) sigma, no force there."""
    problem = Lj3d(9.0, sigma=0.8, epsilon=3.0)
    shift = 4.0 * 3.0 * (2.5**-12 - 2.5**-6)
    well = 2.0 ** (1.0 / 6.0) * 0.8
    values = problem.pair(np.array([0.8, well, 2.0]))
    assert values.tolist() == pytest.approx([-shift, -3.0 - shift, 0.0], abs=1e-14)
    assert problem.pair_derivative(np.array(well)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_references_of_every_problem_survive_the_file(name: str, tmp_path: object) -> None:
    path = tmp_path / "r.npz"  # type: ignore[operator]
    (drawn,) = first(name).inputs(100)
    written = oracle.reference("one", drawn.problem, drawn.positions())
    save(path, [written])
    (read,) = load(path)
    assert read.problem == written.problem
    np.testing.assert_array_equal(read.sums, written.sums)


@pytest.mark.parametrize("problem", PLAIN, ids=lambda problem: problem.name)
def test_positions_of_another_dimension_are_refused(problem: Problem) -> None:
    d = problem.dimension
    with pytest.raises(InvalidPositionsError, match=rf"shape \(5, {5 - d}\); expected \(N, {d}\)"):
        problem.require_valid(np.zeros((5, 5 - d)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Lj3d(0.0), "box_length is 0.0; it must be a positive finite number"),
        (lambda: Lj3d(9.0, sigma=math.nan), "sigma is nan"),
        (lambda: Sph3d(9.0, smoothing_length=-1.0), "smoothing_length is -1.0"),
        (lambda: Sph3d(9.0, rest_density=math.inf), "rest_density is inf; it must be finite"),
        (
            lambda: Lj3d(9.0, sigma=1e3).require_representable("float32"),
            "sigma is 1e.03; in float32 it must lie between",
        ),
        (lambda: Sph3d(9.0, smoothing_length=1e-5).require_representable("float32"), "smoothing_length is 1e-05"),
    ],
)
def test_parameters_that_cannot_be_are_refused(make: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(("n", "side"), [(1, 3), (27, 3), (28, 4), (1_000, 10), (1_001, 11), (10**9, 1_000)])
def test_a_huge_box_has_no_more_cells_than_particles(n: int, side: int) -> None:
    assert Sph3d(1e6).cells_per_side(n) == side
