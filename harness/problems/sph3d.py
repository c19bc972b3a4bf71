"""`sph3d`: the SPH density loss in three dimensions, about 50 neighbours each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from harness.contract.problem import FloatArray
from harness.contract.scenario import Scenario, sized
from harness.problems.draw import clustered, julia_uniform
from harness.problems.sph import Sph

SEED = 42
NUMBER_DENSITY = 12.0


@dataclass(frozen=True, slots=True)
class Sph3d(Sph):
    """Parameters as in `Sph`; rho_0 is the number density."""

    name: ClassVar[str] = "sph3d"
    dimension: ClassVar[int] = 3
    number_density: ClassVar[float] = NUMBER_DENSITY
    length_power: ClassVar[int] = 10
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


SCENARIOS: Mapping[str, Scenario] = {
    "uniform": sized("uniform", Sph3d.of_size, uniform_positions),
    "clustered": sized("clustered", Sph3d.of_size, clustered_positions),
}
