"""What a person sees of a sweep: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TextIO

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ucb_moppo.bench.cell import Outcome, Task, progress
from ucb_moppo.cli.progress import format_seconds


@dataclass
class Board:
    """Where every cell of a sweep stands."""

    tasks: Sequence[Task]
    slots: int
    """Cells at a time (0: as many as Ray has CPUs, which only Ray knows)."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """By name, of the cells that have ended."""

    def count(self, succeeded: bool) -> int:
        return sum(outcome.succeeded == succeeded for outcome in self.outcomes.values())

    def left(self) -> float | None:
        """Seconds until the sweep ends, at the pace of runs on the same problem and within the time of each cell.

        None before there is a pace, and where nobody knows how many cells run at a time.
        """
        stand = {task.cell.name: spent(progress(task)) for task in self.tasks}
        paces: dict[str, list[float]] = {}
        for task in self.tasks:
            steps, seconds = stand[task.cell.name]
            if steps:
                paces.setdefault(task.cell.problem, []).append(seconds / steps)
        if not paces or not self.slots:
            return None
        anywhere = float(np.mean([pace for known in paces.values() for pace in known]))
        left = 0.0
        for task in self.tasks:
            if task.cell.name not in self.outcomes:
                pace = float(np.mean(paces.get(task.cell.problem, [anywhere])))
                left += still_needed(task, *stand[task.cell.name], pace)
        return left / self.slots

    def line(self) -> str:
        """12 of 36 cells done, 1 failed, about 2 h 10 min left."""
        failed, left = self.count(False), self.left()
        parts = [f"{self.count(True)} of {len(self.tasks)} cells done"]
        if failed:
            parts.append(f"{failed} failed")
        if left is not None and len(self.outcomes) < len(self.tasks):
            parts.append(f"about {format_seconds(left)} left")
        return ", ".join(parts)


def spent(found: Mapping[str, Any]) -> tuple[int, float]:
    """Steps of the budget, those of pre-training included, and seconds that a summary tells of."""
    steps = (found.get("training_steps") or 0) + (found.get("pretraining_steps") or 0)
    return steps, found.get("seconds") or 0.0


def still_needed(task: Task, steps: int, seconds: float, pace: float) -> float:
    """Seconds from here to the last step of a cell at a pace in seconds per step, or to the end of its time."""
    needed, limit = pace * max(0, task.steps - steps), task.cell.max_seconds
    return needed if limit is None else min(needed, max(0.0, limit - seconds))


def at_a_time(slots: int) -> str:
    """1 at a time."""
    return f"{slots} at a time" if slots else "as many at a time as Ray has CPUs"


class Display(Protocol):
    """Told what happens in a sweep."""

    def start(self, board: Board) -> None: ...

    def ended(self, task: Task, outcome: Outcome) -> None: ...

    def stop(self) -> None: ...


class Lines:
    """A line per cell, for logs and pipes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def start(self, board: Board) -> None:
        self._board = board
        self._print(f"{len(board.tasks)} cells, {at_a_time(board.slots)}")

    def ended(self, task: Task, outcome: Outcome) -> None:
        self._print(f"{task.cell.name}: {describe(task, outcome)}  ({self._board.line()})")

    def stop(self) -> None: ...

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class LiveTable:
    """A row per problem and method, a column per seed, redrawn while cells run."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def start(self, board: Board) -> None:
        self._board = board
        self._live = Live(
            get_renderable=self._draw, console=self._console, refresh_per_second=1, redirect_stderr=False
        )
        self._live.start()

    def ended(self, task: Task, outcome: Outcome) -> None:
        self._live.refresh()

    def stop(self) -> None:
        self._live.stop()

    def _draw(self) -> Group:
        return Group(make_table(self._board), Text(self._board.line()))


def make_table(board: Board) -> Table:
    """The sweep as it stands."""
    seeds = sorted({task.cell.seed for task in board.tasks})
    rows: dict[tuple[str, str], dict[int, Task]] = {}
    for task in board.tasks:
        rows.setdefault((task.cell.problem, task.cell.method), {})[task.cell.seed] = task
    table = Table("problem", "method", *(f"seed {seed}" for seed in seeds))
    for (problem, method), by_seed in rows.items():
        table.add_row(problem, method, *(stands(by_seed[seed], board) for seed in seeds))
    return table


def stands(task: Task, board: Board) -> Text:
    """One cell of the table: finished with its HV, failed, how far it has come, or waiting."""
    outcome, found = board.outcomes.get(task.cell.name), progress(task)
    if outcome is not None and not outcome.succeeded:
        return Text("failed", "red")
    hypervolume = f"HV {found['hypervolume']:.4g}" if found.get("hypervolume") is not None else ""
    if outcome is not None:
        return Text(hypervolume, "green")
    if not found:
        return Text("", "dim")
    return Text(f"{spent(found)[0] / task.steps:.0%} {hypervolume}")


def describe(task: Task, outcome: Outcome) -> str:
    """How a cell ended, in a few words."""
    if not outcome.succeeded:
        return f"FAILED, {outcome.reason}"
    found = progress(task)
    state = "finished before" if outcome.skipped else f"finished in {format_seconds(found.get('seconds') or 0)}"
    return f"{state}, HV {found.get('hypervolume') or 0:.4g}, EU {found.get('expected_utility') or 0:.4g}"


def make_display() -> Display:
    console = Console(stderr=True)
    return LiveTable(console) if console.is_terminal else Lines()
