"""`lj3d`: the Lennard-Jones liquid of molecular dynamics benchmarks, 52 to 56 neighbours each.

    f(r) = phi(r) - phi(rc),  phi(r) = 4 epsilon [(sigma / r)^12 - (sigma / r)^6]          F(s) = s / 2

L is the potential energy, truncated and shifted at rc = 2.5 sigma, and -dL/dx the forces: `pair_style lj/cut 2.5` with
`pair_modify shift yes` of LAMMPS, whose benchmark has this number density.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.contract.problem import FloatArray, Problem, require_positive, root_rounded_up
from harness.contract.scenario import FLOAT64, Input, Scenario, sized
from harness.problems.draw import jittered_grid, points, translated, with_bad_row

SEED = 42
JITTER = 0.05
"""Standard deviation of every coordinate about its lattice site."""
FACES = np.array([(0.0, 0.0, 0.0), (0.5, 0.5, 0.0), (0.5, 0.0, 0.5), (0.0, 0.5, 0.5)])
"""Sites of a face-centred cubic cell."""
SHIFT = 4.0 * (2.5**-12 - 2.5**-6)
"""phi(rc) of the default parameters, which every pair within reach is relieved of."""
FILM = 3.0
"""The box is this many times as high as the film of `slab`."""


@dataclass(frozen=True, slots=True)
class Lj3d(Problem):
    """Parameters of the Lennard-Jones energy.

    Attributes:
        box_length: side L of the periodic cube.
        sigma: distance at which the potential is zero before it is shifted.
        epsilon: depth of its well.
        reach: the cutoff in units of sigma.

    Raises:
        ValueError: one of them is not a positive finite number.
    """

    name: ClassVar[str] = "lj3d"
    dimension: ClassVar[int] = 3
    number_density: ClassVar[float] = 0.8442
    way_out: ClassVar[str] = "length and energy in which sigma and epsilon are near 1"

    box_length: float
    sigma: float = 1.0
    epsilon: float = 1.0
    reach: float = 2.5

    def __post_init__(self) -> None:
        require_positive(box_length=self.box_length, sigma=self.sigma, epsilon=self.epsilon, reach=self.reach)

    @property
    def cutoff(self) -> float:
        """reach * sigma."""
        return self.reach * self.sigma

    @property
    def unit(self) -> float:
        """sigma."""
        return self.sigma

    @property
    def self_term(self) -> float:
        """0: a particle has no energy with itself."""
        return 0.0

    def pair(self, r: FloatArray) -> FloatArray:
        """phi(r) - phi(rc); infinite at r = 0."""
        shift = self._potential(np.asarray(self.cutoff))
        return np.where(r < self.cutoff, self._potential(r) - shift, 0.0)

    def pair_derivative(self, r: FloatArray) -> FloatArray:
        """dphi/dr."""
        with np.errstate(divide="ignore", invalid="ignore"):
            sixth = (self.sigma / r) ** 6
            return np.where(r < self.cutoff, 24.0 * self.epsilon * sixth * (1.0 - 2.0 * sixth) / r, 0.0)

    def _potential(self, r: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            sixth = (self.sigma / r) ** 6
            return np.asarray(4.0 * self.epsilon * sixth * (sixth - 1.0))

    def particle(self, s: FloatArray) -> FloatArray:
        """s / 2: of a pair's energy each of the two has a half."""
        return 0.5 * s

    def particle_derivative(self, s: FloatArray) -> FloatArray:
        """1 / 2."""
        return np.full_like(s, 0.5)

    def magnitude(self, s: FloatArray) -> float:
        """Sum of the energies' sizes."""
        return float(np.sum(np.abs(s)))

    @property
    def parameters(self) -> dict[str, float]:
        """L, sigma, epsilon and rc."""
        return {"L": self.box_length, "sigma": self.sigma, "epsilon": self.epsilon, "rc": self.cutoff}

    def mistaken_losses(self, s: FloatArray) -> Mapping[str, float]:
        """Every pair twice, a mean in place of a sum."""
        energy = float(np.sum(self.particle(s)))
        return {"every pair counted twice?": 2.0 * energy, "mean instead of sum?": energy / max(len(s), 1)}

    @property
    def limits(self) -> Mapping[str, tuple[float, int]]:
        """Rows form the twelfth power of sigma and the square of L."""
        return {"sigma": (self.sigma, 14), "box_length": (self.box_length, 3), "epsilon": (self.epsilon, 4)}


