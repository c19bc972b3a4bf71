"""The family of segment products: formulas, their derivatives and their argument checks, without any framework.

A *term* is a product of operands, written like an einsum. `i` counts elements, `s` segments, `a` and `b` components of
a row, and `i` and `s` are tied by `s = idx[i]`: a result over `s` sums the elements of each segment, a result over `i`
reads the value of its segment.

    ia->sa       segmented sum          sa->ia       gather
    ia,ia->s     segmented dot          ia,s->ia     segmented scale
    ib,sba->ia   segmented matvec       ia,ib->sab   segmented outer product

A term is linear in each operand, and `sum(result * cotangent)` treats operands and cotangent alike. So two rules
give every derivative of every order, and never leave the family:

* tangent: replace one operand by its tangent;
* cotangent of an operand: exchange that operand with the result, and put the cotangent in its place.

A *programme* lists outputs, each a sum of terms over the same operands. A programme is one kernel and one pass over the
ids, however many outputs a derivative has.

Ids outside `[0, segments)` belong to no segment: they are left out of sums and read zero.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

FORMULAS: Mapping[str, Mapping[int, str]] = {
    "segmented_sum": {1: "i->s", 2: "ia->sa"},
    "segmented_mean": {1: "i->s", 2: "ia->sa"},
    "segmented_dot": {1: "i,i->s", 2: "ia,ia->s"},
    "segmented_mul": {1: "i,s->i", 2: "ia,s->ia"},
    "segmented_rms_norm": {2: "ia,ia->s"},
    "segmented_matvec": {2: "ib,sba->ia"},
}
"""Public operation -> rank of its first operand -> the product it is made of."""

DTYPES = ("float32", "float64")
ID_DTYPES = ("int32", "int64")


class Term(NamedTuple):
    """A product of operands: `subscripts` as in the module docstring, `operands` the position of each factor."""

    subscripts: str
    operands: tuple[int, ...]

    @property
    def factors(self) -> list[tuple[str, int]]:
        """(subscript, operand) of each factor."""
        return list(zip(self.subscripts.split("->")[0].split(","), self.operands, strict=False))

    @property
    def result(self) -> str:
        """The subscript of the result."""
        return self.subscripts.split("->")[1]


_COMPONENTS_ONLY = str.maketrans("", "", "is")

Output = tuple[Term, ...]
Program = tuple[Output, ...]

COUNT: Output = (Term("->s", ()),)
"""Elements in each segment: the empty product, summed."""


def make_term(factors: Sequence[tuple[str, int]], result: str) -> Term:
    """The term with these factors in its one normal form: components named as in the result, factors in order.

    Terms that are added up must name the components of their result alike.
    """
    letters = "".join([result, *(subscript for subscript, _ in factors)])
    names = str.maketrans(dict(zip(dict.fromkeys(letters.translate(_COMPONENTS_ONLY)), "ab", strict=False)))
    factors = sorted((subscript.translate(names), position) for subscript, position in factors)
    subscripts = ",".join(subscript for subscript, _ in factors)
    return Term(f"{subscripts}->{result.translate(names)}", tuple(position for _, position in factors))


def subscripts_of_operands(program: Program) -> list[str]:
    """The subscript under which each operand appears, in operand order."""
    found = {position: subscript for output in program for term in output for subscript, position in term.factors}
    return [found[position] for position in sorted(found)]


def results(program: Program) -> list[str]:
    """The subscript of each output."""
    return [output[0].result for output in program]


def is_reduction(result: str) -> bool:
    """Whether an output with this subscript sums over elements."""
    return result.startswith("s")


def shape_of(subscript: str, rows: int, segments: int, width: int) -> tuple[int, ...]:
    """The shape of an array with this subscript."""
    return tuple({"i": rows, "s": segments}.get(letter, width) for letter in subscript)


def width_of(shapes: Sequence[Sequence[int]]) -> int:
    """The number of components of the operands' rows (1 where no operand has a component axis)."""
    return next((shape[1] for shape in shapes if len(shape) > 1), 1)


