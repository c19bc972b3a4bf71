"""Statistics of timed calls: what both the run that takes samples and the report that reads them mean by a median."""

from __future__ import annotations

import msgspec
import numpy as np

NOISY_SPREAD = 0.10
"""An interquartile range above this share of the median marks a case as noisy."""
FLOOR_S_PER_SLOT = 0.05e-9
"""No core or multiprocessor evaluates a pair slot faster; a quicker sample did not do the work."""
STALL_RATIO, STALL_S = 5.0, 0.1
"""A sample this many times its median, and this long, looks like a compilation."""


class Samples(msgspec.Struct, frozen=True):
    """Seconds of repeated calls."""

    seconds: list[float]

    @property
    def median(self) -> float:
        """Median, seconds."""
        return float(np.median(self.seconds))

    @property
    def quartiles(self) -> tuple[float, float]:
        """The lower and the upper one, seconds."""
        low, high = np.percentile(self.seconds, (25, 75))
        return float(low), float(high)

    @property
    def iqr(self) -> float:
        """Interquartile range, seconds."""
        low, high = self.quartiles
        return high - low

    @property
    def spread(self) -> float:
        """Interquartile range over median."""
        return self.iqr / self.median if self.median > 0.0 else float("inf") if self.iqr else 0.0

    @property
    def stalls(self) -> int:
        """Samples so far above the median that something was compiled, or the machine stood still."""
        return sum(s > STALL_RATIO * self.median and s > STALL_S for s in self.seconds)

    def below_floor(self, pair_slots: int, cores: int) -> bool:
        """Whether the quickest sample is quicker than the pair slots can be evaluated."""
        return min(self.seconds) < FLOOR_S_PER_SLOT * pair_slots / max(cores, 1)
