"""When a run must stop: SIGINT, SIGTERM, SIGHUP (the first asks, a second ends it at once), or its time is up."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from types import FrameType
from typing import Any

from ucb_moppo.errors import ConfigError

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


Handler = Callable[[int, FrameType | None], None]


@contextmanager
def handled_by(handler: Handler) -> Iterator[None]:
    """A context in which signals that ask to stop go to ``handler``.

    SIGTERM or SIGHUP that the process ignores stays ignored: `nohup` asks for that, and a process of a sweep is
    asked to stop by its parent alone. Only the main thread may handle signals: elsewhere nothing changes.
    """
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        heeded = [n for n in SIGNALS if n == signal.SIGINT or signal.getsignal(n) != signal.SIG_IGN]
        before = {number: signal.signal(number, handler) for number in heeded}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def leave_at_once(number: int, frame: FrameType | None) -> None:
    """End the process, where a run has nothing to save: before it has begun, and after it has ended.

    Not by KeyboardInterrupt: where it comes in the middle of a finaliser or a callback, it is swallowed and the run
    goes on.
    """
    say(f"ucb-moppo: {signal.Signals(number).name}: stopped; nothing was being trained\n")
    os._exit(128 + number)


def say(words: str) -> None:
    """Write to standard error from a handler: print is not reentrant, and whoever would read may be gone."""
    with suppress(OSError):
        os.write(2, words.encode())


class StopRequest:
    """A context in which signals are noted instead of obeyed; ``signal`` is the one that came, if any."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._handling = handled_by(self._note)

    def __enter__(self) -> StopRequest:
        self._handling.__enter__()
        return self

    def __exit__(self, *fault: Any) -> None:
        self._handling.__exit__(*fault)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            os._exit(128 + number)
        self.signal = number
        say(f"{signal.Signals(number).name}: saving at the next safe point; once more to stop at once\n")


class Deadline:
    """Wall time after which a run is to end, counted from when this is made; never if no time is given."""

    def __init__(self, max_seconds: float | None) -> None:
        if max_seconds is not None and not 0 < max_seconds < math.inf:
            raise ConfigError(f"max_seconds is {max_seconds}; it must be a positive number")
        self.begun = perf_counter()
        self._end = math.inf if max_seconds is None else self.begun + max_seconds

    @property
    def passed(self) -> bool:
        return perf_counter() >= self._end
