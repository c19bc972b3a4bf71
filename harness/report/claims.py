"""The study's claims, each with what the records say and whether they bear it out.

Every number is computed from the records; where they do not say, the verdict is "not measured".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pandas as pd

from harness.check.judgement import FLOAT64_TOLERANCE
from harness.report import text
from harness.report.data import SETTING, Setting, quotient, select, where
from harness.report.published import AGREEMENT_N, published

MILLION = 1_000_000
GPU_N = 100_000
"""Where the study compares all its systems on the GPU."""
ABOUT = 1.5
"""A ratio is "about" another within this factor either way."""
BORNE_OUT, REFUTED, NOT_MEASURED, NEW = "borne out", "not borne out", "not measured", "measured here"

# Rows that do what the study's systems do, or what it left undone
ENZYME, THREADED, SCALAR_ENZYME, REACTANT = "enzyme_loops", "enzyme_loops_threads", "enzyme_pair", "enzyme_cell_list"
JAX, CELLS, CELLS_ADJOINT = "jax_neighbor_list", "jax_cell_list", "jax_cell_list_adjoint"


@dataclass(frozen=True)
class Finding:
    """One claim, what the study printed for it, what the records say, and the verdict."""

    claim: str
    study: str
    found: str
    verdict: str


@dataclass(frozen=True)
class Scope:
    """The cases of one setting, with those that differ from it in one respect within reach."""

    cases: pd.DataFrame
    setting: Setting

    def all(self, **changes: object) -> pd.DataFrame:
        """Cases of the setting, or of one that differs in what is given."""
        return select(self.cases, **{**self.setting._asdict(), **changes})

    def at(self, implementation: str, n: int, **changes: Any) -> Any:
        """The case of one row and N, whatever its outcome, its columns as attributes; None without one."""
        return self._found.get((*self.setting._replace(**changes), n, implementation))

    @cached_property
    def _found(self) -> dict[tuple[object, ...], Any]:
        """Every case that is no variant, by setting, N and row."""
        plain = select(self.cases).drop_duplicates([*SETTING, "n", "implementation"])
        return {
            (*(getattr(case, name) for name in SETTING), case.n, case.implementation): case
            for case in plain.itertuples()
        }


Scopes = Mapping[str, Scope]
"""The setting of one machine's CPU, and that of its accelerator if it has one, by device."""


def _at(scopes: Scopes, device: str, row: str, n: int, **changes: Any) -> Any:
    return scopes[device].at(row, n, **changes) if device in scopes else None


@dataclass(frozen=True, kw_only=True)
class Less:
    """The claim that a figure is lower for one row than for another.

    Attributes:
        claim: in words; may name {n} and {threads}.
        rows: the one said to be lower, and the other.
        n, threads: of both cases; threads None stands for those of the setting.
        devices: where to look; the first on which the lower one was tried.
        column, show: the figure and how it reads.
        systems: the study's, whose figures it printed.
        study: what it says where it printed none.
        judged: whether the study claims it; otherwise the figures stand without a verdict.
    """

    claim: str
    rows: tuple[str, str]
    n: int = MILLION
    threads: int | None = None
    devices: tuple[str, ...] = ("cpu",)
    column: str = "gradient_s"
    show: Callable[[float], str] = text.seconds
    systems: tuple[str, ...] = ()
    study: str = "not done"
    judged: bool = True

    def finding(self, scopes: Scopes) -> Finding:
        """The verdict of the records."""
        claim = self.claim.format(n=f"{self.n:,}", threads=scopes["cpu"].setting.threads)
        timings = [published().timing(system, self.devices[0], self.n) for system in self.systems]
        study = " against ".join(self.show(getattr(timing, self.column)) for timing in timings) or self.study
        changes = {} if self.threads is None else {"threads": self.threads}
        device = next((d for d in self.devices if _at(scopes, d, self.rows[0], self.n)), self.devices[-1])
        cases = [_at(scopes, device, row, self.n, **changes) for row in self.rows]
        values: list[Any] = [getattr(case, self.column) if case and case.ok else None for case in cases]
        if any(map(pd.isna, values)):
            return _unmeasured(claim, study, *cases)
        shown = [f"{case.label} {self.show(value)}" for case, value in zip(cases, values, strict=True)]
        verdict = NEW if not self.judged else BORNE_OUT if values[0] < values[1] else REFUTED
        return Finding(claim, study, f"{' against '.join(shown)}: {text.times(quotient(*values))}", verdict)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """The claim that a figure of one row is what the study says.

    Attributes:
        claim: in words; may name {n}.
        study: what it printed.
        rows: whose figure; the first that ended ok.
        device: of the case, whose N is a million.
        column, show: the figure, and how it reads after the row's title.
        holds: whether it bears the claim out.
    """

    claim: str
    study: str
    rows: tuple[str, ...]
    device: str = "cpu"
    column: str
    show: Callable[[Any], str]
    holds: Callable[[Any], bool]

    def finding(self, scopes: Scopes) -> Finding:
        """The verdict of the records."""
        claim = self.claim.format(n=f"{MILLION:,}")
        tried = [_at(scopes, self.device, row, MILLION) for row in self.rows]
        case = next((case for case in tried if case and case.ok), tried[0])
        value = getattr(case, self.column) if case and case.ok else None
        if pd.isna(value):
            return _unmeasured(claim, self.study, case)
        return Finding(claim, self.study, f"{case.title} {self.show(value)}", _verdict(self.holds(value)))


