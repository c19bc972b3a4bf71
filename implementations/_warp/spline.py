"""The cubic spline W in Warp, without branches.

    W(r) = C (2 t^3 - s^3)        t = max(2h - r, 0)        s = max(2h - 2r, 0)        C = sigma / (2h)^3

The second term lives on r < h alone, and both vanish from 2h on. Parameters are arguments, never literals: a literal
with a fraction that float32 cannot hold would lose it on the way into a float64 kernel.
"""

from __future__ import annotations

from typing import Any

import warp as wp

from harness.problems.sph2d import Sph2d


def spline_scale(problem: Sph2d) -> float:
    """m C = m sigma / (2h)^3."""
    return problem.mass * problem.kernel_normalisation / problem.cutoff**3


@wp.func
def spline(r: Any, support: Any) -> Any:
    """W / C at distance r >= 0; support is 2h."""
    zero = type(r)(0.0)
    two = type(r)(2.0)
    t = wp.max(support - r, zero)
    s = wp.max(support - two * r, zero)
    return two * t * t * t - s * s * s
