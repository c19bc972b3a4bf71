"""Which parameters a change is tried with, and which wait for `make test-thorough`."""

from collections.abc import Collection, Iterable
from itertools import product
from typing import Any

import pytest

LATER = pytest.mark.thorough


def thorough(names: Iterable[Any], few: Collection[Any]) -> list[Any]:
    """The parameters `names`, of which all but `few` are marked thorough."""
    return [name if name in few else pytest.param(name, marks=LATER) for name in names]


def spread(*names: Iterable[Any], every: int) -> list[Any]:
    """All combinations of parameters, all but each `every`-th marked thorough.

    Along a diagonal: a name is tried where the other lists together reach every remainder, as one of `every` or more
    names does.
    """
    numbered = product(*(list(enumerate(each)) for each in names))
    return [
        pytest.param(*(name for _, name in pair), marks=() if sum(k for k, _ in pair) % every == 0 else LATER)
        for pair in numbered
    ]
