"""What to run: a profile, narrowed by the command line, becomes a list of cases in the order they run."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import groupby, product

import msgspec

from harness.contract.protocol import Case, Device, Dtype
from harness.contract.records import case_id
from harness.problems.sph2d import SCENARIOS
from harness.run import machine

ORDER_SEED = 1


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """A product of case parameters.

    Attributes:
        ns: numbers of particles, for the scenarios that are sized.
        threads: empty for one number, every core.
        implementations: names; empty for all that were asked for.
    """

    scenarios: tuple[str, ...] = ("published",)
    ns: tuple[int, ...]
    devices: tuple[Device, ...] = ("cpu",)
    dtypes: tuple[Dtype, ...] = ("float64",)
    threads: tuple[int, ...] = ()
    implementations: tuple[str, ...] = ()
    options: tuple[dict[str, float], ...] = ({},)
    variables: dict[str, str] = {}


QUICK = Axis(ns=(1_000, 10_000, 100_000))
STUDY = Axis(ns=(1_000, 10_000, 100_000, 1_000_000))

CHECK = Axis(ns=(1_000,), scenarios=tuple(SCENARIOS), dtypes=("float64", "float32"))

PROFILES: dict[str, tuple[Axis, ...]] = {
    "quick": (QUICK,),
    "study": (STUDY,),
    "full": (
        STUDY,
        Axis(ns=(100_000,), scenarios=("clustered",)),
        Axis(ns=(100_000, 1_000_000), threads=(1,)),
        Axis(ns=(100_000, 1_000_000), dtypes=("float32",)),
        Axis(
            ns=(100_000, 1_000_000),
            implementations=("jax_neighbor_list",),
            options=({"capacity_multiplier": 1.05}, {"capacity_multiplier": 2.0}),
        ),
    ),
    "gpu": (  # the most important first
        Axis(
            ns=(100_000, 1_000_000),
            devices=("cuda",),
            dtypes=("float64", "float32"),
            implementations=("warp_adjoint",),
        ),
        Axis(ns=(100_000,), devices=("cuda",)),
        Axis(ns=(1_000_000,), devices=("cuda",)),
        Axis(ns=(100_000,), devices=("cuda",), dtypes=("float32",)),
        Axis(ns=(1_000_000,), devices=("cuda",), dtypes=("float32",)),
    ),
}


class Narrowing(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for in place of a profile's own values; empty means the profile's."""

    ns: tuple[int, ...] = ()
    scenarios: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()
    dtypes: tuple[Dtype, ...] = ()
    threads: tuple[int, ...] = ()
    variables: dict[str, str] = {}


class Planned(msgspec.Struct, frozen=True):
    """One case in one round."""

    case: Case
    round: int


def plan(
    profile: str,
    implementations: Sequence[str],
    narrowing: Narrowing | None = None,
    rounds: int = 1,
    shard: tuple[int, int] = (1, 1),
) -> list[Planned]:
    """Cases of a profile to time, each once per round.

    Axes keep their order. Within one, series (all of a case but its N) are shuffled anew each round, always alike, and
    N ascends within a series. A shard takes every count-th series.

    Args:
        profile: a key of `PROFILES`.
        implementations: names or module paths.
        narrowing: values in place of the profile's.
        rounds: repetitions of the plan.
        shard: (index, count), index from 1.
    """
    cases: dict[str, tuple[int, Case]] = {}
    for index, axis in enumerate(PROFILES[profile]):
        for case in _cases(_narrowed(axis, narrowing), implementations):
            cases.setdefault(case_id(case), (index, case))
    ordered = sorted(cases.values(), key=lambda each: (each[0], series(each[1]), each[1].n))
    groups = [list(group) for _, group in groupby(ordered, key=lambda each: (each[0], series(each[1])))]
    mine = groups[shard[0] - 1 :: shard[1]]
    planned = []
    for number in range(rounds):
        shuffled = random.Random(ORDER_SEED + number).sample(mine, len(mine))
        for group in sorted(shuffled, key=lambda group: group[0][0]):
            planned += [Planned(case, number) for _, case in group]
    return planned


def check_plan(implementations: Sequence[str], narrowing: Narrowing | None = None) -> list[Planned]:
    """Cases of a check, each once; those that differ in scenario and n alone follow each other.

    Args:
        implementations: names or module paths.
        narrowing: values in place of the check's own.
    """
    cases = {case_id(case): case for case in _cases(_narrowed(CHECK, narrowing), implementations)}
    return [Planned(case, 0) for case in cases.values()]


def series(case: Case) -> str:
    """All that identifies a case but its N."""
    return case_id(msgspec.structs.replace(case, n=0))


def _narrowed(axis: Axis, narrowing: Narrowing | None) -> Axis:
    """An axis with what was asked for in place of its own values."""
    if narrowing is None:
        return axis
    return msgspec.structs.replace(axis, **{k: v for k, v in msgspec.structs.asdict(narrowing).items() if v})


def _cases(axis: Axis, implementations: Sequence[str]) -> Iterable[Case]:
    threads = axis.threads or (len(machine.available_cores()),)
    chosen = [name for name in implementations if name in (axis.implementations or implementations)]
    for implementation, options, cores, device, dtype, scenario in product(
        chosen, axis.options, threads, axis.devices, axis.dtypes, axis.scenarios
    ):
        for n in SCENARIOS[scenario].sizes(axis.ns):
            yield Case(
                implementation=implementation,
                scenario=scenario,
                n=n,
                device=device,
                dtype=dtype,
                threads=cores,
                options=options,
                variables=axis.variables,
            )
