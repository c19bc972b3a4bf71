"""The study's claims, each with what the records say and whether they bear it out.

Every number is computed from the records; where they do not say, the verdict is "not measured".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

from harness.check.judgement import FLOAT64_TOLERANCE
from harness.report import text
from harness.report.data import Entry, Setting, pick, ratio
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

_JUDGED = frozenset({"ok", "disagrees", "wrong-dtype", "bad-output"})
_Value = Callable[[Entry], float | None]


@dataclass(frozen=True)
class Finding:
    """One claim, what the study printed for it, what the records say, and the verdict."""

    claim: str
    study: str
    here: str
    verdict: str


@dataclass(frozen=True)
class Here:
    """The entries of one setting, with those that differ from it in one respect within reach."""

    entries: Sequence[Entry]
    setting: Setting

    def all(self, **changes: object) -> list[Entry]:
        """Entries of the setting, or of one that differs in what is given."""
        return pick(self.entries, **{**self.setting._asdict(), **changes})

    def at(self, implementation: str, n: int, **changes: object) -> Entry | None:
        """The entry of one row and N, whatever its outcome."""
        return next(iter(self.all(implementation=implementation, n=n, **changes)), None)


def claims(cpu: Here, gpu: Here | None) -> list[Finding]:
    """Every claim of the study, and what it lists as not done, in its order.

    Args:
        cpu: the CPU's setting of one machine.
        gpu: its accelerator's; None without one.
    """
    return [
        _same_gradient(cpu),
        _printed_values(cpu),
        *_enzyme_against_jax(cpu),
        *_gradient_over_forward(cpu, gpu),
        *_slots(cpu),
        _no_capacity(cpu),
        _out_of_memory(gpu),
        *_padded_cells(cpu, gpu),
        _enzyme_on_gpu(gpu),
        *_left_undone(cpu),
        _capacity_multiplier(cpu),
    ]


def _same_gradient(here: Here) -> Finding:
    claim = f"All implementations give the same gradient to machine precision (N = {AGREEMENT_N:,})"
    study = "largest relative difference " + max((line.max_rel_diff for line in published().agreement), key=float)
    judged = [e for e in here.all(n=AGREEMENT_N) if e.record.outcome in _JUDGED]
    if not judged:
        return Finding(claim, study, NOT_MEASURED, NOT_MEASURED)
    differences = {e.title: e.record.max_rel_diff for e in judged if e.record.max_rel_diff is not None}
    worst = max(differences, key=lambda title: differences[title], default=None)
    right = [e for e in judged if e.ok and differences.get(e.title, 1.0) <= FLOAT64_TOLERANCE]
    words = f"{len(right)} of {len(judged)} rows agree with the closed form" + (
        f"; largest relative difference {text.difference(differences[worst])} ({worst})" if worst else ""
    )
    return Finding(claim, study, words, BORNE_OUT if len(right) == len(judged) else REFUTED)


def _printed_values(here: Here) -> Finding:
    line = published().agreement[0]
    claim = f"The loss and the gradient's norm are those the study printed (N = {AGREEMENT_N:,})"
    study = f"{line.loss}, {line.grad_norm}"
    found = {e.title: (e.record.loss, text.norm(e.record.grad_norm)) for e in here.all(n=AGREEMENT_N)}
    values = {title: (loss, norm) for title, (loss, norm) in found.items() if loss is not None}
    if not values:
        return Finding(claim, study, NOT_MEASURED, NOT_MEASURED)
    right = float(line.loss)
    # summing in another order changes the last printed digit of the loss, in the study too
    others = [
        f"{title}: {text.exact(loss)}, {norm}"
        for title, (loss, norm) in values.items()
        if not (abs(loss - right) <= FLOAT64_TOLERANCE * right and norm == line.grad_norm)
    ]
    words = "; ".join([f"{len(values) - len(others)} of {len(values)} rows print them", *others])
    return Finding(claim, study, words, REFUTED if others else BORNE_OUT)


def _enzyme_against_jax(here: Here) -> Iterator[Finding]:
    studied = [published().timing(system, "cpu", MILLION) for system in ("Enzyme.jl", "JAX")]
    rows = [here.at(name, MILLION) for name in (ENZYME, JAX)]
    where = f"(CPU, N = {MILLION:,})"
    for claim, printed, value in (
        ("Single-threaded Enzyme's gradient takes less time than multithreaded JAX's", "gradient_s", _gradient),
        ("Single-threaded Enzyme's forward pass takes less time than multithreaded JAX's", "forward_s", _forward),
        ("Enzyme compiles faster than JAX", "compile_s", attrgetter("compile_s")),
    ):
        study = " against ".join(text.seconds(getattr(line, printed)) for line in studied)
        yield _less(f"{claim} {where}", study, rows, value)
    single = [here.at(name, MILLION, threads=1) for name in (ENZYME, JAX)]
    yield _open(_less(f"Both on one thread {where}", "not done", single, _gradient))


def _gradient_over_forward(cpu: Here, gpu: Here | None) -> Iterator[Finding]:
    for row, system, here, device in (
        (ENZYME, "Enzyme.jl", cpu, "cpu"),
        (JAX, "JAX", cpu, "cpu"),
        (REACTANT, "Reactant.jl", gpu, "cuda"),
    ):
        line = published().timing(system, device, MILLION)
        printed = text.times(line.gradient_over_forward)
        claim = f"{system}'s gradient costs about {printed} its forward pass ({device}, N = {MILLION:,})"
        judge = partial(_about, right=ratio(line.gradient_s, line.forward_s) or 0.0)
        yield _one(claim, printed, here.at(row, MILLION) if here else None, judge)


def _about(entry: Entry, right: float) -> tuple[str, bool] | None:
    got = entry.gradient_over_forward
    if got is None:
        return None
    return f"{entry.title} {text.times(got)}", right / ABOUT <= got <= right * ABOUT


def _slots(here: Here) -> Iterator[Finding]:
    """The study's column of pair slots, and the padding of JAX's list."""
    cells = next((e for row in (REACTANT, CELLS) if (e := here.at(row, MILLION)) and e.ok), None)
    for claim, entry, millions in (
        ("Loops over ranges evaluate", here.at(ENZYME, MILLION), 91),
        ("JAX's pair list has", here.at(JAX, MILLION), 39),
        ("The padded cell list has", cells, 234),
    ):
        words = f"{claim} {millions} M pair slots (N = {MILLION:,})"
        yield _one(words, f"{millions} M", entry, partial(_rounds_to, millions=millions))
    claim = "JAX's pair list is padded to 1.25 times the pairs found"
    yield _one(claim, "1.25", here.at(JAX, MILLION), _padded_by_a_quarter)


def _rounds_to(entry: Entry, millions: int) -> tuple[str, bool] | None:
    slots = entry.record.pair_slots
    return None if slots is None else (f"{entry.title} {slots:,}", round(slots / MILLION) == millions)


def _padded_by_a_quarter(entry: Entry) -> tuple[str, bool] | None:
    padding = entry.padding
    return None if padding is None else (f"{padding:.4f} slots per true pair", abs(padding - 1.25) < 0.005)


def _no_capacity(here: Here) -> Finding:
    padded = here.at(JAX, AGREEMENT_N)
    capacity = padded.record.capacity if padded else None

    def judge(entry: Entry) -> tuple[str, bool] | None:
        if padded is None or capacity is None:
            return None
        own = entry.record.capacity
        words = f"{entry.title}: {'none' if own is None else f'{own:,}'}; {padded.title}: {capacity:,}"
        return words, own is None

    claim = f"Enzyme's cell list needs no capacity, JAX's list does (N = {AGREEMENT_N:,})"
    return _one(claim, "no padding, no capacity, no overflow check", here.at(ENZYME, AGREEMENT_N), judge)


def _out_of_memory(gpu: Here | None) -> Finding:
    claim = f"JAX's neighbour list runs out of GPU memory (float64, N = {MILLION:,})"
    study = published().timing("JAX", "cuda", MILLION).failure or text.DASH
    entry = gpu.at(JAX, MILLION) if gpu else None
    if entry is not None and entry.record.outcome == "out-of-memory-device":
        return Finding(claim, study, f"{entry.record.outcome} on {entry.setting.unit}", BORNE_OUT)
    return _one(claim, study, entry, lambda e: (f"fits {e.setting.unit}: {text.size(e.peak_bytes)}", False))


def _padded_cells(cpu: Here, gpu: Here | None) -> Iterator[Finding]:
    """What the study says of Reactant's padded cell list beside JAX's pair list."""
    studied = [published().timing(system, "cuda", GPU_N).gradient_s for system in ("JAX", "Reactant.jl")]
    claim = "JAX's pair list takes less time than the padded cell list of Reactant's route"
    on_gpu = [gpu.at(row, GPU_N) if gpu else None for row in (JAX, REACTANT)]
    yield _less(f"{claim} (GPU, N = {GPU_N:,})", " against ".join(map(text.seconds, studied)), on_gpu, _gradient)
    on_cpu = [cpu.at(row, GPU_N) for row in (JAX, REACTANT)]
    yield _open(_less(f"The same two on the CPU (N = {GPU_N:,})", "not done", on_cpu, _gradient))
    here = gpu if gpu and gpu.at(REACTANT, MILLION) else cpu
    rows = [here.at(row, MILLION) for row in (REACTANT, JAX)]
    claim = f"The padded cell list is leaner than the pair list (N = {MILLION:,})"
    yield _less(claim, "it fits where the list does not", rows, attrgetter("peak_bytes"), text.size)


def _enzyme_on_gpu(gpu: Here | None) -> Finding:
    studied = [published().timing(system, "cuda", GPU_N).gradient_s for system in ("JAX", "Enzyme.jl")]
    rows = [gpu.at(row, GPU_N) if gpu else None for row in (JAX, ENZYME)]
    claim = f"On the GPU the padded versions are much faster than Enzyme (N = {GPU_N:,})"
    return _less(claim, " against ".join(map(text.seconds, studied)), rows, _gradient)


def _left_undone(here: Here) -> Iterator[Finding]:
    """What the study lists under "What we did not do": it expects the hand-written ones to be faster."""
    for claim, ours, theirs in (
        ("A hand-written adjoint would be faster in JAX", CELLS_ADJOINT, CELLS),
        ("Enzyme on the scalar pair function alone, and a gather, would be faster", SCALAR_ENZYME, ENZYME),
    ):
        yield _less(
            f"{claim} (N = {MILLION:,})", "not done", [here.at(ours, MILLION), here.at(theirs, MILLION)], _gradient
        )
    rows = [here.at(row, MILLION) for row in (THREADED, ENZYME)]
    claim = f"Enzyme on {here.setting.threads} CPU threads against one (N = {MILLION:,})"
    yield _open(_less(claim, "not done", rows, _gradient))


def _capacity_multiplier(here: Here) -> Finding:
    """Slots and time of each value of jax-md's capacity multiplier, at the largest N it was varied at."""
    claim = "jax-md's capacity multiplier, left at 1.25"
    found = [e for e in here.entries if e.setting == here.setting and e.implementation == JAX and e.timed]
    n = max((e.n for e in found if e.variant), default=None)
    if n is None:
        return Finding(claim, "not done", NOT_MEASURED, NOT_MEASURED)
    words = [
        f"{e.variant or 'as it is'}: {text.short_count(e.record.pair_slots)} slots, {text.seconds(e.record.gradient_s)}"
        for e in found
        if e.n == n
    ]
    return Finding(claim, "not done", f"N = {n:,}: " + "; ".join(words), NEW)


