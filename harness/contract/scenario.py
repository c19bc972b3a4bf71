"""What a scenario is: a family of inputs on which rows are checked and, where it has one input, timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from harness.contract.problem import FloatArray, Problem
from harness.contract.protocol import DTYPES, Dtype

FLOAT64: tuple[Dtype, ...] = ("float64",)
"""Of inputs that float32 cannot resolve, or that are of a kind it runs another of."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a scenario.

    Attributes:
        name: short, unique within its scenario.
        problem: parameters.
        positions: makes the (N, d) float64 positions, which are rounded to the dtype they are run in.
        loss: the right value, where it was computed independently of this project.
        gradient_norm: likewise, |g|_2.
        refused: whether every implementation must raise `InvalidPositionsError`.
        dtypes: what it is run in.
    """

    name: str
    problem: Problem
    positions: Callable[[], FloatArray]
    loss: float | None = None
    gradient_norm: float | None = None
    refused: bool = False
    dtypes: tuple[Dtype, ...] = DTYPES


@dataclass(frozen=True, slots=True)
class Scenario:
    """A family of inputs.

    Attributes:
        inputs: those of n particles; where the scenario is not sized, all there are, whatever n.
        timed: whether rows are timed on it; it then has one input for each n.
        sized: whether its number of particles can be chosen; otherwise each input has its own, and its case has n = 0.
    """

    inputs: Callable[[int], Iterable[Input]]
    timed: bool = True
    sized: bool = True

    def sizes(self, ns: Sequence[int]) -> Sequence[int]:
        """The n of its cases where these numbers of particles are asked for."""
        return ns if self.sized else (0,)

    def only_problem(self, n: int) -> Problem | None:
        """The problem that all inputs of n particles share; None where they have several."""
        problems = {each.problem for each in self.inputs(n)}
        return problems.pop() if len(problems) == 1 else None


def sized(name: str, of_size: Callable[[int], Problem], positions: Callable[[int], FloatArray]) -> Scenario:
    """One input for each n: these positions, (n, d) float64, in the problem of that size."""
    return Scenario(lambda n: [Input(name, of_size(n), lambda: positions(n))])
