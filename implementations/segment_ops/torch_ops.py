"""The six segment operations for Torch: one operator, right under autograd, torch.func, compile and export.

The operator computes a programme of `family` with one Warp kernel. An autograd function around it has the family's own
rules: the cotangent programme, the tangent programme, and batching by giving each example its own segments. Each rule
calls the function again, so derivatives of any order follow, compiled or not. The operator alone, which is what an
exported graph holds, has a backward too, but no tangent: there forward-mode AD raises NotImplementedError.

Tensors are float32 or float64, ids int32 or int64 in any order, all on one device. Ids are checked where their values
are known; where they are not (compiled, exported or mapped ids), elements whose id is outside `[0, num_segments)` are
dropped in value and gradient.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
import warp as wp
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad

from implementations.segment_ops import family, kernels
from implementations.segment_ops.family import COUNT, Program, Term

# -- the operator ------------------------------------------------------------------------------------------------------


@torch.library.custom_op("pairgrad::segment_product", mutates_args=(), device_types=("cpu", "cuda"))
def _segment_product(idx: Tensor, operands: list[Tensor], program: str, segments: int) -> list[Tensor]:
    """The outputs of a programme, given as text. `idx` (N,) int32; operands and outputs as their subscripts say."""
    if forward_ad._current_level >= 0 and torch._C._is_fwd_grad_enabled():
        raise NotImplementedError("segment operations in a compiled or exported graph have no forward-mode derivative")
    parsed, rows, first = _parse(program), idx.shape[0], operands[0]
    results = family.results(parsed)
    shapes = family.output_shapes(parsed, rows, segments, [operand.shape for operand in operands])
    if rows == 0 or segments == 0 or any(operand.numel() == 0 for operand in operands):
        return [first.new_zeros(shape) for shape in shapes]
    outputs = [
        (first.new_zeros if family.is_reduction(result) else first.new_empty)(shape)
        for result, shape in zip(results, shapes, strict=True)
    ]
    width, dtype = family.width_of([operand.shape for operand in operands]), family.dtype_name(first)
    chunk, threads = kernels.launch_size(parsed, rows, segments, first.is_cuda)

    def pointer(tensor: Tensor, subscript: str) -> Any:
        row = kernels.row_type(subscript, width, dtype)
        return wp.from_torch(tensor.contiguous(), dtype=row, requires_grad=False, return_ctype=True)

    wp.launch(
        kernels.build_kernel(parsed, width, dtype),
        dim=threads,
        inputs=[
            *map(pointer, operands, family.subscripts_of_operands(parsed)),
            wp.from_torch(idx.contiguous(), return_ctype=True),
            *(chunk, segments, width),
            *(pointer(outputs[n], results[n]) for n in kernels.output_order(parsed)),
        ],
        device=wp.device_from_torch(first.device),
        stream=wp.stream_from_torch(first.device) if first.is_cuda else None,
    )
    return outputs


@_segment_product.register_fake
def _fake(idx: Tensor, operands: list[Tensor], program: str, segments: int) -> list[Tensor]:
    shapes = family.output_shapes(_parse(program), idx.shape[0], segments, [operand.shape for operand in operands])
    return [operands[0].new_empty(shape) for shape in shapes]


@cache
def _parse(program: str) -> Program:
    return tuple(tuple(Term(*term) for term in output) for output in ast.literal_eval(program))


@cache
def _text(program: Program) -> str:
    return repr(tuple(tuple(tuple(term) for term in output) for output in program))


# -- its rules, for whichever of the two routes calls them -------------------------------------------------------------

_Product = Callable[[Tensor, list[Tensor], str, int], Sequence[Tensor]]


def _derivative(
    product: _Product,
    rule: tuple[Program, Sequence[int], Sequence[bool]],
    idx: Tensor,
    tensors: Sequence[Any],
    segments: int,
) -> list[Tensor | None]:
    """The outputs of a derivative's programme, and None where there is no derivative."""
    program, picked, present = rule
    out = iter(product(idx, [tensors[n] for n in picked], _text(program), segments) if program else ())
    return [next(out) if there else None for there in present]


