"""The six operations as plain composites of a library's own array operations, to check and to time against.

The formulas stand here once, for every library; a subclass of `Plain` says how its library adds up segments. Nothing
here imports a framework until its class is made.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
from typing_extensions import override


class Plain:
    """Six functions with the arguments of `jax_ops` and `torch_ops`, over the arrays of one library.

    Whatever the library differentiates, compiles or maps, it does to these by rules of its own. Ids are not checked.

    Attributes:
        namespace: module with the library's functions of arrays.
    """

    namespace: ModuleType

    def add(self, x: Any, idx: Any, segments: int) -> Any:
        """The sum of the rows of x (N,) or (N, K) in each segment."""
        raise NotImplementedError

    def take(self, y: Any, idx: Any) -> Any:
        """The row of y (M, ...) that belongs to each element."""
        return y[idx]

    def dot(self, x: Any, y: Any) -> Any:
        """The inner product (N,) of each row of x and of y, both (N, K)."""
        return (x * y).sum(1)

    def apply(self, v: Any, m: Any) -> Any:
        """Each row of v (N, K) times the transpose of its matrix of m (N, K, K)."""
        return self.namespace.einsum("ik,ikl->il", v, m)

    def segmented_sum(self, x: Any, idx: Any, num_segments: int) -> Any:
        """`out[s] = sum_i x[i]`."""
        return self.add(x, idx, num_segments)

    def segmented_mean(self, x: Any, idx: Any, num_segments: int) -> Any:
        """`out[s] = sum_i x[i] / count[s]`, zero for an empty segment."""
        count = self.add(self.namespace.ones_like(idx, dtype=x.dtype), idx, num_segments).clip(min=1)
        return self.add(x, idx, num_segments) / _beside(count, x)

    def segmented_dot(self, x: Any, y: Any, idx: Any, num_segments: int) -> Any:
        """`out[s] = sum_i x[i] . y[i]`."""
        return self.add(x * y if x.ndim == 1 else self.dot(x, y), idx, num_segments)

    def segmented_mul(self, x: Any, y: Any, idx: Any, num_segments: int) -> Any:
        """`out[i] = x[i] * y[idx[i]]`."""
        return x * _beside(self.take(y, idx), x)

    def segmented_rms_norm(self, x: Any, idx: Any, num_segments: int) -> Any:
        """`out[s] = sqrt(sum_i |x[i]|^2 / count[s])`, with derivatives of zero where it is zero."""
        square = self.segmented_mean(self.dot(x, x), idx, num_segments)
        where, zero = self.namespace.where, square == 0
        return where(zero, 0, self.namespace.sqrt(where(zero, 1, square)))

    def segmented_matvec(self, v: Any, m: Any, idx: Any, num_segments: int) -> Any:
        """`out[i] = m[idx[i]]^T v[i]`."""
        return self.apply(v, self.take(m, idx))


def _beside(scalars: Any, rows: Any) -> Any:
    """A scalar for each row, shaped so that it multiplies the row."""
    return scalars if rows.ndim == 1 else scalars[:, None]


class NumpyPlain(Plain):
    """Over NumPy arrays."""

    namespace = np

    @override
    def add(self, x: np.ndarray, idx: np.ndarray, segments: int) -> np.ndarray:
        out = np.zeros((segments, *x.shape[1:]), x.dtype)
        np.add.at(out, idx, x)
        return out


class JaxPlain(Plain):
    """Over JAX arrays."""

    def __init__(self) -> None:
        self._jax = importlib.import_module("jax")
        self.namespace = self._jax.numpy

    @override
    def add(self, x: Any, idx: Any, segments: int) -> Any:
        return self._jax.ops.segment_sum(x, idx, num_segments=segments)


class TorchPlain(Plain):
    """Over Torch tensors."""

    def __init__(self) -> None:
        self.namespace = importlib.import_module("torch")

    @override
    def add(self, x: Any, idx: Any, segments: int) -> Any:
        return x.new_zeros(segments, *x.shape[1:]).index_add(0, idx, x)

    @override
    def take(self, y: Any, idx: Any) -> Any:
        return y.index_select(0, idx)  # its backward is faster than that of y[idx]