def _one(claim: str, study: str, entry: Entry | None, judge: Callable[[Entry], tuple[str, bool] | None]) -> Finding:
    """A claim about one entry; not measured unless that ended ok and the judge finds its figure."""
    found = judge(entry) if entry and entry.ok else None
    if found is None:
        return Finding(claim, study, _why_not(entry), NOT_MEASURED)
    words, holds = found
    return Finding(claim, study, words, BORNE_OUT if holds else REFUTED)


def _less(
    claim: str,
    study: str,
    rows: Sequence[Entry | None],
    value: _Value,
    show: Callable[[float | None], str] = text.seconds,
) -> Finding:
    """The claim that a value is lower for one entry than for another."""
    a, b = rows
    left, right = (value(e) if e and e.ok else None for e in rows)
    if a is None or b is None or left is None or right is None:
        return Finding(claim, study, _why_not(a, b), NOT_MEASURED)
    words = f"{a.label} {show(left)} against {b.label} {show(right)}: {text.times(ratio(left, right))}"
    return Finding(claim, study, words, BORNE_OUT if left < right else REFUTED)


def _open(finding: Finding) -> Finding:
    """The same figures without a verdict, where the study claims nothing."""
    return finding if finding.verdict == NOT_MEASURED else replace(finding, verdict=NEW)


def _why_not(*found: Entry | None) -> str:
    """The outcomes that stand in the way of a verdict."""
    failures = [f"{e.title}: {e.record.outcome}" for e in found if e is not None and not e.ok]
    return "; ".join(failures) or NOT_MEASURED


def _forward(entry: Entry) -> float | None:
    return entry.record.forward_s


def _gradient(entry: Entry) -> float | None:
    return entry.record.gradient_s
