"""The six segment operations for JAX: one primitive, right under every transform.

The primitive computes a programme of `family`, and its rules are the family's own: the tangent programme, the cotangent
programme, and batching by giving each example its own segments. jit, grad, jvp, vmap, hessians, derivatives of any
order, scan, cond and checkpoint follow from these three.

Arrays are float32 or float64, ids int32 or int64 in any order, `num_segments` is static. Ids are checked where their
values are known; where they are traced, elements whose id is outside `[0, num_segments)` are dropped in value and
gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import warp as wp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, xla
from jax.sharding import PartitionSpec

from implementations.segment_ops import family, kernels
from implementations.segment_ops.family import COUNT, Program, Term

Array = jax.Array

_product_p = Primitive("segment_product")
_product_p.multiple_results = True
_WHOLE = PartitionSpec()


# -- the primitive -----------------------------------------------------------------------------------------------------


def _product(program: Program, segments: int, idx: Array, *operands: Array) -> list[Array]:
    """The outputs of a programme. `idx` (N,) int32; operands and outputs have the shapes of their subscripts."""
    return _product_p.bind(*_on_one_footing(idx, *operands), program=program, segments=segments)


def _on_one_footing(*arrays: Array) -> list[Array]:
    """The arrays varying over the same manual mesh axes, and whole on every device of the explicit ones.

    Both casts are linear and know their transposes: the cotangent of what all devices share is summed over them.
    """
    types = [jax.typeof(array) for array in arrays]
    varying = frozenset[str]().union(*(of.manual_axis_type.varying for of in types))
    cast = []
    for array, of in zip(arrays, types, strict=True):
        for axis in sorted(varying - of.manual_axis_type.varying):
            array = jax.lax.pcast(array, axis, to="varying")
        if any(of.sharding.spec):
            array = jax.sharding.reshard(array, of.sharding.update(spec=_WHOLE))
        cast.append(array)
    return cast


@_product_p.def_abstract_eval
def _abstract(idx: Any, *operands: Any, program: Program, segments: int) -> list[ShapedArray]:
    shapes = family.output_shapes(program, idx.shape[0], segments, [operand.shape for operand in operands])
    footing = {"sharding": idx.sharding.update(spec=_WHOLE), "manual_axis_type": idx.manual_axis_type}
    return [ShapedArray(shape, operands[0].dtype, **footing) for shape in shapes]


@cache
def _ffi_kernel(program: Program, width: int, dtype: str) -> Any:
    sums = [f"o{n}" for n, result in enumerate(family.results(program)) if family.is_reduction(result)]
    return wp.jax_kernel(
        kernels.build_kernel(program, width, dtype),
        num_outputs=len(program),
        in_out_argnames=sums,
        vmap_method=None,  # batching belongs to the primitive; were it to get here, fail rather than guess
    )


def _launch(idx: Array, *operands: Array, program: Program, segments: int, cuda: bool) -> list[Array]:
    rows, dtype = idx.shape[0], operands[0].dtype
    shapes = family.output_shapes(program, rows, segments, [operand.shape for operand in operands])
    if rows == 0 or segments == 0 or any(operand.size == 0 for operand in operands):
        return [jnp.zeros(shape, dtype) for shape in shapes]
    order = kernels.output_order(program)
    sums = [n for n in order if family.is_reduction(family.results(program)[n])]
    width = family.width_of([operand.shape for operand in operands])
    chunk, threads = kernels.launch_size(program, rows, segments, cuda)
    out = _ffi_kernel(program, width, dtype.name)(
        *operands,
        idx,
        chunk,
        segments,
        width,
        *(jnp.zeros(shapes[n], dtype) for n in sums),
        launch_dims=threads,
        output_dims={f"o{n}": shapes[n] for n in order},
    )
    return [out[order.index(n)] for n in range(len(program))]


for _platform in ("cpu", "cuda"):
    mlir.register_lowering(
        _product_p,
        mlir.lower_fun(partial(_launch, cuda=_platform == "cuda"), multiple_results=True),
        platform=_platform,
    )
_product_p.def_impl(partial(xla.apply_primitive, _product_p))


# -- its rules ---------------------------------------------------------------------------------------------------------


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, program: Program, segments: int) -> tuple[Any, Any]:
    idx, *operands = primals
    out = _product(program, segments, idx, *operands)
    zeros = [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in out]
    moving = tuple(not isinstance(tangent, ad.Zero) for tangent in tangents[1:])
    derivative, picked, moves = family.tangent(program, moving)
    both = [*operands, *tangents[1:]]
    dots = iter(_product(derivative, segments, idx, *(both[n] for n in picked))) if derivative else iter(())
    return out, [next(dots) if move else zero for move, zero in zip(moves, zeros, strict=True)]


def _transpose(cotangents: Sequence[Any], idx: Any, *operands: Any, program: Program, segments: int) -> list[Any]:
    wanted = tuple(map(ad.is_undefined_primal, operands))
    given = tuple(not isinstance(cotangent, ad.Zero) for cotangent in cotangents)
    derivative, picked, gets = family.cotangent(program, wanted, given)
    both = [*operands, *cotangents]
    bars = iter(_product(derivative, segments, idx, *(both[n] for n in picked))) if derivative else iter(())
    return [None, *(next(bars) if get else None for get in gets)]


def _batch(args: Sequence[Any], axes: Sequence[Any], *, program: Program, segments: int) -> tuple[Any, Any]:
    """Give every example its own rows and its own segments, and compute all in one call."""
    size = next(arg.shape[axis] for arg, axis in zip(args, axes, strict=True) if axis is not None)
    idx, *operands = (batching.bdim_at_front(arg, axis, size) for arg, axis in zip(args, axes, strict=True))
    shapes = family.output_shapes(program, idx.shape[1], segments, [operand.shape[1:] for operand in operands])
    inside = (idx >= 0) & (idx < segments)
    offset = jnp.arange(size, dtype=idx.dtype)[:, None] * segments
    own = jnp.where(inside, idx + offset, -1).reshape(-1)
    rows = (a.reshape(size * a.shape[1], *a.shape[2:]) for a in operands)  # -1 has no value in an empty array
    out = _product(program, size * segments, own, *rows)
    return [a.reshape(size, *shape) for a, shape in zip(out, shapes, strict=True)], [0] * len(out)


ad.primitive_jvps[_product_p] = _jvp
ad.primitive_transposes[_product_p] = _transpose
batching.primitive_batchers[_product_p] = _batch


# -- the operations ----------------------------------------------------------------------------------------------------


def _check(op: str, idx: Any, num_segments: Any, **operands: Any) -> tuple[str, int, Any]:
    """The call's formula and number of segments, and its ids as an array; see `family.check_arguments`."""
    ids = idx if hasattr(idx, "dtype") else np.asarray(idx)
    formula, segments = family.check_arguments(op, operands, ids, num_segments)
    if ids.size and not isinstance(ids, jax.core.Tracer):
        with jax.ensure_compile_time_eval():  # concrete ids are checked even inside a trace
            family.check_range(op, int(ids.min()), int(ids.max()), segments)
    return formula, segments, ids