def _fold(
    product: _Product, size: int, axes: Sequence[int | None], tensors: Sequence[Tensor], program: str, segments: int
) -> tuple[list[Tensor], list[int]]:
    """Give every example of a batch its own rows and its own segments, and compute all in one call."""
    idx, *operands = (
        tensor.expand(size, *tensor.shape) if axis is None else tensor.movedim(axis, 0)
        for tensor, axis in zip(tensors, axes, strict=True)
    )
    shapes = family.output_shapes(_parse(program), idx.shape[1], segments, [operand.shape[1:] for operand in operands])
    inside = (idx >= 0) & (idx < segments)
    offset = torch.arange(size, dtype=idx.dtype, device=idx.device)[:, None] * segments
    own = torch.where(inside, idx + offset, -1).flatten()
    out = product(own, [operand.flatten(0, 1) for operand in operands], program, size * segments)
    return [a.reshape(size, *shape) for a, shape in zip(out, shapes, strict=True)], [0] * len(out)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Sequence[Tensor]) -> None:
    idx, operands, ctx.program, ctx.segments = inputs
    ctx.save_for_backward(idx, *operands)


def _backward(ctx: Any, cotangents: Sequence[Tensor]) -> tuple[Any, ...]:
    idx, *operands = ctx.saved_tensors
    rule = family.cotangent(_parse(ctx.program), tuple(ctx.needs_input_grad[1]), (True,) * len(cotangents))
    return None, _derivative(_segment_product, rule, idx, [*operands, *cotangents], ctx.segments), None, None


_segment_product.register_autograd(_backward, setup_context=_save)


class _Transformable(torch.autograd.Function):
    """The operator with all its rules, the tangent's among them."""

    @staticmethod
    def forward(program: str, segments: int, idx: Tensor, *operands: Tensor) -> tuple[Tensor, ...]:
        return tuple(_segment_product(idx, list(operands), program, segments))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        program, ctx.segments, idx, *operands = inputs
        ctx.program = _parse(program)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(idx, *operands)
        ctx.save_for_forward(idx, *operands)
        ctx.mark_non_differentiable(*(out for out, terms in zip(output, ctx.program, strict=True) if terms == COUNT))

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:
        idx, *operands = ctx.saved_tensors
        given = tuple(cotangent is not None for cotangent in cotangents)
        rule = family.cotangent(ctx.program, tuple(ctx.needs_input_grad[3:]), given)
        return None, None, None, *_derivative(_transformable, rule, idx, [*operands, *cotangents], ctx.segments)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        idx, *operands = ctx.saved_tensors
        rule = family.tangent(ctx.program, tuple(tangent is not None for tangent in tangents[3:]))
        return tuple(_derivative(_transformable, rule, idx, [*operands, *tangents[3:]], ctx.segments))

    @staticmethod
    def vmap(info: Any, axes: Sequence[Any], program: str, segments: int, *tensors: Tensor) -> tuple[Any, Any]:
        out, dims = _fold(_transformable, info.batch_size, axes[2:], tensors, program, segments)
        return tuple(out), tuple(dims)


@torch.compiler.allow_in_graph
def _transformable(idx: Tensor, operands: list[Tensor], program: str, segments: int) -> Sequence[Tensor]:
    differentiated = torch.is_grad_enabled() and any(operand.requires_grad for operand in operands)
    if differentiated or torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return _Transformable.apply(program, segments, idx, *operands)
    return _segment_product(idx, operands, program, segments)  # nothing to transform: an autograd function costs time


# -- the operations ----------------------------------------------------------------------------------------------------


def _check(op: str, idx: Any, num_segments: Any, **operands: Any) -> tuple[str, int, Tensor]:
    """The call's formula and number of segments, and its ids in 32 bits; see `family.check_arguments`."""
    for name, tensor in {**operands, "idx": idx}.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{op}: {name} must be a torch.Tensor, got {type(tensor).__name__}")
        if tensor.device != idx.device:
            raise ValueError(f"{op}: {name} is on {tensor.device} but idx is on {idx.device}")
    formula, segments = family.check_arguments(op, operands, idx, num_segments, (int, torch.SymInt))
    known = not (torch.compiler.is_compiling() or isinstance(idx, FakeTensor) or _is_batched(idx) or idx.is_meta)
    if known and idx.numel():
        lowest, highest = idx.aminmax()
        family.check_range(op, int(lowest), int(highest), segments)
    elif idx.dtype == torch.int64:  # ids that do not fit in 32 bits are outside, and stay so
        idx = torch.where((idx >= 0) & (idx < segments), idx, -1)
    return formula, segments, idx.to(torch.int32)


def _is_batched(tensor: Tensor) -> bool:
    """Whether some enclosing `torch.func.vmap` maps over this tensor."""
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False


