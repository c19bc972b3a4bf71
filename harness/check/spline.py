"""The oracle's kernel, apart from it: a worker's hints need W alone, and no SciPy."""

from __future__ import annotations

import numpy as np

from harness.contract.problem import FloatArray


def spline(r: FloatArray, h: float) -> FloatArray:
    """Cubic spline W(r, h) in two dimensions (Monaghan 1992), any shape, zero from 2h on."""
    q = r / h
    inner = 1.0 - 1.5 * q**2 + 0.75 * q**3
    outer = 0.25 * np.maximum(2.0 - q, 0.0) ** 3
    return 10.0 / (7.0 * np.pi * h * h) * np.where(q < 1.0, inner, outer)


def spline_derivative(r: FloatArray, h: float) -> FloatArray:
    """dW/dr, any shape."""
    q = r / h
    inner = -3.0 * q + 2.25 * q**2
    outer = -0.75 * np.maximum(2.0 - q, 0.0) ** 2
    return 10.0 / (7.0 * np.pi * h**3) * np.where(q < 1.0, inner, outer)
