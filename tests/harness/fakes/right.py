"""A right implementation in NumPy, over all pairs: what every fake derives from. Names no number of its own."""

import numpy as np

from harness.contract.protocol import Counted, Description, Implementation


class Right(Implementation):
    description = Description(
        title="All pairs",
        framework="NumPy",
        neighbours="all pairs",
        adjoint="closed form",
        pair_slots="N^2",
    )

    def __init__(self, problem, positions, device, dtype):
        problem.require_valid(positions)
        self.problem, self.dtype = problem, np.dtype(dtype)

    def loss(self, x):
        self.problem.require_valid(x)
        residual = self._residual(self._pairs(x)[1])
        return np.sum(residual**2).astype(self.dtype)

    def grad(self, x):
        self.problem.require_valid(x)
        d, r = self._pairs(x)
        residual = self._residual(r)
        slope = np.divide(self._spline_derivative(r), r, out=np.zeros_like(r), where=r > 0)
        weight = 2 * self.problem.mass * (residual[:, None] + residual) * slope
        return np.einsum("ij,ijk->ik", weight, d).astype(self.dtype)

    def counts(self, x):
        near = self._pairs(x)[1] < self.problem.cutoff
        return Counted(true_pairs=int(np.count_nonzero(near)) - len(x), pair_slots=len(x) ** 2)

    def expected_pair_slots(self, counts):
        return counts.n**2

    def _pairs(self, x):
        length = self.problem.box_length
        wrapped = np.mod(x.astype(np.float64), length)
        d = wrapped[:, None] - wrapped
        d -= length * np.round(d / length)
        return d, np.sqrt(np.sum(d**2, axis=-1))

    def _residual(self, r):
        return self.problem.mass * self._spline(r).sum(axis=1) - self.problem.rest_density

    def _spline(self, r):
        q = r / self.problem.smoothing_length
        inner, outer = 1 - 1.5 * q**2 + 0.75 * q**3, 0.25 * np.maximum(2 - q, 0) ** 3
        return self.problem.kernel_normalisation * np.where(q < 1, inner, outer)

    def _spline_derivative(self, r):
        h = self.problem.smoothing_length
        q = r / h
        inner, outer = -3 * q + 2.25 * q**2, -0.75 * np.maximum(2 - q, 0) ** 2
        return self.problem.kernel_normalisation / h * np.where(q < 1, inner, outer)