def jittered_fcc_positions(n: int) -> FloatArray:
    """A face-centred cubic lattice that fills the box, n of its sites, each coordinate jittered: (n, 3) float64."""
    length = Lj3d.of_size(n).box_length
    cells = root_rounded_up(-(-n // 4), 3)
    return _kept(n, (cells, cells, cells), (length, length, length), length)


def slab_box(n: int) -> Lj3d:
    """The box of `slab`: three times the volume that n particles fill."""
    return Lj3d(box_length=(FILM * max(n, 1) / Lj3d.number_density) ** (1.0 / 3.0))


def slab_positions(n: int) -> FloatArray:
    """The same in the lowest third of a box with room for three times as many, the rest of it empty: (n, 3) float64."""
    length = slab_box(n).box_length
    across = max(1, round(length / (4.0 / Lj3d.number_density) ** (1.0 / 3.0)))
    high = math.ceil(n / (4 * across**2))
    return _kept(n, (across, across, high), (length, length, length / FILM), length)


def _kept(n: int, cells: tuple[int, int, int], sides: tuple[float, float, float], length: float) -> FloatArray:
    """n of the sites of a lattice, drawn without replacement in the lattice's order, jittered and wrapped."""
    rng = np.random.default_rng(SEED)
    corners = np.stack(np.meshgrid(*map(np.arange, cells), indexing="ij"), axis=-1).reshape(-1, 1, 3)
    sites = ((corners + FACES) * (np.array(sides) / np.maximum(cells, 1))).reshape(-1, 3)
    chosen = np.sort(rng.permutation(len(sites))[:n])
    return np.mod(sites[chosen] + rng.normal(0.0, JITTER, (n, 3)), length)


_BOX = Lj3d(15.0)
_GRID = jittered_grid(6, 1.1, 0.05)
"""Of 216 particles, the closest of which are 0.8 apart."""


def _edges() -> FloatArray:
    """A jittered lattice whose first coordinates are on the faces of the box and of its cells, or beside them.

    Beside them by less than can be told: the remainder that rounds up to L among them.
    """
    eps = np.finfo(np.float64).eps
    x = jittered_grid(4, 1.25, 0.05)()
    x[:, 0] = np.repeat([-1e-20, 1.25, 2.5 * (1.0 - eps), 15.0 * (1.0 - eps) - 11.25], 16)
    x[::3, 0] += 15.0
    return x


HARD_CASES: tuple[Input, ...] = (
    Input("six cells a side", _BOX, _GRID),
    Input("three cells exactly", Lj3d(7.5), _GRID),
    Input("two cells a side", Lj3d(6.6), _GRID),
    Input("one cell", Lj3d(3.3), jittered_grid(3, 1.1, 0.05), dtypes=FLOAT64),
    Input("box of one cutoff", Lj3d(2.5), jittered_grid(2, 1.25, 0.05), dtypes=FLOAT64),
    Input("three cells by rounding", Lj3d(0.6, 0.08, 3.0), jittered_grid(6, 0.1, 0.004)),
    Input("translated by whole boxes", _BOX, translated(_GRID, 15.0)),
    Input("negative boxes only", _BOX, lambda: _GRID() - 45.0, dtypes=FLOAT64),
    Input("pair", _BOX, points(3, (2.0, 2.0, 2.0), (3.2, 2.0, 2.0)), dtypes=FLOAT64),
    Input("pair across a face", _BOX, points(3, (2.0, 2.0, 0.5), (2.0, 2.0, 14.3)), dtypes=FLOAT64),
    Input("pair across a corner", _BOX, points(3, (0.5, 0.25, 0.5), (14.5, 14.5, 14.25))),
    Input("pair out of reach", _BOX, points(3, (2.0, 2.0, 2.0), (5.0, 2.0, 2.0)), 0.0, 0.0, dtypes=FLOAT64),
    Input("pair in a box of 1e6", Lj3d(1e6), points(3, (500.0, 2.0, 7.0), (501.5, 2.0, 7.0)), dtypes=FLOAT64),
    Input("overlapping pair", _BOX, points(3, (2.0, 2.0, 2.0), (2.5, 2.0, 2.0)), 4.0 * (4096.0 - 64.0) - SHIFT),
    Input("no particles", _BOX, points(3), 0.0, 0.0),
    Input("one particle", _BOX, points(3, (3.0, 4.0, 5.0)), 0.0, 0.0, dtypes=FLOAT64),
    Input("all in one cell", _BOX, lambda: jittered_grid(3, 0.8, 0.01)() + 5.0),
    Input("faces of box and cells", _BOX, _edges),
    Input("other parameters", Lj3d(12.0, 0.9, 1.7, 3.0), _GRID),
    Input("NaN", _BOX, with_bad_row(_GRID, math.nan), refused=True),
    Input("infinity", _BOX, with_bad_row(_GRID, -math.inf), refused=True, dtypes=FLOAT64),
    Input("without precision in the box", _BOX, with_bad_row(_GRID, 1e19), refused=True),
)

SCENARIOS: Mapping[str, Scenario] = {
    "jittered_fcc": sized("jittered_fcc", Lj3d.of_size, jittered_fcc_positions),
    "slab": sized("slab", slab_box, slab_positions),
    "hard": Scenario(lambda n: HARD_CASES, timed=False, sized=False),
}
"""`hard` is many small inputs with sizes of their own, which are checked and never timed."""
