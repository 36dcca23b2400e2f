"""SIGINT and SIGTERM: the first asks a run to stop at its next safe point, the second ends it at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """A context in which signals are noted instead of obeyed; ``signal`` is the one that came, if any.

    Only the main thread may handle signals: elsewhere nothing changes.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
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
        os.write(2, f"{name}: saving at the next safe point; once more to stop at once\n".encode())
