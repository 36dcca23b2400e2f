"""When a run must stop: SIGINT, SIGTERM, SIGHUP (the first asks, a second ends it at once), or its time is up."""

from __future__ import annotations

import math
import os
import signal
import threading
from contextlib import suppress
from time import perf_counter
from types import FrameType
from typing import Any

from ucb_moppo.errors import ConfigError

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class StopRequest:
    """A context in which signals are noted instead of obeyed; ``signal`` is the one that came, if any.

    SIGTERM or SIGHUP that the process ignores stays ignored: `nohup` asks for that, and a process of a sweep is
    asked to stop by its parent alone. Only the main thread may handle signals: elsewhere nothing changes.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            heeded = [n for n in SIGNALS if n == signal.SIGINT or signal.getsignal(n) != signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._note) for number in heeded}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            os._exit(128 + number)
        self.signal = number
        name = signal.Signals(number).name
        # Not print: the signal may have come in the middle of one, and streams are not reentrant.
        with suppress(OSError):  # whoever would read it may have been stopped as well
            os.write(2, f"{name}: saving at the next safe point; once more to stop at once\n".encode())


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
