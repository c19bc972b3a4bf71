"""What is right for one input, and the file in which it travels from the oracle's process to those that check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from harness.contract.problem import FloatArray, Problem
from harness.contract.protocol import Counts
from harness.problems import PROBLEMS


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """What is right for one input.

    Attributes:
        name: which input of its scenario.
        problem: parameters.
        positions: (N, d) of the case's dtype.
        refusal: the error expected in place of a result, or None.
        loss: float64.
        gradient: (N, d) float64.
        sums: (N,) float64, s_i.
        gradient_scale: S = max over i and axis of sum_j |pair term of g_i|, a scale where the gradient itself vanishes.
        counts: independent counts.
        boundary_pairs: ordered pairs so close to the cutoff that rounding decides whether they count.
    """

    name: str
    problem: Problem
    positions: Any
    refusal: str | None
    loss: float
    gradient: Any
    sums: Any
    gradient_scale: float
    counts: Counts
    boundary_pairs: int


def refused(name: str, problem: Problem, positions: FloatArray, reason: str) -> Reference:
    """The reference of an input that has no result: every implementation must refuse it."""
    return Reference(
        name=name,
        problem=problem,
        positions=positions,
        refusal=reason,
        loss=0.0,
        gradient=np.zeros((0, problem.dimension)),
        sums=np.zeros(0),
        gradient_scale=0.0,
        counts=Counts(n=len(positions), true_pairs=0, cells_per_side=0, max_occupancy=0, stencil_pairs=0),
        boundary_pairs=0,
    )


_ARRAYS = ("positions", "gradient", "sums")


class _Meta(msgspec.Struct, frozen=True):
    """What the file says beside the arrays."""

    problem: str
    references: msgspec.Raw


def save(path: Path, items: list[Reference]) -> None:
    """Write references of one problem to one uncompressed .npz file: arrays as they are, the rest as JSON."""
    arrays = {f"{k}_{a}": getattr(item, a) for k, item in enumerate(items) for a in _ARRAYS}
    bare = [msgspec.structs.replace(item, positions=None, gradient=None, sums=None) for item in items]
    meta = _Meta(items[0].problem.name if items else "", msgspec.Raw(msgspec.json.encode(bare)))
    np.savez(path, allow_pickle=False, meta=np.frombuffer(msgspec.json.encode(meta), np.uint8), **arrays)


def load(path: Path) -> list[Reference]:
    """Read what `save` wrote."""
    with np.load(path, allow_pickle=False) as file:
        meta = msgspec.json.decode(file["meta"].tobytes(), type=_Meta)

        def problem(_: type, parameters: dict[str, float]) -> Problem:
            return PROBLEMS[meta.problem](**parameters)

        bare = msgspec.json.decode(meta.references, type=list[Reference], dec_hook=problem)
        return [msgspec.structs.replace(item, **{a: file[f"{k}_{a}"] for a in _ARRAYS}) for k, item in enumerate(bare)]
