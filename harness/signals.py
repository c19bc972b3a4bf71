"""Ctrl-C and the signals by which a terminal or a scheduler ends a command, as one exception."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """The command was asked to end; whatever cleans up after Ctrl-C does so for every such signal.

    Attributes:
        exit_code: 128 and the signal's number, as a shell has it.
        words: how it was asked.
    """

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number
        name = signal.Signals(number).name
        self.words = "interrupted" if number == signal.SIGINT else f"interrupted by {name}"
        super().__init__(self.words)


@contextmanager
def interrupting() -> Iterator[None]:
    """Inside, each of `ENDING` raises `Interrupted`, the first time: what cleans up then is not disturbed.

    A signal that is ignored, as under nohup, stays so. Without effect outside the main thread, which gets no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    caught = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in caught:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, before[number])


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted(number)
