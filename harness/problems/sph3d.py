"""`sph3d`: the SPH density loss in three dimensions, about 50 neighbours each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.contract.problem import FloatArray
from harness.contract.scenario import FLOAT64, Input, Scenario, sized
from harness.problems.draw import (
    clustered,
    jittered_grid,
    julia_uniform,
    points,
    translated,
    uniform,
    with_bad_row,
)
from harness.problems.sph import Sph

SEED = 42
NUMBER_DENSITY = 12.0


@dataclass(frozen=True, slots=True)
class Sph3d(Sph):
    """Parameters as in `Sph`; rho_0 is the number density."""

    name: ClassVar[str] = "sph3d"
    dimension: ClassVar[int] = 3
    number_density: ClassVar[float] = NUMBER_DENSITY
    length_root: ClassVar[int] = 10
    rest_density: float = NUMBER_DENSITY

    @property
    def kernel_normalisation(self) -> float:
        """sigma = 1 / (pi h^3), which makes W integrate to one over space."""
        return 1.0 / (math.pi * self.smoothing_length**3)


def uniform_positions(n: int) -> FloatArray:
    """The study's recipe in three dimensions, Julia's `rand(Xoshiro(42), 3, N) .* L`: (n, 3) float64 in [0, L)^3."""
    return julia_uniform(SEED, 3 * n).reshape(n, 3) * Sph3d.of_size(n).box_length


def clustered_positions(n: int) -> FloatArray:
    """Gaussian blobs in an otherwise uniform box, see `draw.clustered`: (n, 3) float64."""
    return clustered(n, 3, Sph3d.of_size(n).box_length)


_BOX = Sph3d(6.0)
_TEN = uniform(9, 10, 3, 6.0)


def _edges() -> FloatArray:
    """Coordinates on and around the faces of the box and of its cells, the remainder that rounds up to L among them."""
    eps = np.finfo(np.float64).eps
    axis = np.array([0.0, -0.0, -1e-20, 6.0, 6.0 * (1.0 - eps), -6.0, 1.0, 1.0 - eps, 2.0, 5.0, 3.0, 3.0 + 4.0 * eps])
    edges = np.stack([axis, np.roll(axis, 5), np.roll(axis, 7)], axis=1)
    return np.concatenate([edges, uniform(14, 388, 3, 6.0)()])


def _lattice() -> FloatArray:
    """Cubic lattice of 10^3 sites at the number density: every density is equal and the gradient vanishes."""
    return jittered_grid(10, NUMBER_DENSITY ** (-1.0 / 3.0), 0.0)()


HARD_CASES: tuple[Input, ...] = (
    Input("three cells a side", Sph3d.of_size(400), uniform(0, 400, 3, Sph3d.of_size(400).box_length)),
    Input("two cells a side", Sph3d(2.2), uniform(1, 60, 3, 2.2)),
    Input("two cells exactly", Sph3d(2.0), uniform(2, 60, 3, 2.0), dtypes=FLOAT64),
    Input("three cells by rounding", Sph3d(0.6, 0.1, 1.0, 1500.0), uniform(11, 60, 3, 0.6)),
    Input("box of one support radius", Sph3d(1.0), uniform(3, 10, 3, 1.0), dtypes=FLOAT64),
    Input("box below the support radius", Sph3d(0.7), uniform(4, 10, 3, 0.7), dtypes=FLOAT64),
    Input("translated by whole boxes", _BOX, translated(uniform(0, 400, 3, 6.0), 6.0)),
    Input("negative boxes only", _BOX, lambda: uniform(13, 400, 3, 6.0)() - 42.0, dtypes=FLOAT64),
    Input("pair", _BOX, points(3, (2.0, 2.0, 2.0), (2.5, 2.0, 2.0)), dtypes=FLOAT64),
    Input("pair across a face", _BOX, points(3, (2.0, 2.0, 0.25), (2.0, 2.0, 5.75)), dtypes=FLOAT64),
    Input("pair across a corner", _BOX, points(3, (0.2, 0.1, 0.25), (5.9, 5.8, 5.75))),
    Input("pair out of reach", _BOX, points(3, (2.0, 2.0, 2.0), (4.0, 2.0, 2.0)), dtypes=FLOAT64),
    Input("pair in a box of 1e6", Sph3d(1e6), points(3, (500.0, 2.0, 7.0), (500.5, 2.0, 7.0))),
    Input("no particles", _BOX, points(3), 0.0, 0.0),
    Input("one particle", _BOX, points(3, (3.0, 4.0, 5.0)), dtypes=FLOAT64),
    Input("coincident pair", _BOX, points(3, (2.0, 2.0, 2.0), (2.0, 2.0, 2.0))),
    Input("all in one place", _BOX, lambda: np.full((200, 3), 3.3), dtypes=FLOAT64),
    Input("all in one cell", _BOX, lambda: 3.1 + 0.6 * np.random.default_rng(9).random((200, 3))),
    Input("lattice", Sph3d.of_size(1_000), _lattice, dtypes=FLOAT64),
    Input("faces of box and cells", _BOX, _edges),
    Input("other parameters", Sph3d(5.0, 0.3, 2.5, 17.0), uniform(12, 400, 3, 5.0)),
    Input("NaN", _BOX, with_bad_row(_TEN, math.nan), refused=True),
    Input("infinity", _BOX, with_bad_row(_TEN, math.inf), refused=True, dtypes=FLOAT64),
    Input("without precision in the box", _BOX, with_bad_row(_TEN, 1e19), refused=True),
)

SCENARIOS: Mapping[str, Scenario] = {
    "uniform": sized("uniform", Sph3d.of_size, uniform_positions),
    "clustered": sized("clustered", Sph3d.of_size, clustered_positions),
    "hard": Scenario(lambda n: HARD_CASES, timed=False, sized=False),
}
"""`hard` is many small inputs with sizes of their own, which are checked and never timed."""
