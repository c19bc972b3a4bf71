"""`sph2d`: the study's SPH density loss in two dimensions, its inputs, and hard inputs on which rows went wrong.

Where a loss stands beside a hard input it was computed by an O(N^2) sum in extended precision and checked by finite
differences; tests hold the oracle to it, and the check holds every implementation to the oracle. float32 runs one input
of each kind, and none it cannot resolve. Rows that compile for each shape, problem or capacity take most of a check's
time on them: an input has the number of particles of another wherever what is hard about it allows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.contract.problem import FloatArray
from harness.contract.scenario import FLOAT64, Input, Scenario, sized
from harness.problems.draw import clustered, julia_uniform, points, translated, uniform, with_bad_row
from harness.problems.sph import Sph

PUBLISHED_SEED = 42
NUMBER_DENSITY = 10.0
"""Particles per unit area in the study: about 31 neighbours each."""


@dataclass(frozen=True, slots=True)
class Sph2d(Sph):
    """Parameters as in `Sph`, the study's of Enzyme.jl, Reactant.jl and JAX (README, "The study")."""

    name: ClassVar[str] = "sph2d"
    dimension: ClassVar[int] = 2
    number_density: ClassVar[float] = NUMBER_DENSITY
    length_root: ClassVar[int] = 8
    rest_density: float = NUMBER_DENSITY

    @classmethod
    def of_size(cls, n: int) -> Sph2d:
        """The study's problem for n particles: L = sqrt(n / 10), by the study's square root to the last bit."""
        return cls(box_length=math.sqrt(max(n, 1) / NUMBER_DENSITY))

    @property
    def kernel_normalisation(self) -> float:
        """sigma = 10 / (7 pi h^2), which makes W integrate to one over the plane."""
        return 10.0 / (7.0 * math.pi * self.smoothing_length**2)


def published_positions(n: int) -> FloatArray:
    """Positions of the study, Julia's `rand(Xoshiro(42), 2, N) .* L`, bit for bit: (n, 2) float64 in [0, L)^2."""
    return julia_uniform(PUBLISHED_SEED, 2 * n).reshape(n, 2) * Sph2d.of_size(n).box_length


def clustered_positions(n: int) -> FloatArray:
    """Gaussian blobs in an otherwise uniform box, see `draw.clustered`: (n, 2) float64."""
    return clustered(n, 2, Sph2d.of_size(n).box_length)


def _lattice() -> FloatArray:
    """Square lattice of 32 x 32 with spacing sqrt(0.1): every density is equal and the gradient vanishes."""
    axis = np.arange(32) * math.sqrt(0.1)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)


def _edges() -> FloatArray:
    """Coordinates on and around the faces of the box and of its cells, the remainder that rounds up to L among them."""
    eps = np.finfo(np.float64).eps
    axis = np.array(
        [0.0, -0.0, -1e-20, 10.0, 10.0 * (1.0 - eps), -10.0, 1.0, 1.0 - eps, 2.0, 9.0, 5.0, 5.0 + 4.0 * eps]
    )
    edges = np.stack([axis, np.roll(axis, 5)], axis=1)
    return np.concatenate([edges, uniform(14, 288, 2, 10.0)()])


_PAIR_LOSS = 119.393214523237
_PAIR_NORM = 84.32146702407408 * math.sqrt(2.0)
_BOX = Sph2d(10.0)
_FIFTY = uniform(0, 50, 2, 10.0)
_WIDE_PAIR = points(2, (500.0, 2.0), (500.5, 2.0))

