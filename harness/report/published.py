"""The figures the study printed, on its own machine: beside ours in every table and figure, never mixed with them."""

from __future__ import annotations

import functools
from importlib import resources

import msgspec

AGREEMENT_N = 1_000
"""Particles of the study's table "Same gradient from all three"."""


class PublishedAgreement(msgspec.Struct, frozen=True):
    """One line of that table, as printed.

    Attributes:
        system: the study's name of it.
        loss, grad_norm, max_rel_diff: digits as printed; the difference is to Enzyme.jl's gradient.
    """

    system: str
    loss: str
    grad_norm: str
    max_rel_diff: str


class PublishedTiming(msgspec.Struct, frozen=True):
    """One timing of the study, seconds; what it did not print is null.

    Attributes:
        system: the study's name of it.
        device: cpu or cuda.
        n: particles.
        forward_s, gradient_s, compile_s: seconds.
        gradient_over_forward: as printed.
        pair_slots: as printed.
        failure: what it printed instead of times.
    """

    system: str
    device: str
    n: int
    forward_s: float | None = None
    gradient_s: float | None = None
    gradient_over_forward: int | None = None
    pair_slots: str | None = None
    compile_s: float | None = None
    failure: str | None = None


class Published(msgspec.Struct, frozen=True):
    """All that the study printed.

    Attributes:
        machine: it ran on.
        conditions: precision, threads, runs.
        agreement: its table of gradients at N = 1,000.
        timings: its Table 1 (N = 1,000,000) and its gradients at N = 100,000.
    """

    machine: str
    conditions: str
    agreement: tuple[PublishedAgreement, ...]
    timings: tuple[PublishedTiming, ...]

    def timing(self, system: str, device: str, n: int) -> PublishedTiming:
        """The study's timing of one system."""
        (found,) = (t for t in self.timings if (t.system, t.device, t.n) == (system, device, n))
        return found


@functools.cache
def published() -> Published:
    """The study's figures."""
    return msgspec.json.decode(resources.files(__package__).joinpath("published.json").read_bytes(), type=Published)
