"""What SPH density losses of any dimension share.

    rho_i = sum_j m W(|x_i - x_j|, h)        with the self term
    loss  = sum_i (rho_i - rho0)^2

W is the cubic spline of Monaghan (1992), support radius 2h. In the form of `harness.contract.problem`: f = m W,
F(s) = (s - rho0)^2.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.contract.problem import FloatArray, Problem, require_positive


@dataclass(frozen=True, slots=True)
class Sph(Problem):
    """Parameters of an SPH density loss; no implementation writes one as a literal.

    Attributes:
        box_length: side L of the periodic box.
        smoothing_length: h; the kernel's support radius is 2h.
        mass: m, the same for every particle.
        rest_density: rho_0.

    Raises:
        ValueError: a length or the mass is not a positive finite number, or rest_density is not finite.
    """

    way_out: ClassVar[str] = "length and mass in which smoothing_length and rest_density are near 1"
    length_root: ClassVar[int]
    """Of h, see `limits`."""

    box_length: float
    smoothing_length: float = 0.5
    mass: float = 1.0
    rest_density: float = 1.0

    def __post_init__(self) -> None:
        require_positive(box_length=self.box_length, smoothing_length=self.smoothing_length, mass=self.mass)
        if not math.isfinite(self.rest_density):
            raise ValueError(f"rest_density is {self.rest_density!r}; it must be finite")

    @property
    @abstractmethod
    def kernel_normalisation(self) -> float:
        """sigma, which makes W integrate to one over space."""

    @property
    def cutoff(self) -> float:
        """Support radius 2h: pairs at this distance or more do not interact."""
        return 2.0 * self.smoothing_length

    @property
    def unit(self) -> float:
        """h."""
        return self.smoothing_length

    @property
    def self_term(self) -> float:
        """m W(0)."""
        return self.mass * self.kernel_normalisation

    def pair(self, r: FloatArray) -> FloatArray:
        """m W(r)."""
        q = r / self.smoothing_length
        inner = 1.0 - 1.5 * q**2 + 0.75 * q**3
        outer = 0.25 * np.maximum(2.0 - q, 0.0) ** 3
        return self.self_term * np.where(q < 1.0, inner, outer)

    def pair_derivative(self, r: FloatArray) -> FloatArray:
        """m dW/dr."""
        q = r / self.smoothing_length
        inner = -3.0 * q + 2.25 * q**2
        outer = -0.75 * np.maximum(2.0 - q, 0.0) ** 2
        return self.self_term / self.smoothing_length * np.where(q < 1.0, inner, outer)

    def particle(self, s: FloatArray) -> FloatArray:
        """(rho - rho0)^2."""
        return np.asarray((s - self.rest_density) ** 2)

    def particle_derivative(self, s: FloatArray) -> FloatArray:
        """2 (rho - rho0)."""
        return 2.0 * (s - self.rest_density)

    def magnitude(self, s: FloatArray) -> float:
        """Sum of squared densities, from each of which rho0 is taken."""
        return float(np.sum(s**2))

    @property
    def parameters(self) -> dict[str, float]:
        """L, h, m and rho0."""
        return {"L": self.box_length, "h": self.smoothing_length, "m": self.mass, "rho0": self.rest_density}

    def mistaken_losses(self, s: FloatArray) -> Mapping[str, float]:
        """A mean in place of a sum, no self term, pairs or everything twice."""
        right = self.particle(s)
        return {
            "mean instead of sum?": float(np.mean(right)),
            "the self term m W(0) is missing": float(np.sum(self.particle(s - self.self_term))),
            "every pair counted twice?": float(np.sum(self.particle(2.0 * s - self.self_term))),
            "every pair and the self term counted twice?": float(np.sum(self.particle(2.0 * s))),
        }

    @property
    def limits(self) -> Mapping[str, tuple[float, int]]:
        """Rows form the power d + 3 of h, the square of L, and, in an adjoint, the square of a density over that of h.

        Within these bounds contributions ten million times smaller or larger are normal numbers too.
        """
        return {
            "smoothing_length": (self.smoothing_length, self.length_root),
            "box_length": (self.box_length, 3),
            "mass * kernel_normalisation": (self.self_term, 4),
            "rest_density": (max(abs(self.rest_density), 1.0), 4),  # any small one will do
        }
