"""Taking time: one call's, or repeated calls' until they are steady. Imports no framework."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from harness.contract.samples import Samples

MINIMUM_SAMPLES = 5
MAXIMUM_SAMPLES = 200
STEADY_SPREAD = 0.02


def sample(
    call: Callable[[Any], Any], inputs: Sequence[Any], wait: Callable[..., None], budget_s: float
) -> tuple[Samples, Any]:
    """Time calls, each from before the call until all its outputs are there.

    Goes on until the spread is below 2 %, the budget is spent or there are 200; never fewer than five.

    Args:
        call: takes one input.
        inputs: taken in turn, so that nothing can be cached or folded.
        wait: returns when its arguments have been computed.
        budget_s: seconds for all samples together.

    Returns:
        The samples, and the last call's output.
    """
    wait(inputs)
    seconds: list[float] = []
    begin = time.perf_counter()
    while True:
        x = inputs[len(seconds) % len(inputs)]
        start = time.perf_counter()
        output = call(x)
        wait(output)
        now = time.perf_counter()
        seconds.append(now - start)
        if len(seconds) >= MINIMUM_SAMPLES:
            steady = len(seconds) % MINIMUM_SAMPLES == 0 and Samples(seconds).spread < STEADY_SPREAD
            if steady or now - begin > budget_s or len(seconds) >= MAXIMUM_SAMPLES:
                return Samples(seconds), output


def seconds(action: Callable[[], Any]) -> float:
    """Wall seconds of one call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