def _narrow(idx: Array, segments: int) -> Array:
    """The ids in 32 bits; those that do not fit are outside, and stay so."""
    if idx.dtype == jnp.int32:
        return idx
    return jnp.where((idx >= 0) & (idx < segments), idx, -1).astype(jnp.int32)


@partial(jax.jit, static_argnums=(0, 1))
def _plain(formula: str, segments: int, idx: Array, *operands: Array) -> Array:
    (out,) = _product(((Term(formula, tuple(range(len(operands)))),),), segments, _narrow(idx, segments), *operands)
    return out


@partial(jax.jit, static_argnums=(0, 1))
def _mean(formula: str, segments: int, idx: Array, x: Array) -> Array:
    total, count = _product(((Term(formula, (0,)),), COUNT), segments, _narrow(idx, segments), x)
    count = jnp.maximum(count, 1)
    return total / (count if x.ndim == 1 else count[:, None])


@partial(jax.jit, static_argnums=(0, 1))
def _rms_norm(formula: str, segments: int, idx: Array, x: Array) -> Array:
    square, count = _product(((Term(formula, (0, 0)),), COUNT), segments, _narrow(idx, segments), x)
    square = square / jnp.maximum(count, 1)
    zero = square == 0  # its derivatives are zero; a NaN is not zero, and stays a NaN
    return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, 1, square)))


