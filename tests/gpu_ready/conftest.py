"""Lines that tests of GPU readiness add to the summary at the end of the run."""

import pytest

_LINES = pytest.StashKey[list[str]]()


@pytest.fixture
def add_to_summary(request):
    """Call it with a line to print at the end."""
    return request.config.stash.setdefault(_LINES, []).append


def pytest_terminal_summary(terminalreporter, config):
    if lines := config.stash.get(_LINES, []):
        terminalreporter.section("registers and spills of GPU kernels")
        for line in lines:
            terminalreporter.write_line(line)