def output_shapes(program: Program, rows: int, segments: int, shapes: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The shape of each output, from the number of ids, of segments and the operands' shapes."""
    width = width_of(shapes)
    return [shape_of(result, rows, segments, width) for result in results(program)]


@cache
def tangent(program: Program, moving: tuple[bool, ...]) -> tuple[Program, tuple[int, ...], tuple[bool, ...]]:
    """The programme of the outputs' tangents.

    `moving` says which operands have a tangent. The new programme's operands are picked from the n primals followed by
    their n tangents. Returns the programme (of the outputs that move), the operands picked, and which outputs move.
    """
    count = len(moving)
    outputs: list[Output] = []
    for output in program:
        terms = []
        for term in output:
            for place, (subscript, position) in enumerate(term.factors):
                if moving[position]:
                    factors = term.factors
                    factors[place] = (subscript, count + position)
                    terms.append(make_term(factors, term.result))
        outputs.append(tuple(terms))
    return *_compact(outputs), tuple(bool(output) for output in outputs)


@cache
def cotangent(
    program: Program, wanted: tuple[bool, ...], given: tuple[bool, ...]
) -> tuple[Program, tuple[int, ...], tuple[bool, ...]]:
    """The programme of the operands' cotangents.

    `wanted` says which operands need one, `given` which outputs have one. The new programme's operands are picked from
    the n primals followed by the outputs' cotangents. Returns the programme (of the operands that get a cotangent), the
    operands picked, and which operands get one.
    """
    count = len(wanted)
    outputs: list[Output] = []
    for target, want in enumerate(wanted):
        terms = []
        for number, output in enumerate(program):
            for term in output if want and given[number] else ():
                for place, (subscript, position) in enumerate(term.factors):
                    if position == target:
                        factors = term.factors
                        factors[place] = (term.result, count + number)
                        terms.append(make_term(factors, subscript))
        outputs.append(tuple(terms))
    return *_compact(outputs), tuple(bool(output) for output in outputs)


def _compact(outputs: Sequence[Output]) -> tuple[Program, tuple[int, ...]]:
    """Drop empty outputs and unused operands, and number the operands in order of their first use."""
    order: dict[int, int] = {}
    for output in outputs:
        for term in output:
            for position in term.operands:
                order.setdefault(position, len(order))
    program = tuple(
        tuple(make_term([(sub, order[position]) for sub, position in term.factors], term.result) for term in output)
        for output in outputs
        if output
    )
    return program, tuple(order)


# -- checks of arguments, the same words in every framework --------------------------------------------------------


def dtype_name(array: Any) -> str:
    """The dtype of a NumPy, JAX or Torch array as 'float32', 'int64', ..."""
    return str(array.dtype).removeprefix("torch.")


def check_arguments(
    op: str, operands: Mapping[str, Any], idx: Any, num_segments: Any, integers: tuple[type, ...] = (int,)
) -> tuple[str, int]:
    """Check ranks, shapes and dtypes of a call; return its formula and the number of segments.

    That is an int, or left as it is if of one of the types `integers`, which a framework's symbols of integers may be.

    Raises TypeError for a dtype or a `num_segments` that is not an integer, ValueError for a rank, a shape or a size,
    naming the argument and the values. The values of the ids are not read; see `check_range`.
    """
    segments = _check_num_segments(op, num_segments, integers)
    (name, first), *_ = operands.items()
    formula = FORMULAS[op].get(first.ndim)
    if formula is None:
        ranks = " or ".join(map(str, FORMULAS[op]))
        raise ValueError(f"{op}: {name} must have rank {ranks}, got shape {tuple(first.shape)}")
    for other, array in operands.items():
        if dtype_name(array) not in DTYPES:
            raise TypeError(f"{op}: {other} must be {' or '.join(DTYPES)}, got {dtype_name(array)}")
        if array.dtype != first.dtype:
            raise TypeError(f"{op}: {name} is {dtype_name(first)} but {other} is {dtype_name(array)}")
    if dtype_name(idx) not in ID_DTYPES:
        raise TypeError(f"{op}: idx must be {' or '.join(ID_DTYPES)}, got {dtype_name(idx)}")
    if idx.ndim != 1:
        raise ValueError(f"{op}: idx must have rank 1, got shape {tuple(idx.shape)}")
    rows, width = first.shape[0], first.shape[1] if first.ndim > 1 else 1
    if idx.shape[0] != rows:
        raise ValueError(f"{op}: idx has length {idx.shape[0]} but {name} has length {rows}")
    for (other, array), subscript in zip(operands.items(), formula.split("->")[0].split(","), strict=False):
        expected = shape_of(subscript, rows, segments, width)
        if tuple(array.shape) != expected:
            raise ValueError(f"{op}: {other} must have shape {expected}, got {tuple(array.shape)}")
    return formula, segments


def _check_num_segments(op: str, num_segments: Any, integers: tuple[type, ...]) -> int:
    if isinstance(num_segments, bool):
        raise TypeError(f"{op}: num_segments must be an integer, got {num_segments}")
    try:
        segments: Any = num_segments if isinstance(num_segments, integers) else operator.index(num_segments)
    except TypeError as error:
        raise TypeError(f"{op}: num_segments must be an integer, got {type(num_segments).__name__}") from error
    if segments < 0:
        raise ValueError(f"{op}: num_segments must not be negative, got {segments}")
    return segments


def check_range(op: str, lowest: int, highest: int, segments: int) -> None:
    """Refuse ids outside [0, segments), with ValueError naming the extreme ids."""
    if lowest < 0 or highest >= segments:
        raise ValueError(f"{op}: idx must lie in [0, num_segments={segments}), got ids from {lowest} to {highest}")