def segmented_sum(x: Array, idx: Array, num_segments: int) -> Array:
    """Sum of the rows of each segment: `out[s] = sum_{i: idx[i] = s} x[i]`.

    Args:
        x: (N,) or (N, K), float32 or float64.
        idx: (N,) int32 or int64, ids in [0, num_segments) in any order.
        num_segments: the number of segments M, a static int.

    Returns:
        (M,) or (M, K) of the dtype of x; zero for an empty segment.

    Raises:
        TypeError: a dtype is not supported, or two differ.
        ValueError: a rank, a length or a shape does not fit, or a known id is out of range.
    """
    x = jnp.asarray(x)
    formula, segments, idx = _check("segmented_sum", idx, num_segments, x=x)
    return _plain(formula, segments, idx, x)


def segmented_mean(x: Array, idx: Array, num_segments: int) -> Array:
    """Mean of the rows of each segment: `out[s] = sum_{i: idx[i] = s} x[i] / count[s]`, zero for an empty segment.

    x : (N,) or (N, K). Returns (M,) or (M, K). Ids, dtypes and errors as in `segmented_sum`.
    """
    x = jnp.asarray(x)
    formula, segments, idx = _check("segmented_mean", idx, num_segments, x=x)
    return _mean(formula, segments, idx, x)


def segmented_dot(x: Array, y: Array, idx: Array, num_segments: int) -> Array:
    """Sum of the rows' inner products in each segment: `out[s] = sum_{i: idx[i] = s} x[i] . y[i]`.

    x, y : (N,) or (N, K), the same shape. Returns (M,). Ids, dtypes and errors as in `segmented_sum`.
    """
    x, y = jnp.asarray(x), jnp.asarray(y)
    formula, segments, idx = _check("segmented_dot", idx, num_segments, x=x, y=y)
    return _plain(formula, segments, idx, x, y)


def segmented_mul(x: Array, y: Array, idx: Array, num_segments: int) -> Array:
    """Each row times its segment's scalar: `out[i] = x[i] * y[idx[i]]`.

    x : (N,) or (N, K); y : (M,). Returns the shape of x. Ids, dtypes and errors as in `segmented_sum`.
    """
    x, y = jnp.asarray(x), jnp.asarray(y)
    formula, segments, idx = _check("segmented_mul", idx, num_segments, x=x, y=y)
    return _plain(formula, segments, idx, x, y)


def segmented_rms_norm(x: Array, idx: Array, num_segments: int) -> Array:
    """Root mean square norm of each segment's rows: `out[s] = sqrt(sum_{i: idx[i] = s} |x[i]|^2 / count[s])`.

    An empty or all-zero segment has value zero and zero derivatives; a NaN makes its segment's value and gradient NaN.

    x : (N, K). Returns (M,). Ids, dtypes and errors as in `segmented_sum`.
    """
    x = jnp.asarray(x)
    formula, segments, idx = _check("segmented_rms_norm", idx, num_segments, x=x)
    return _rms_norm(formula, segments, idx, x)


def segmented_matvec(v: Array, m: Array, idx: Array, num_segments: int) -> Array:
    """Each row times the transpose of its segment's matrix: `out[i] = m[idx[i]]^T v[i]`.

    v : (N, K); m : (M, K, K). Returns (N, K). Ids, dtypes and errors as in `segmented_sum`.
    """
    v, m = jnp.asarray(v), jnp.asarray(m)
    formula, segments, idx = _check("segmented_matvec", idx, num_segments, v=v, m=m)
    return _plain(formula, segments, idx, v, m)
