"""Fresh episodes on demand: one policy at a time, in a process of its own, as the problem may be anybody's code.

Run as a program it lets a row of a run act and prints what came of it as one line of JSON.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from ucb_moppo.decide.forecast import Episodes
from ucb_moppo.errors import RunFormatError
from ucb_moppo.store.layout import CONFIG
from ucb_moppo.store.run import Run, load_run
from ucb_moppo.training.imports import announce_imports
from ucb_moppo.viewer.renderer import Key, start
from ucb_moppo.viewer.video import be_child

NUM_EPISODES = 100
MAX_SECONDS = 900.0
"""That the episodes of one policy may take."""


class Told(msgspec.Struct):
    """What the program prints: episodes, or what went wrong."""

    returns: list[list[float]] = []
    steps: list[int] = []
    ended_early: list[bool] = []
    error: str = ""


@dataclass(frozen=True, eq=False)
class ForecastProgress:
    """Where the episodes of a row stand."""

    state: str
    """missing, running, done or failed."""
    episodes: Episodes | None = None
    error: str = ""


@dataclass
class Forecaster:
    """Runs episodes in the background and remembers them as long as the page is served."""

    _progress: dict[Key, ForecastProgress] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    """Held by whoever runs: one policy at a time."""

    def progress(self, path: Path, row: int) -> ForecastProgress:
        """Where the episodes of a row stand."""
        try:
            key = (str(path), Run(path).digest(), row)
        except RunFormatError as fault:
            return ForecastProgress("failed", error=str(fault))
        with self._lock:
            return self._progress.get(key, ForecastProgress("missing"))

    def request(self, path: Path, row: int) -> None:
        """Ask for episodes, unless they are there or on their way."""
        if self.progress(path, row).state in ("done", "running"):
            return
        with suppress(RunFormatError):  # which ``progress`` tells
            key = (str(path), Run(path).digest(), row)
            self._set(key, ForecastProgress("running"))
            threading.Thread(target=self._work, args=[key], daemon=True).start()

    def _work(self, key: Key) -> None:
        with self._turn:
            try:
                self._set(key, run_apart(Path(key[0]), key[2]))
            except Exception as fault:  # of one policy: the next may do better
                self._set(key, ForecastProgress("failed", error=f"{type(fault).__name__}: {fault}"))

    def _set(self, key: Key, progress: ForecastProgress) -> None:
        with self._lock:
            self._progress[key] = progress


def run_apart(path: Path, row: int, count: int = NUM_EPISODES, seconds: float = MAX_SECONDS) -> ForecastProgress:
    """Episodes of a row, run in another process, which ends with this one or when its time is up."""
    with suppress(RunFormatError):  # which the process tells
        announce_imports(path / CONFIG, Run(path).config)
    command = [sys.executable, "-P", "-m", "ucb_moppo.viewer.forecaster", str(path), str(row), str(count)]
    with start(command) as process:
        late = threading.Timer(seconds, process.kill)
        late.start()
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            # Both are read to their ends, while its standard input, which it lives by, stays open.
            errors: list[str] = []
            reader = threading.Thread(target=errors.extend, args=[process.stderr], daemon=True)
            reader.start()
            told = [one for one in map(parse_told, process.stdout) if one is not None]
            reader.join(timeout=5)
        finally:
            late.cancel()
            process.kill()
    if not told:
        last = next((line.strip() for line in reversed(errors) if line.strip()), "nothing came of it in time")
        return ForecastProgress("failed", error=f"the episodes stopped: {last}")
    return to_progress(told[-1])


def parse_told(line: str) -> Told | None:
    """What a line tells; None for what an environment prints beside it."""
    try:
        return msgspec.json.decode(line, type=Told)
    except (ValueError, RecursionError):
        return None


def to_progress(told: Told) -> ForecastProgress:
    """Episodes as arrays; what is not as many returns, lengths and ends is refused."""
    if told.error:
        return ForecastProgress("failed", error=told.error)
    returns = np.array(told.returns, float)
    if returns.ndim != 2 or not len(returns) == len(told.steps) == len(told.ended_early) > 0:
        return ForecastProgress("failed", error="the episodes came in pieces")
    return ForecastProgress("done", Episodes(returns, np.array(told.steps), np.array(told.ended_early)))


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m ucb_moppo.viewer.forecaster RUN ROW EPISODES``"""
    from ucb_moppo.training.forecast import run_policy

    path, row, count = list(sys.argv[1:] if argv is None else argv)
    try:
        found = run_policy(load_run(path), int(row), int(count))
        told = Told(found.returns.tolist(), found.steps.tolist(), found.ended_early.tolist())
    except Exception as fault:
        told = Told(error=f"{type(fault).__name__}: {fault}")
    print(msgspec.json.encode(told).decode(), flush=True)
    return 0


if __name__ == "__main__":
    be_child(main)