def _gradient_over_forward(system: str, row: str, device: str) -> Figure:
    timing = published().timing(system, device, MILLION)
    assert timing.gradient_s is not None
    assert timing.forward_s is not None
    printed, right = text.times(timing.gradient_over_forward), timing.gradient_s / timing.forward_s
    return Figure(
        claim=f"{system}'s gradient costs about {printed} its forward pass ({device}, N = {{n}})",
        study=printed,
        rows=(row,),
        device=device,
        column="gradient_over_forward",
        show=text.times,
        holds=lambda ratio: right / ABOUT <= ratio <= right * ABOUT,
    )


def _slots(words: str, millions: int, *rows: str) -> Figure:
    return Figure(
        claim=f"{words} {millions} M pair slots (N = {{n}})",
        study=f"{millions} M",
        rows=rows,
        column="pair_slots",
        show=text.count,
        holds=lambda slots: round(slots / MILLION) == millions,
    )


def _same_gradient(scopes: Scopes) -> Finding:
    claim = f"All implementations give the same gradient to machine precision (N = {AGREEMENT_N:,})"
    study = "largest relative difference " + max((line.max_rel_diff for line in published().agreement), key=float)
    at = scopes["cpu"].all(n=AGREEMENT_N)
    judged = at[at["outcome"].isin(["ok", "disagrees", "wrong-dtype", "bad-output"])]
    if judged.empty:
        return Finding(claim, study, NOT_MEASURED, NOT_MEASURED)
    right = int((judged["ok"] & (judged["max_rel_diff"] <= FLOAT64_TOLERANCE)).sum())
    words = f"{right} of {len(judged)} rows agree with the closed form"
    for worst in judged.nlargest(1, "max_rel_diff").dropna(subset="max_rel_diff").itertuples():
        words += f"; largest relative difference {text.difference(worst.max_rel_diff)} ({worst.title})"
    return Finding(claim, study, words, _verdict(right == len(judged)))


def _printed_values(scopes: Scopes) -> Finding:
    line = published().agreement[0]
    claim = f"The loss and the gradient's norm are those the study printed (N = {AGREEMENT_N:,})"
    study = f"{line.loss}, {line.grad_norm}"
    found = scopes["cpu"].all(n=AGREEMENT_N).dropna(subset="loss")
    if found.empty:
        return Finding(claim, study, NOT_MEASURED, NOT_MEASURED)
    right = float(line.loss)
    # summing in another order changes the last printed digit of the loss, in the study too
    same = (found["loss"] - right).abs() <= FLOAT64_TOLERANCE * right
    others = found[~(same & (found["grad_norm"].map(text.norm) == line.grad_norm))]
    words = [f"{case.title}: {text.exact(case.loss)}, {text.norm(case.grad_norm)}" for case in others.itertuples()]
    counted = f"{len(found) - len(others)} of {len(found)} rows print them"
    return Finding(claim, study, "; ".join([counted, *words]), _verdict(others.empty))


def _no_capacity(scopes: Scopes) -> Finding:
    claim = f"Enzyme's cell list needs no capacity, JAX's list does (N = {AGREEMENT_N:,})"
    study = "no padding, no capacity, no overflow check"
    enzyme, padded = (_at(scopes, "cpu", row, AGREEMENT_N) for row in (ENZYME, JAX))
    if not (enzyme and enzyme.ok and padded) or pd.isna(padded.capacity):
        return _unmeasured(claim, study, enzyme)
    none = pd.isna(enzyme.capacity)
    own = "none" if none else text.count(enzyme.capacity)
    words = f"{enzyme.title}: {own}; {padded.title}: {text.count(padded.capacity)}"
    return Finding(claim, study, words, _verdict(none))


def _out_of_memory(scopes: Scopes) -> Finding:
    claim = f"JAX's neighbour list runs out of GPU memory (float64, N = {MILLION:,})"
    study = published().timing("JAX", "cuda", MILLION).failure or text.DASH
    case = _at(scopes, "cuda", JAX, MILLION)
    if case and case.outcome == "out-of-memory-device":
        return Finding(claim, study, f"{case.outcome} on {case.hardware}", BORNE_OUT)
    if not case or not case.ok:
        return _unmeasured(claim, study, case)
    return Finding(claim, study, f"fits {case.hardware}: {text.size(case.peak_bytes)}", REFUTED)


