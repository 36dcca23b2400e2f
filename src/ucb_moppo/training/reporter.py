"""Who is told what happens in a run while it trains; what a person sees of it is the command line's matter."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TextIO

from ucb_moppo.config import RunConfig
from ucb_moppo.engine.learner import Plan, StageRecord


class Reporter(Protocol):
    """Told what happens in a run."""

    def start(self, config: RunConfig, plan: Plan, path: Path) -> None: ...

    def iteration(self, iteration: int) -> None: ...

    def stage(self, record: StageRecord) -> None: ...

    def stop(self) -> None: ...


class Silent:
    """Says nothing."""

    def start(self, config: RunConfig, plan: Plan, path: Path) -> None: ...

    def iteration(self, iteration: int) -> None: ...

    def stage(self, record: StageRecord) -> None: ...

    def stop(self) -> None: ...


def format_seconds(seconds: float) -> str:
    """12 s, 3 min 20 s, 1 h 05 min."""
    seconds = max(0, round(seconds))
    if seconds < 60:
        return f"{seconds} s"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def count_of(number: int, one: str, many: str) -> str:
    """1 policy, 4 policies."""
    return f"{number:,} {one if number == 1 else many}"


def tell(text: str, stream: TextIO) -> None:
    """Print a line, until nobody reads any more: output is never worth a run."""
    try:
        print(text, file=stream, flush=True)
    except OSError:
        silence(stream)


def silence(stream: TextIO) -> None:
    """Let a stream that nobody reads lead nowhere, so that what is still in it fails nobody."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
