"""What every implementation differentiates: a functional of particle pairs in a periodic cube of d dimensions.

    s_i = f(0) + sum_{j != i, r_ij < rc} f(r_ij)          L(x) = sum_i F(s_i)
    dL/dx_i = sum_{j != i} [F'(s_i) + F'(s_j)] f'(r_ij) / r_ij (x_i - x_j)          minimum image

Smoothed-particle densities, pair potentials and embedded-atom models have this form. Neighbour search sees the box, d
and the cutoff alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating]


class InvalidPositionsError(ValueError):
    """Positions no periodic box can hold: not an (N, d) array, not finite, or without precision inside the box."""


class Problem(ABC):
    """A pair functional and its periodic cube; subclasses are frozen dataclasses of its parameters.

    Lengths share one arbitrary unit. Functions take and return arrays of any shape, float64.

    Attributes:
        name: of the problem, in records and on the command line.
        dimension: d.
        number_density: particles per unit volume where the size of the box follows from their number.
        way_out: which units to choose, where a precision cannot hold the parameters.
        box_length: side L of the periodic cube.
    """

    __slots__ = ()

    name: ClassVar[str]
    dimension: ClassVar[int]
    number_density: ClassVar[float]
    way_out: ClassVar[str]
    box_length: float

    @classmethod
    def of_size(cls, n: int) -> Self:
        """The problem for n particles: L keeps their number density, and so their neighbours."""
        return cls(box_length=(max(n, 1) / cls.number_density) ** (1.0 / cls.dimension))  # type: ignore[call-arg]

    @property
    @abstractmethod
    def cutoff(self) -> float:
        """rc: pairs at this distance or more do not interact."""

    @property
    @abstractmethod
    def unit(self) -> float:
        """The length over which f changes: displacements of checks are measured in it."""

    @property
    @abstractmethod
    def self_term(self) -> float:
        """f(0), or 0 where a particle is no neighbour of itself."""

    @abstractmethod
    def pair(self, r: FloatArray) -> FloatArray:
        """f(r), zero from the cutoff on."""

    @abstractmethod
    def pair_derivative(self, r: FloatArray) -> FloatArray:
        """df/dr, zero from the cutoff on."""

    @abstractmethod
    def particle(self, s: FloatArray) -> FloatArray:
        """F(s)."""

    @abstractmethod
    def particle_derivative(self, s: FloatArray) -> FloatArray:
        """dF/ds."""

    @abstractmethod
    def magnitude(self, s: FloatArray) -> float:
        """Size of what adds and cancels in the loss of particles with these sums: its rounding is relative to this."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, float]:
        """What a record says of it, by the field's symbols; lengths and energies in the problem's units."""

    def mistaken_losses(self, s: FloatArray) -> Mapping[str, float]:
        """Losses that common mistakes give where s is right, by the words of a hint."""
        return {}

    @property
    @abstractmethod
    def limits(self) -> Mapping[str, tuple[float, int]]:
        """Value of each parameter, and the root of a precision's largest number that bounds it and its inverse.

        Between these bounds every power that rows form is a normal number.
        """

    def require_representable(self, dtype: npt.DTypeLike) -> None:
        """Refuse parameters with which a row would compute zeros or infinities out of right positions.

        Args:
            dtype: precision of the positions.

        Raises:
            ValueError: naming the parameter, its value and the limits, see `limits`.
        """
        name, largest = np.dtype(dtype).name, float(np.finfo(np.dtype(dtype)).max)
        for what, (value, root) in self.limits.items():
            limit = largest ** (1.0 / root)
            if not 1.0 / limit <= value <= limit:
                raise ValueError(
                    f"{what} is {value:.3g}; in {name} it must lie between {1.0 / limit:.2g} and {limit:.2g}: choose "
                    f"units of {self.way_out}"
                )

    def cells_per_side(self, n: int) -> int:
        """Cells along one side of the cell list: as many as fit with a width of at least the cutoff.

        Never more than ceil(n^(1/d)) (at least 3), so that a huge and nearly empty box costs memory of the order of
        n. A ratio that falls short of a whole number by rounding alone counts as that number.

        Args:
            n: number of particles.

        Returns:
            nc >= 1. With fewer than 3 cells a stencil visits each distinct cell once.
        """
        fitting = self.box_length / self.cutoff * (1.0 + 4.0 * np.finfo(np.float64).eps)
        return max(1, int(min(fitting, max(3, root_rounded_up(n, self.dimension)))))

    def cell_coordinates(self, positions: FloatArray, cells_per_side: int) -> npt.NDArray[np.int64]:
        """Cell of every coordinate, by the rule every implementation follows bit for bit, in the positions' precision.

        wrapped = positions mod L (exact remainder, in [0, L)); cell = min(floor(wrapped * (nc / L)), nc - 1), with L
        and nc / L rounded to the positions' dtype. A remainder that rounds up to L belongs to the last cell.

        Args:
            positions: (N, d) finite float32 or float64.
            cells_per_side: nc.

        Returns:
            (N, d) integers in [0, nc).
        """
        real = positions.dtype.type
        wrapped = np.mod(positions, real(self.box_length))
        cells = np.floor(wrapped * real(cells_per_side / self.box_length)).astype(np.int64)
        return np.minimum(cells, cells_per_side - 1)

    def coordinate_limit(self, dtype: npt.DTypeLike) -> float:
        """Coordinates of this magnitude or more are refused: one unit in the last place spans the whole box."""
        return self.box_length / float(np.finfo(np.dtype(dtype)).eps)

    def require_valid(self, positions: FloatArray) -> None:
        """Refuse positions that have no place in the box, and a box that their precision cannot hold.

        Args:
            positions: (N, d) floating point, any finite coordinate (periodic).

        Raises:
            ValueError: see `require_representable`.
            InvalidPositionsError: wrong shape or dtype; or a coordinate is NaN, infinite, or at least
                `coordinate_limit`; the first such row is named.
        """
        if positions.ndim != 2 or positions.shape[1] != self.dimension:
            raise InvalidPositionsError(f"positions have shape {positions.shape}; expected (N, {self.dimension})")
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


def require_positive(**values: float) -> None:
    """Refuse lengths, masses and energies that are none.

    Raises:
        ValueError: naming the first that is not positive and finite, and its value.
    """
    for name, value in values.items():
        if not 0.0 < value < np.inf:
            raise ValueError(f"{name} is {value!r}; it must be a positive finite number")


def root_rounded_up(n: int, d: int) -> int:
    """The smallest integer whose d-th power is at least n."""
    root = round(max(n, 0) ** (1.0 / d))
    return root + 1 if root**d < n else root