HARD_CASES: tuple[Input, ...] = (
    Input("uniform", _BOX, uniform(0, 1000, 2, 10.0), 10988.8190581011, 6253.6722306893),
    Input("two cells a side", Sph2d.of_size(50), uniform(50, 50, 2, math.sqrt(5.0)), 270.3403968312, 846.4037903718),
    Input("two cells exactly", Sph2d(2.0), uniform(1, 40, 2, 2.0), 493.9575501731, dtypes=FLOAT64),
    Input("two cells, sixty", Sph2d(math.sqrt(6.0)), uniform(2, 60, 2, math.sqrt(6.0)), 414.5940390935, dtypes=FLOAT64),
    Input(
        "three cells by rounding",
        Sph2d(0.6, smoothing_length=0.1, rest_density=100.0),
        uniform(11, 36, 2, 0.6),
        133710.8795640539,
    ),
    Input(
        "box of one support radius", Sph2d(1.0), uniform(3, 10, 2, 1.0), 12.0463762903, 81.2539304953, dtypes=FLOAT64
    ),
    Input("one particle, short box", Sph2d(1.0), points(2, (0.3, 0.3)), 66.930174106092, 0.0, dtypes=FLOAT64),
    Input("just under two cells", Sph2d.of_size(39), uniform(4, 39, 2, Sph2d.of_size(39).box_length), dtypes=FLOAT64),
    Input(
        "translated by whole boxes",
        _BOX,
        translated(uniform(0, 1000, 2, 10.0), 10.0),
        10988.8190581011,
        6253.6722306893,
    ),
    Input("far pair across a face", _BOX, points(2, (-39.9, 22.0), (29.6, -8.0)), _PAIR_LOSS, _PAIR_NORM),
    Input("pair", _BOX, points(2, (2.0, 2.0), (2.5, 2.0)), _PAIR_LOSS, _PAIR_NORM, dtypes=FLOAT64),
    Input("pair out of reach", _BOX, points(2, (2.0, 2.0), (5.0, 2.0)), 133.860348212184, 0.0, dtypes=FLOAT64),
    Input("pair across a face", _BOX, points(2, (0.25, 2.0), (9.75, 2.0)), _PAIR_LOSS, _PAIR_NORM, dtypes=FLOAT64),
    *(
        Input(f"pair in a box of {side}", Sph2d(float(side)), _WIDE_PAIR, _PAIR_LOSS, _PAIR_NORM, dtypes=FLOAT64)
        for side in ("1e4", "46341", "1e5")
    ),
    Input("pair in a box of 1e6", Sph2d(1e6), _WIDE_PAIR, _PAIR_LOSS, _PAIR_NORM),
    Input("no particles", _BOX, points(2), 0.0, 0.0),
    Input("one particle", _BOX, points(2, (3.0, 4.0)), 66.930174106092, 0.0, dtypes=FLOAT64),
    Input("coincident pair", _BOX, points(2, (2.0, 2.0), (2.0, 2.0))),
    Input("all in one place", _BOX, lambda: np.full((300, 2), 3.3), 86084019.402293086, 0.0, dtypes=FLOAT64),
    Input("all in one cell", _BOX, lambda: 3.1 + 0.6 * np.random.default_rng(9).random((300, 2))),
    # the lattice's loss is the square of rho - rho_0 = 0.03: float32 cancels it away
    Input("lattice", Sph2d(32 * math.sqrt(0.1)), _lattice, 1.0385998936, 0.0, dtypes=FLOAT64),
    Input("faces of box and cells", _BOX, _edges),
    Input(
        "other parameters",
        Sph2d(7.0, smoothing_length=0.3, mass=2.5, rest_density=17.0),
        uniform(12, 300, 2, 7.0),
    ),
    Input("negative boxes only", _BOX, lambda: uniform(13, 300, 2, 10.0)() - 70.0, dtypes=FLOAT64),
    Input("NaN", _BOX, with_bad_row(_FIFTY, math.nan), refused=True),
    Input("infinity", _BOX, with_bad_row(_FIFTY, math.inf), refused=True, dtypes=FLOAT64),
    Input("negative infinity", _BOX, with_bad_row(_FIFTY, -math.inf), refused=True, dtypes=FLOAT64),
    Input("without precision in the box", _BOX, with_bad_row(_FIFTY, 1e19), refused=True),
)


SCENARIOS: Mapping[str, Scenario] = {
    "published": sized("published", Sph2d.of_size, published_positions),
    "clustered": sized("clustered", Sph2d.of_size, clustered_positions),
    "hard": Scenario(lambda n: HARD_CASES, timed=False, sized=False),
}
"""`hard` is many small inputs with sizes of their own, which are checked and never timed."""