def _capacity_multiplier(scopes: Scopes) -> Finding:
    """Slots and time of each value of jax-md's capacity multiplier, at the largest N it was varied at."""
    claim = "jax-md's capacity multiplier, left at 1.25"
    cpu = scopes["cpu"]
    found = where(cpu.cases, **cpu.setting._asdict(), implementation=JAX, timed=True)
    varied = found[found["variant"] != ""]
    if varied.empty:
        return Finding(claim, "not done", NOT_MEASURED, NOT_MEASURED)
    n = varied["n"].max()
    words = [
        f"{case.variant or 'as it is'}: {text.short_count(case.pair_slots)} slots, {text.seconds(case.gradient_s)}"
        for case in where(found, n=n).itertuples()
    ]
    return Finding(claim, "not done", f"N = {n:,}: " + "; ".join(words), NEW)


def _unmeasured(claim: str, study: str, *cases: Any) -> Finding:
    """No verdict, and the outcomes that stand in its way."""
    failures = [f"{case.title}: {case.outcome}" for case in cases if case and not case.ok]
    return Finding(claim, study, "; ".join(failures) or NOT_MEASURED, NOT_MEASURED)


def _verdict(holds: bool) -> str:
    return BORNE_OUT if holds else REFUTED


_on_gpu = partial(Less, n=GPU_N, devices=("cuda",))
CLAIMS: tuple[Less | Figure | Callable[[Scopes], Finding], ...] = (
    _same_gradient,
    _printed_values,
    *(
        Less(claim=f"{words} (CPU, N = {{n}})", rows=(ENZYME, JAX), column=column, systems=("Enzyme.jl", "JAX"))
        for words, column in (
            ("Single-threaded Enzyme's gradient takes less time than multithreaded JAX's", "gradient_s"),
            ("Single-threaded Enzyme's forward pass takes less time than multithreaded JAX's", "forward_s"),
            ("Enzyme compiles faster than JAX", "compile_s"),
        )
    ),
    Less(claim="Both on one thread (CPU, N = {n})", rows=(ENZYME, JAX), threads=1, judged=False),
    _gradient_over_forward("Enzyme.jl", ENZYME, "cpu"),
    _gradient_over_forward("JAX", JAX, "cpu"),
    _gradient_over_forward("Reactant.jl", REACTANT, "cuda"),
    _slots("Loops over ranges evaluate", 91, ENZYME),
    _slots("JAX's pair list has", 39, JAX),
    _slots("The padded cell list has", 234, REACTANT, CELLS),
    Figure(
        claim="JAX's pair list is padded to 1.25 times the pairs found",
        study="1.25",
        rows=(JAX,),
        column="slots_per_pair",
        show=lambda padding: f"{padding:.4f} slots per true pair",
        holds=lambda padding: abs(padding - 1.25) < 0.005,
    ),
    _no_capacity,
    _out_of_memory,
    _on_gpu(
        claim="JAX's pair list takes less time than the padded cell list of Reactant's route (GPU, N = {n})",
        rows=(JAX, REACTANT),
        systems=("JAX", "Reactant.jl"),
    ),
    Less(claim="The same two on the CPU (N = {n})", rows=(JAX, REACTANT), n=GPU_N, judged=False),
    Less(
        claim="The padded cell list is leaner than the pair list (N = {n})",
        rows=(REACTANT, JAX),
        devices=("cuda", "cpu"),
        column="peak_bytes",
        show=text.size,
        study="it fits where the list does not",
    ),
    _on_gpu(
        claim="On the GPU the padded versions are much faster than Enzyme (N = {n})",
        rows=(JAX, ENZYME),
        systems=("JAX", "Enzyme.jl"),
    ),
    # What the study lists under "What we did not do": it expects the hand-written ones to be faster
    Less(claim="A hand-written adjoint would be faster in JAX (N = {n})", rows=(CELLS_ADJOINT, CELLS)),
    Less(
        claim="Enzyme on the scalar pair function alone, and a gather, would be faster (N = {n})",
        rows=(SCALAR_ENZYME, ENZYME),
    ),
    Less(claim="Enzyme on {threads} CPU threads against one (N = {n})", rows=(THREADED, ENZYME), judged=False),
    _capacity_multiplier,
)
"""Every claim of the study, and what it lists as not done, in its order."""


def findings(scopes: Scopes) -> list[Finding]:
    """What the records of one machine say to each claim."""
    return [claim.finding(scopes) if isinstance(claim, Less | Figure) else claim(scopes) for claim in CLAIMS]
