"""One record per planned case and round: its schema."""

from __future__ import annotations

from typing import Any, Literal, get_args
from urllib.parse import quote

import msgspec

from harness.contract.names import number_name
from harness.contract.protocol import Case, Description
from harness.contract.registry import row_name

SCHEMA_VERSION = 1

Outcome = Literal[
    "ok",
    "disagrees",
    "wrong-dtype",
    "invalid-input",
    "overflow",
    "out-of-memory-host",
    "out-of-memory-device",
    "timeout",
    "crashed",
    "error",
    "bad-output",
    "unsupported",
    "unavailable",
    "skipped",
    "harness-error",
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
EXPECTED_OUTCOMES = frozenset({"ok", "unsupported", "unavailable"})
"""Outcomes that surprise nobody."""
RETRIED_OUTCOMES = frozenset({"harness-error"})
"""Outcomes that say nothing of the row, as on a full disk: a resumed run takes the case up again."""
LIMIT_OUTCOMES = frozenset({"out-of-memory-host", "out-of-memory-device", "timeout"})
"""After one of these the same series at larger N is skipped."""


class Worst(msgspec.Struct, frozen=True):
    """The particle whose gradient is furthest off.

    Attributes:
        index: row of the positions.
        got, expected: its gradient, two components; null where not finite.
    """

    index: int
    got: list[float | None]
    expected: list[float]


class Result(msgspec.Struct, kw_only=True):
    """What a worker finds out about one case. Seconds and bytes; what was not measured is null.

    Attributes:
        outcome: one of the closed list.
        reason: why it is not ok, or a remark on an ok one.
        loss: its value.
        grad_norm: |g|_2, g its gradient.
        max_rel_diff: max |g - g_ref| / max |g_ref|, the study's figure.
        scaled_diff: max |g - g_ref| / S, S = max over i and axis of sum_j |pair term|; what the gate uses.
        loss_rel_diff: |loss - loss_ref| / |loss_ref|.
        fd_diff: distance of the gradient from a central difference of the row's own loss along a random direction.
        worst: the particle furthest off.
        true_pairs: ordered pairs i != j with r < 2h, counted through the row's own cells or list.
        pair_slots: slots W is evaluated on in one forward pass.
        search_slots: candidate distances computed to find them.
        capacity: slots per cell or in the list.
        reallocations: times a capacity was exceeded and grown.
        recompilations: compilations seen after the compile phase, and samples that look like one.
        build_s: seconds to make the row, before anything is compiled; null where nothing is timed.
        compile_forward_s: seconds to compile the forward pass, from cold private caches.
        compile_gradient_s: seconds to compile the gradient after that.
        forward_s: median seconds of the forward pass's samples.
        forward_iqr_s: their interquartile range.
        forward_samples_s: every one of them.
        gradient_s: median seconds of the gradient's samples; loss and gradient together.
        gradient_iqr_s: their interquartile range.
        gradient_samples_s: every one of them.
        warmup_samples_s: first calls after the compile phase, forward then gradient; in no statistic.
        cpu_over_wall: processor seconds per wall second over the gradient samples.
        peak_host_bytes: high-water mark of resident memory during the samples less its level before the build.
        peak_device_bytes: peak of the framework's allocator on the accelerator.
        driver_device_bytes: growth of the accelerator's used memory as the driver sees it.
        noisy: whether a spread stayed above 10 % of its median.
        description: the row, in its own words.
        observed: versions, flags, threads and cores as the worker's process saw them.
    """

    outcome: Outcome
    reason: str | None = None
    loss: float | None = None
    grad_norm: float | None = None
    max_rel_diff: float | None = None
    scaled_diff: float | None = None
    loss_rel_diff: float | None = None
    fd_diff: float | None = None
    worst: Worst | None = None
    true_pairs: int | None = None
    pair_slots: int | None = None
    search_slots: int | None = None
    capacity: int | None = None
    reallocations: int | None = None
    recompilations: int | None = None
    build_s: float | None = None
    compile_forward_s: float | None = None
    compile_gradient_s: float | None = None
    forward_s: float | None = None
    forward_iqr_s: float | None = None
    forward_samples_s: list[float] | None = None
    gradient_s: float | None = None
    gradient_iqr_s: float | None = None
    gradient_samples_s: list[float] | None = None
    warmup_samples_s: list[float] | None = None
    cpu_over_wall: float | None = None
    peak_host_bytes: int | None = None
    peak_device_bytes: int | None = None
    driver_device_bytes: int | None = None
    noisy: bool | None = None
    description: Description | None = None
    observed: dict[str, Any] = {}


class Record(Result, kw_only=True):
    """A result with all that identifies it.

    Attributes:
        schema_version: of this layout.
        run_id: one invocation of `bench` or `check`.
        case_id: the case in one readable string.
        round: from 0; each round repeats the plan.
        timestamp: UTC, ISO 8601, when the case ended.
        implementation: the row by its name in tables.
        scenario: how the positions are drawn.
        n: particles; 0 where the scenario sets the number.
        device: cpu or cuda.
        dtype: of the positions, float64 or float32.
        threads: processor cores that the case may use.
        options: keyword options that were given to the row; those left out have the description's values.
        variables: environment variables given to the case on purpose; a caller's own reach none.
        problem: what is differentiated.
        params: L, h, m, rho0 and cells per side nc.
        device_name: processor or accelerator the outputs lay on.
        fast_math: flags that may change values, from the description.
        expected: "skipped" where the time of the run was over: an outcome that surprises nobody.
        case_s: wall seconds of the whole case, process start and check included.
        lines_forward: lines of code of the forward pass.
        lines_adjoint: lines of code of the adjoint.
        code_hash: of the row's and the harness's sources.
        environment: machine, packages, flags and commit as the parent process saw them.
    """

    schema_version: int = SCHEMA_VERSION
    run_id: str = ""
    case_id: str = ""
    round: int = 0
    timestamp: str = ""
    implementation: str
    problem: str = "sph_density"
    scenario: str
    n: int
    params: dict[str, float] = {}
    device: str
    device_name: str | None = None
    dtype: str
    threads: int
    options: dict[str, float] = {}
    variables: dict[str, str] = {}
    fast_math: str | None = None
    expected: list[str] = []
    case_s: float | None = None
    lines_forward: int | None = None
    lines_adjoint: int | None = None
    code_hash: str = ""
    environment: dict[str, Any] = {}

    @property
    def case(self) -> Case:
        """The case, its implementation by the name in tables."""
        return Case(**{name: getattr(self, name) for name in Case.__struct_fields__})

    @property
    def is_expected(self) -> bool:
        """Whether this outcome surprises nobody."""
        return self.outcome in EXPECTED_OUTCOMES or self.outcome in self.expected


def case_id(case: Case) -> str:
    """The case as one readable string, the same in every run and another for every other case."""
    parts = [row_name(case.implementation), case.scenario, str(case.n), case.device, case.dtype, f"{case.threads}t"]
    parts += [f"{name}={number_name(value)}" for name, value in sorted(case.options.items())]
    parts += [f"${name}={_escaped(value)}" for name, value in sorted(case.variables.items())]
    return "/".join(parts)


def _escaped(value: str) -> str:
    """A value of any text without what separates the parts of a case, as in a URL."""
    return quote(value, safe=" =,:;+@")