@torch.compiler.assume_constant_result
def _program(formula: str, operands: tuple[int, ...], counted: bool) -> str:
    """The text of a programme of one product, and if `counted` the number of elements in each segment."""
    return _text(((Term(formula, operands),), *([COUNT] if counted else [])))


def _product(formula: str, segments: int, idx: Tensor, *operands: Tensor) -> Tensor:
    program = _program(formula, tuple(range(len(operands))), False)
    return _transformable(idx, list(operands), program, segments)[0]


def _mean_product(formula: str, factors: tuple[int, ...], segments: int, idx: Tensor, x: Tensor) -> Tensor:
    """The sum of a product of x with itself over each segment, divided by the number of elements."""
    total, count = _transformable(idx, [x], _program(formula, factors, True), segments)
    count = count.clamp(min=1)
    return total / (count if total.ndim == 1 else count[:, None])


def segmented_sum(x: Tensor, idx: Tensor, num_segments: int) -> Tensor:
    """Sum of the rows of each segment: `out[s] = sum_{i: idx[i] = s} x[i]`.

    Args:
        x: (N,) or (N, K), float32 or float64, of any strides.
        idx: (N,) int32 or int64, ids in [0, num_segments) in any order.
        num_segments: the number of segments M.

    Returns:
        (M,) or (M, K) of the dtype of x; zero for an empty segment.

    Raises:
        TypeError: an argument is no tensor, a dtype is not supported, or two differ.
        ValueError: a rank, a length or a shape does not fit, a known id is out of range, or two devices differ.
    """
    formula, segments, idx = _check("segmented_sum", idx, num_segments, x=x)
    return _product(formula, segments, idx, x)


def segmented_mean(x: Tensor, idx: Tensor, num_segments: int) -> Tensor:
    """Mean of the rows of each segment: `out[s] = sum_{i: idx[i] = s} x[i] / count[s]`, zero for an empty segment.

    x : (N,) or (N, K). Returns (M,) or (M, K). Ids, dtypes and errors as in `segmented_sum`.
    """
    formula, segments, idx = _check("segmented_mean", idx, num_segments, x=x)
    return _mean_product(formula, (0,), segments, idx, x)


def segmented_dot(x: Tensor, y: Tensor, idx: Tensor, num_segments: int) -> Tensor:
    """Sum of the rows' inner products in each segment: `out[s] = sum_{i: idx[i] = s} x[i] . y[i]`.

    x, y : (N,) or (N, K), the same shape. Returns (M,). Ids, dtypes and errors as in `segmented_sum`.
    """
    formula, segments, idx = _check("segmented_dot", idx, num_segments, x=x, y=y)
    return _product(formula, segments, idx, x, y)


def segmented_mul(x: Tensor, y: Tensor, idx: Tensor, num_segments: int) -> Tensor:
    """Each row times its segment's scalar: `out[i] = x[i] * y[idx[i]]`.

    x : (N,) or (N, K); y : (M,). Returns the shape of x. Ids, dtypes and errors as in `segmented_sum`.
    """
    formula, segments, idx = _check("segmented_mul", idx, num_segments, x=x, y=y)
    return _product(formula, segments, idx, x, y)


def segmented_rms_norm(x: Tensor, idx: Tensor, num_segments: int) -> Tensor:
    """Root mean square norm of each segment's rows: `out[s] = sqrt(sum_{i: idx[i] = s} |x[i]|^2 / count[s])`.

    An empty or all-zero segment has value zero and zero derivatives; a NaN makes its segment's value and gradient NaN.

    x : (N, K). Returns (M,). Ids, dtypes and errors as in `segmented_sum`.
    """
    formula, segments, idx = _check("segmented_rms_norm", idx, num_segments, x=x)
    square = _mean_product(formula, (0, 0), segments, idx, x)
    zero = square == 0  # its derivatives are zero; a NaN is not zero, and stays a NaN
    return torch.where(zero, 0, torch.where(zero, 1, square).sqrt())


def segmented_matvec(v: Tensor, m: Tensor, idx: Tensor, num_segments: int) -> Tensor:
    """Each row times the transpose of its segment's matrix: `out[i] = m[idx[i]]^T v[i]`.

    v : (N, K); m : (M, K, K). Returns (N, K). Ids, dtypes and errors as in `segmented_sum`.
    """
    formula, segments, idx = _check("segmented_matvec", idx, num_segments, v=v, m=m)
    return _product(formula, segments, idx, v, m)
