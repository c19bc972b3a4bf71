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

    def cells_per_side(self, n: int, subdivision: int = 1) -> int:
        """Cells along one side of the cell list: as many as fit with a width of at least cutoff / subdivision.

        Never more than subdivision * ceil(sqrt(n)) (at least 3 * subdivision), so that a huge and nearly empty box
        costs memory of the order of n. A ratio that falls short of a whole number by rounding alone counts as that
        number.

        Args:
            n: number of particles.
            subdivision: cells per cutoff; the stencil then reaches `subdivision` cells to each side.

        Returns:
            nc >= 1. With fewer than 2 * subdivision + 1 cells a stencil visits each distinct cell once.
        """
        fitting = self.box_length / self.cutoff * subdivision * (1.0 + 4.0 * np.finfo(np.float64).eps)
        most = subdivision * max(3, math.isqrt(max(n - 1, 0)) + 1)
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

    def require_valid(self, positions: FloatArray) -> None:
        """Refuse positions that have no place in the box.

        Args:
            positions: (N, 2) floating point, any finite coordinate (periodic).

        Raises:
            InvalidPositionsError: wrong shape or dtype; or a coordinate is NaN, infinite, or at least
                `coordinate_limit`; the first such row is named.
        """
        if positions.ndim != 2 or positions.shape[1] != 2:
            raise InvalidPositionsError(f"positions have shape {positions.shape}; expected (N, 2)")
        if positions.dtype not in (np.float32, np.float64):
            raise InvalidPositionsError(f"positions have dtype {positions.dtype}; expected float32 or float64")
        limit = self.coordinate_limit(positions.dtype)
        bad = np.flatnonzero(~(np.abs(positions) < limit).all(axis=1))
        if bad.size:
            row = int(bad[0])
            raise InvalidPositionsError(
                f"position row {row} is {positions[row].tolist()}; coordinates must be finite and below {limit:.3g} in "
                f"magnitude (box length / {positions.dtype} epsilon); {bad.size} of {len(positions)} rows are bad"
            )
