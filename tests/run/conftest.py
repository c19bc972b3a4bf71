"""Fakes run through the real runner: what every test of this folder does."""

import contextlib

import pytest
from fake_cases import planned

from harness.run.runner import CheckRunner, TimeRunner
from harness.run.settings import CheckSettings, TimeSettings


@pytest.fixture(scope="session")
def _runners():
    """One runner for each kind of settings, so that fakes share their references."""
    with contextlib.ExitStack() as stack:
        started = {}

        def runner(settings):
            if settings not in started:
                kind = CheckRunner if isinstance(settings, CheckSettings) else TimeRunner
                started[settings] = stack.enter_context(kind(settings, run_id="test"))
            return started[settings]

        yield runner


@pytest.fixture(scope="session")
def bench(_runners):
    """Time a fake through the real runner and worker; returns its record."""

    def run(name, n=50, budget_s=0.02, limit_s=100.0, memory_limit_bytes=None, **fields):
        settings = TimeSettings(
            budget_s=budget_s, limit_s=limit_s, memory_limit_bytes=memory_limit_bytes, skip_larger=False
        )
        (finished,) = _runners(settings).run([planned(name, n, **fields)])
        return finished.record

    return run


@pytest.fixture(scope="session")
def check(_runners):
    """Check a fake through the real runner and worker; returns its record."""

    def run(name, n=50, **fields):
        (finished,) = _runners(CheckSettings(skip_larger=False)).run([planned(name, n, **fields)])
        return finished.record

    return run
