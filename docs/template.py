"""A row in NumPy over SciPy's periodic k-d tree. Copy it, change it, then: pairgrad check --impl my_module.py"""

import numpy as np
from scipy.spatial import cKDTree

from harness.contract.protocol import Counted, Description, Implementation, mismatch


class KDTree(Implementation):
    description = Description(
        title="NumPy k-d tree", framework="NumPy", neighbours="SciPy k-d tree", adjoint="hand-written",
        pair_slots="true pairs / 2, each pair once", packages=("numpy", "scipy"),
    )  # fmt: skip

    def __init__(self, problem, positions, device, dtype):
        self.problem, self.shape, self.dtype = problem, positions.shape, np.dtype(dtype)

    def _pairs(self, x):
        if not isinstance(x, np.ndarray) or (x.dtype, x.shape) != (self.dtype, self.shape):
            raise mismatch(f"{type(x).__name__} {np.shape(x)}", f"{self.dtype} {self.shape}")
        self.problem.require_valid(x)
        length = self.problem.box_length
        wrapped = x.astype(np.float64) % length % length  # twice: a tiny negative coordinate rounds up to L
        i, j = cKDTree(wrapped, boxsize=length).query_pairs(self.problem.cutoff, output_type="ndarray").T
        d = wrapped[i] - wrapped[j]
        d -= length * np.round(d / length)
        return i, j, d, np.sqrt((d**2).sum(axis=1))

    def _residual(self, n, i, j, r):
        p, q = self.problem, r / self.problem.smoothing_length
        w = p.mass * p.kernel_normalisation * (0.25 * (2 - q) ** 3 - np.maximum(1 - q, 0) ** 3)
        return p.mass * p.kernel_normalisation - p.rest_density + np.bincount(i, w, n) + np.bincount(j, w, n)

    def loss(self, x):
        i, j, _, r = self._pairs(x)
        return self.dtype.type((self._residual(len(x), i, j, r) ** 2).sum())

    def grad(self, x):
        i, j, d, r = self._pairs(x)
        p, q, e = self.problem, r / self.problem.smoothing_length, self._residual(len(x), i, j, r)
        slope = p.kernel_normalisation / p.smoothing_length * (3 * np.maximum(1 - q, 0) ** 2 - 0.75 * (2 - q) ** 2)
        pull = (2 * p.mass * (e[i] + e[j]) * slope / np.where(r > 0, r, 1))[:, None] * d
        return np.stack([np.bincount(i, c, len(x)) - np.bincount(j, c, len(x)) for c in pull.T], 1, dtype=self.dtype)

    def counts(self, x):
        pairs = len(self._pairs(x)[0])
        return Counted(true_pairs=2 * pairs, pair_slots=pairs)

    def expected_pair_slots(self, counts):
        return counts.true_pairs // 2
