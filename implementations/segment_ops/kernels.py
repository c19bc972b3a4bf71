"""One Warp kernel for each programme of `family`: a single pass over the ids computes every output.

A thread walks a chunk of consecutive elements, one run of equal ids after the other. What belongs to the segment is
read once for each run, and sums are added to memory once for each run, so sorted ids cost one addition for each segment
and chunk. Any order of ids is right.

The text of a kernel is written from its programme. Rows of at most `NARROW` components are unrolled into scalars, which
the compiler keeps in registers (an outer product summed in Warp's matrix type takes twice as long). Wider rows take
loops over their components, and one addition for each element.
"""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import warp as wp

from implementations.segment_ops.family import Output, Program, Term, is_reduction, results, subscripts_of_operands

NARROW = 8
"""Rows of at most this many components are unrolled."""

_MAX_ROWS = 2**31 - 1
_CHUNK_CPU = 1024
_CHUNK_CUDA = 16
_SCALARS = {"float32": wp.float32, "float64": wp.float64}
_serial = itertools.count()


def launch_size(program: Program, rows: int, segments: int, cuda: bool) -> tuple[int, int]:
    """Elements for each thread, and threads.

    On CUDA a thread takes few elements, and one where nothing is summed, so that threads read adjacent rows. Raises
    ValueError if there are more rows than 32 bits count; a batch counts the rows of all its examples.
    """
    if max(rows, segments) > _MAX_ROWS:
        raise ValueError(f"at most {_MAX_ROWS} rows in all, got {rows} elements and {segments} segments")
    chunk = _CHUNK_CPU
    if cuda:
        chunk = _CHUNK_CUDA if any(map(is_reduction, results(program))) else 1
    return chunk, -(-rows // chunk)


def output_order(program: Program) -> list[int]:
    """The outputs in kernel order: first the sums, which must come in as zeros, then the rest, which is overwritten."""
    return sorted(range(len(program)), key=lambda number: not is_reduction(results(program)[number]))


def row_type(subscript: str, width: int, dtype: str) -> Any:
    """The Warp type of an array's rows: a scalar, or if narrow a vector or a matrix."""
    scalar, axes = _SCALARS[dtype], len(subscript) - 1
    if axes == 0 or width > NARROW:
        return scalar
    return wp.types.vector(width, scalar) if axes == 1 else wp.types.matrix((width, width), scalar)


def build_kernel(program: Program, width: int, dtype: str) -> wp.Kernel:
    """The kernel of a programme over rows of `width` components of 'float32' or 'float64'.

    Parameters in order: the operands `a0`, `a1`, ...; `idx` (N,) int32; the integers `chunk` (see `launch_size`),
    `segments` and `width`; the outputs `o0`, `o1`, ... in `output_order`. Narrow rows are vectors and matrices
    (`row_type`); components of wide rows are further axes, and one kernel serves every width.
    """
    return _build_kernel(program, min(width, NARROW + 1), dtype)


@cache
def _build_kernel(program: Program, width: int, dtype: str) -> wp.Kernel:
    wide = width > NARROW

    def array_type(subscript: str) -> Any:
        return wp.array(dtype=row_type(subscript, width, dtype), ndim=len(subscript) if wide else 1)

    types = {f"a{n}": array_type(subscript) for n, subscript in enumerate(subscripts_of_operands(program))}
    types |= {"idx": wp.array(dtype=wp.int32), "chunk": wp.int32, "segments": wp.int32, "width": wp.int32}
    types |= {f"o{n}": array_type(results(program)[n]) for n in output_order(program)}
    rows = {f"R{n}": row_type(result, width, dtype) for n, result in enumerate(results(program))}
    body = _wide_body(program) if wide else _narrow_body(program, width)
    return _compile(types, body, {"wp": wp, "Scalar": _SCALARS[dtype], **rows})


def _compile(types: dict[str, Any], body: Iterable[str], namespace: dict[str, Any]) -> wp.Kernel:
    """The Warp kernel with these parameters and body; Warp reads the text back through `linecache`."""
    lines = [f"def segment_product({', '.join(types)}):", *_indent(body)]
    text, source = "\n".join(lines) + "\n", f"<segment_product {next(_serial)}>"
    linecache.cache[source] = (len(text), None, text.splitlines(keepends=True), source)
    exec(compile(text, source, "exec"), namespace)
    function = namespace["segment_product"]
    function.__annotations__ = types
    wp.init()
    return wp.kernel(function, enable_backward=False, module="unique")


def _indent(lines: Iterable[str], levels: int = 1) -> list[str]:
    return [levels * "    " + line for line in lines]


# -- narrow rows: one scalar for each component ------------------------------------------------------------------------


def _narrow_body(program: Program, width: int) -> list[str]:
    load: dict[str, list[str]] = {"i": [], "s": []}  # what depends on the element, and what is the same for a whole run
    for n, subscript in enumerate(subscripts_of_operands(program)):
        load[subscript[0]].append(f"x{n} = a{n}[{subscript[0]}]")
    clear, add, flush, outside = [], [], [], []
    for n, output in enumerate(program):
        values = _unroll(output, width)
        if is_reduction(output[0].result):
            sums = [f"c{n}_{component}" for component in range(len(values))]
            clear += [f"{total} = Scalar(0.0)" for total in sums]
            add += [f"{total} += {value}" for total, value in zip(sums, values, strict=True)]
            flush.append(f"wp.atomic_add(o{n}, s, R{n}({', '.join(sums)}))")
        else:
            add.append(f"o{n}[i] = R{n}({', '.join(values)})")
            outside.append(f"o{n}[i] = R{n}(Scalar(0.0))")
    return [
        "i = wp.tid() * chunk",
        "last = wp.min(i + chunk, idx.shape[0])",
        "following = idx[i]",
        "while i < last:",
        "    s = following",
        "    if s >= 0 and s < segments:",
        *_indent([*load["s"], *clear, *_run([*load["i"], *add]), *flush], 2),
        "    else:",
        *_indent(_run(outside), 2),
    ]


def _run(body: list[str]) -> list[str]:
    """The loop over the run of elements whose id is s, which leaves i at the first element after it."""
    return [
        "while i < last and following == s:",
        *_indent([*body, "i += 1", "if i < last:", "    following = idx[i]"]),
    ]


def _unroll(output: Output, width: int) -> list[str]:
    """The expression of each component of an output's row, in row-major order."""
    axes = output[0].result[1:]
    return [
        " + ".join(product for term in output for product in _products(term, place, width))
        for place in _assignments(axes, width)
    ]


def _products(term: Term, place: dict[str, int], width: int) -> Iterator[str]:
    """The products that a term adds up for one component of its result."""
    free = sorted({axis for subscript, _ in term.factors for axis in subscript[1:]} - place.keys())
    for rest in _assignments("".join(free), width):
        yield " * ".join(_component(sub, n, place | rest) for sub, n in term.factors) or "Scalar(1.0)"


def _component(subscript: str, operand: int, place: dict[str, int]) -> str:
    axes = ", ".join(str(place[axis]) for axis in subscript[1:])
    return f"x{operand}[{axes}]" if axes else f"x{operand}"


def _assignments(axes: str, width: int) -> Iterator[dict[str, int]]:
    """Every way to give the axes a component."""
    for values in itertools.product(range(width), repeat=len(axes)):
        yield dict(zip(axes, values, strict=True))


# -- wide rows: loops over the components ------------------------------------------------------------------------------


def _wide_body(program: Program) -> list[str]:
    inside, outside = [], []
    for n, output in enumerate(program):
        result, total = output[0].result, f"c{n}"
        place = f"o{n}, {', '.join(result)}"
        value = [f"{total} = Scalar(0.0)"]
        for term in output:
            product = " * ".join(f"a{operand}[{', '.join(sub)}]" for sub, operand in term.factors) or "Scalar(1.0)"
            free = sorted({axis for sub, _ in term.factors for axis in sub[1:]} - set(result))
            value += _loops(free, [f"{total} += {product}"])
        if is_reduction(result):
            inside += _loops(result[1:], [*value, f"wp.atomic_add({place}, {total})"])
        else:
            inside += _loops(result[1:], [*value, f"o{n}[{', '.join(result)}] = {total}"])
            outside += _loops(result[1:], [f"o{n}[{', '.join(result)}] = Scalar(0.0)"])
    return [
        "first = wp.tid() * chunk",
        "for i in range(first, wp.min(first + chunk, idx.shape[0])):",
        "    s = idx[i]",
        "    if s >= 0 and s < segments:",
        *_indent(inside, 2),
        "    else:",
        *_indent(outside or ["continue"], 2),
    ]


def _loops(axes: Iterable[str], body: list[str]) -> list[str]:
    """`body` inside one loop over the components for each axis."""
    for axis in reversed(list(axes)):
        body = [f"for {axis} in range(width):", *_indent(body)]
    return body
