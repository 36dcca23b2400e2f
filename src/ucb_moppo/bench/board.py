"""What a person sees of a sweep: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, TextIO

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ucb_moppo.bench.cell import Ending, Progress, Task, read_end, read_progress
from ucb_moppo.training.reporter import format_seconds, tell


@dataclass
class Board:
    """Where every cell of a sweep stands."""

    tasks: Sequence[Task]
    slots: int
    """Cells at a time (0: as many as Ray has CPUs, which only Ray knows)."""
    endings: dict[str, Ending] = field(default_factory=dict)
    """By name, of the cells that have ended."""

    def count(self, succeeded: bool) -> int:
        return sum(ending.succeeded == succeeded for ending in self.endings.values())

    def seconds_left(self) -> float | None:
        """Seconds until the sweep ends, at the pace of runs on the same problem and within the time of each cell.

        None before there is a pace, and where nobody knows how many cells run at a time.
        """
        progress = {task.cell.name: read_progress(task) for task in self.tasks}
        paces: dict[str, list[float]] = {}
        for task in self.tasks:
            found = progress[task.cell.name]
            if found.steps:
                paces.setdefault(task.cell.problem, []).append((found.seconds or 0.0) / found.steps)
        if not paces or not self.slots:
            return None
        anywhere = float(np.mean([pace for known in paces.values() for pace in known]))
        left = 0.0
        for task in self.tasks:
            if task.cell.name not in self.endings:
                pace = float(np.mean(paces.get(task.cell.problem, [anywhere])))
                left += seconds_needed(task, progress[task.cell.name], pace)
        return left / self.slots

    def describe(self) -> str:
        """12 of 36 cells done, 1 failed, about 2 h 10 min left."""
        failed, left = self.count(False), self.seconds_left()
        parts = [f"{self.count(True)} of {len(self.tasks)} cells done"]
        if failed:
            parts.append(f"{failed} failed")
        if left is not None and len(self.endings) < len(self.tasks):
            parts.append(f"about {format_seconds(left)} left")
        return ", ".join(parts)


def seconds_needed(task: Task, found: Progress, pace: float) -> float:
    """Seconds from here to the last step of a cell at a pace in seconds per step, or to the end of its time."""
    needed, limit = pace * max(0, task.steps - found.steps), task.cell.max_seconds
    return needed if limit is None else min(needed, max(0.0, limit - (found.seconds or 0.0)))


def describe_slots(slots: int) -> str:
    """1 at a time."""
    return f"{slots} at a time" if slots else "as many at a time as Ray has CPUs"


class Display(Protocol):
    """Told what happens in a sweep."""

    def start(self, board: Board) -> None: ...

    def ended(self, task: Task, ending: Ending) -> None: ...

    def stop(self) -> None: ...


class Lines:
    """A line per cell, for logs and pipes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def start(self, board: Board) -> None:
        self._board = board
        self._print(f"{len(board.tasks)} cells, {describe_slots(board.slots)}")

    def ended(self, task: Task, ending: Ending) -> None:
        self._print(f"{task.cell.name}: {describe_ending(task, ending)}  ({self._board.describe()})")

    def stop(self) -> None: ...

    def _print(self, text: str) -> None:
        tell(text, self._stream)


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

    def ended(self, task: Task, ending: Ending) -> None:
        with suppress(OSError):  # a terminal that is gone is no reason to stop
            self._live.refresh()

    def stop(self) -> None:
        self._live.stop()

    def _draw(self) -> Group:
        return Group(make_table(self._board), Text(self._board.describe()))


def make_table(board: Board) -> Table:
    """The sweep as it stands."""
    seeds = sorted({task.cell.seed for task in board.tasks})
    rows: dict[tuple[str, str], dict[int, Task]] = {}
    for task in board.tasks:
        rows.setdefault((task.cell.problem, task.cell.method), {})[task.cell.seed] = task
    table = Table("problem", "method", *(f"seed {seed}" for seed in seeds))
    for (problem, method), by_seed in rows.items():
        table.add_row(problem, method, *(draw_cell(by_seed[seed], board) for seed in seeds))
    return table


def draw_cell(task: Task, board: Board) -> Text:
    """One cell of the table: finished with its HV, failed, how far it has come, or waiting."""
    ending = board.endings.get(task.cell.name)
    if ending is not None and not ending.succeeded:
        return Text("failed", "red")
    if ending is not None:
        return Text(describe_volume(read_end(task)), "green")
    found = read_progress(task)
    if found == Progress():
        return Text("", "dim")
    return Text(f"{found.steps / task.steps:.0%} {describe_volume(found)}")


def describe_volume(found: Progress) -> str:
    """HV 1.03e+07, or nothing where there is none yet."""
    return "" if found.hypervolume is None else f"HV {found.hypervolume:.4g}"


def describe_ending(task: Task, ending: Ending) -> str:
    """How a cell ended, in a few words."""
    if not ending.succeeded:
        return f"FAILED, {ending.reason}"
    found = read_end(task)
    state = "finished before" if ending.skipped else f"finished in {format_seconds(found.seconds or 0)}"
    values = {"HV": found.hypervolume, "EU": found.expected_utility}
    return ", ".join([state, *(f"{name} {value:.4g}" for name, value in values.items() if value is not None)])


def make_display() -> Display:
    console = Console(stderr=True)
    return LiveTable(console) if console.is_terminal else Lines()
