"""The problem every implementation differentiates: an SPH density loss in a periodic square box.

    rho_i = sum_j m W(|x_i - x_j|, h)        with the self term, minimum image
    loss  = sum_i (rho_i - rho_0)^2

W is the two-dimensional cubic spline of Monaghan (1992), support radius 2h. The parameters follow the study of
Enzyme.jl, Reactant.jl and JAX that this project reproduces (README, "The study").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating]

NUMBER_DENSITY = 10.0
"""Particles per unit area in the study: about 31 neighbours each."""


class InvalidPositionsError(ValueError):
    """Positions no periodic box can hold: not an (N, 2) array, not finite, or without precision inside the box."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Parameters of the SPH density loss; no implementation writes one as a literal.

    Lengths share one arbitrary unit.

    Attributes:
        box_length: side L of the periodic square box.
        smoothing_length: h; the kernel's support radius is 2h.
        mass: m, the same for every particle.
        rest_density: rho_0.

    Raises:
        ValueError: a length or the mass is not a positive finite number, or rest_density is not finite.
    """

    box_length: float
    smoothing_length: float = 0.5
    mass: float = 1.0
    rest_density: float = NUMBER_DENSITY

    def __post_init__(self) -> None:
        for name in ("box_length", "smoothing_length", "mass"):
            value = getattr(self, name)
            if not (0.0 < value < math.inf):
                raise ValueError(f"{name} is {value!r}; it must be a positive finite number")
        if not math.isfinite(self.rest_density):
            raise ValueError(f"rest_density is {self.rest_density!r}; it must be finite")

    @classmethod
    def of_size(cls, n: int, number_density: float = NUMBER_DENSITY) -> Problem:
        """The study's problem for n particles: L = sqrt(n / number_density) keeps the neighbours per particle."""
        return cls(box_length=math.sqrt(max(n, 1) / number_density))

    @property
    def cutoff(self) -> float:
        """Support radius 2h: pairs at this distance or more do not interact."""
        return 2.0 * self.smoothing_length

    @property
    def kernel_normalisation(self) -> float:
        """sigma = 10 / (7 pi h^2), which makes W integrate to one over the plane."""
        return 10.0 / (7.0 * math.pi * self.smoothing_length**2)

    def cells_per_side(self, n: int) -> int:
        """Cells along one side of the cell list: as many as fit with a width of at least the cutoff.

        Never more than ceil(sqrt(n)) (at least 3), so that a huge and nearly empty box costs memory of the order of
        n. A ratio that falls short of a whole number by rounding alone counts as that number.

        Args:
            n: number of particles.

        Returns:
            nc >= 1. With fewer than 3 cells a stencil visits each distinct cell once.
        """
        fitting = self.box_length / self.cutoff * (1.0 + 4.0 * np.finfo(np.float64).eps)
        most = max(3, math.isqrt(max(n - 1, 0)) + 1)
        return max(1, math.floor(min(fitting, most)))

    def cell_coordinates(self, positions: FloatArray, cells_per_side: int) -> npt.NDArray[np.int64]:
        """Cell of every coordinate, by the rule every implementation follows bit for bit, in the positions' precision.

        wrapped = positions mod L (exact remainder, in [0, L)); cell = min(floor(wrapped * (nc / L)), nc - 1), with L
        and nc / L rounded to the positions' dtype. A remainder that rounds up to L belongs to the last cell.

        Args:
            positions: (N, 2) finite float32 or float64.
            cells_per_side: nc.

        Returns:
            (N, 2) integers in [0, nc).
        """
        real = positions.dtype.type
        wrapped = np.mod(positions, real(self.box_length))
        cells = np.floor(wrapped * real(cells_per_side / self.box_length)).astype(np.int64)
        return np.minimum(cells, cells_per_side - 1)

    def coordinate_limit(self, dtype: npt.DTypeLike) -> float:
        """Coordinates of this magnitude or more are refused: one unit in the last place spans the whole box."""
        return self.box_length / float(np.finfo(np.dtype(dtype)).eps)

    def require_representable(self, dtype: npt.DTypeLike) -> None:
        """Refuse parameters with which a row would compute zeros or infinities out of right positions.

        In the positions' precision rows form the fifth power of h, the square of L, and, in an adjoint, the square of a
        density over that of h; and their inverses. Within these limits all of them are normal numbers, and so are
        contributions ten million times smaller or larger.

        Args:
            dtype: precision of the positions.

        Raises:
            ValueError: naming the parameter, its value and the limits.
        """
        name, largest = np.dtype(dtype).name, float(np.finfo(np.dtype(dtype)).max)
        for what, value, root in (
            ("smoothing_length", self.smoothing_length, 8),
            ("box_length", self.box_length, 3),
            ("mass * kernel_normalisation", self.mass * self.kernel_normalisation, 4),
            ("rest_density", max(abs(self.rest_density), 1.0), 4),  # any small one will do
        ):
            limit = largest ** (1.0 / root)
            if not 1.0 / limit <= value <= limit:
                raise ValueError(
                    f"{what} is {value:.3g}; in {name} it must lie between {1.0 / limit:.2g} and {limit:.2g}: choose "
                    "units of length and mass in which smoothing_length and rest_density are near 1"
                )

    def require_valid(self, positions: FloatArray) -> None:
        """Refuse positions that have no place in the box, and a box that their precision cannot hold.

        Args:
            positions: (N, 2) floating point, any finite coordinate (periodic).

        Raises:
            ValueError: see `require_representable`.
            InvalidPositionsError: wrong shape or dtype; or a coordinate is NaN, infinite, or at least
                `coordinate_limit`; the first such row is named.
        """
        if positions.ndim != 2 or positions.shape[1] != 2:
            raise InvalidPositionsError(f"positions have shape {positions.shape}; expected (N, 2)")
        if positions.dtype not in (np.float32, np.float64):
            raise InvalidPositionsError(f"positions have dtype {positions.dtype}; expected float32 or float64")
        self.require_representable(positions.dtype)
        limit = self.coordinate_limit(positions.dtype)
        bad = np.flatnonzero(~(np.abs(positions) < limit).all(axis=1))
        if bad.size:
            row = int(bad[0])
            raise InvalidPositionsError(
                f"position row {row} is {positions[row].tolist()}; coordinates must be finite and below {limit:.3g} in "
                f"magnitude (box length / {positions.dtype} epsilon); {bad.size} of {len(positions)} rows are bad"
            )
