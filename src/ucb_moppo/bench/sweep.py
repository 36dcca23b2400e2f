"""Runs a sweep: what is finished is skipped, what broke is continued, what fails is named at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from ucb_moppo.bench.board import Board, Display, describe_slots, make_display
from ucb_moppo.bench.cell import Ending, Task, find_state, run_logged, run_task
from ucb_moppo.bench.sweep_file import cell_config, read_sweep
from ucb_moppo.cores import available_cores
from ucb_moppo.errors import ConfigError, Interrupted, UcbMoppoError
from ucb_moppo.registry import EXECUTORS
from ucb_moppo.runtime.placement import Placement
from ucb_moppo.runtime.pool import run_cells
from ucb_moppo.training.stop import handled_by, say


@dataclass(frozen=True)
class Sweep:
    """A sweep, where its files go and how it runs."""

    name: str
    tasks: tuple[Task, ...]
    runs: Path
    out: Path
    executor: str = "processes"
    cores: int = 0
    """0: all that this process may use, or all of the cluster."""
    ray_address: str | None = None

    @property
    def slots(self) -> int:
        """Cells at a time (0: as Ray has CPUs). By the whole sweep, so that the last to run get the same share."""
        placement: Placement = EXECUTORS.find(self.executor)
        return placement.count_slots(len(self.tasks), self.cores)


def make_sweep(
    spec: Path,
    *,
    runs: Path | None = None,
    out: Path | None = None,
    executor: str = "processes",
    cores: int = 0,
    ray_address: str | None = None,
) -> Sweep:
    """The sweep that a JSON file asks for; everything wrong with it is found here."""
    EXECUTORS.check(executor)
    allowed = len(available_cores())
    if cores < 0 or (cores > allowed and not EXECUTORS.entries[executor].on_a_cluster):
        raise ConfigError(f"--cores is {cores}; this process may use {allowed}, and 0 stands for all of them")
    asked = read_sweep(spec)
    places = runs or Path("runs") / asked.name, out or Path("results") / asked.name
    for place in places:
        if place.exists() and not place.is_dir():
            raise ConfigError(f"{place} is a file; name a directory with --runs or --out")
    # A Ray task has a working directory of its own; the files must be where all nodes see them.
    runs, out = (place.resolve() if EXECUTORS.entries[executor].on_a_cluster else place for place in places)
    tasks = tuple(Task(cell, runs, out, cell_config(cell).steps) for cell in asked.cells())
    return Sweep(asked.name, tasks, runs, out, executor, cores, ray_address)


def run_sweep(sweep: Sweep, display: Display | None = None) -> dict[str, Ending]:
    """Run every cell that is not finished; how each ended, by name."""
    display = display or make_display()
    board = Board(sweep.tasks, sweep.slots)
    display.start(board)

    def on_end(task: Task, ending: Ending) -> None:
        board.endings[task.cell.name] = ending
        display.ended(task, ending)

    try:
        with handled_by(stop_sweep):
            for task, ending in run_tasks(sweep, unfinished(board.tasks, on_end)):
                on_end(task, ending)
    finally:
        display.stop()
    return board.endings


def unfinished(tasks: Sequence[Task], on_end: Callable[[Task, Ending], None]) -> list[Task]:
    """The cells left to run. What is finished, or is not what the sweep asks for, ends right away."""
    left = []
    for task in tasks:
        try:
            state = find_state(task)
        except UcbMoppoError as fault:
            on_end(task, Ending(False, str(fault)))
            continue
        if state == "finished":
            on_end(task, run_task(task))
        else:
            left.append(task)
    return left


def run_tasks(sweep: Sweep, tasks: Sequence[Task]) -> Iterator[tuple[Task, Ending]]:
    """Run cells where the sweep says; yields each as it ends."""
    work = run_task if EXECUTORS.entries[sweep.executor].in_this_process else run_logged
    where: dict[str, Any] = {"executor": sweep.executor, "ray_address": sweep.ray_address}
    found: Any = run_cells(tasks, work, cores=sweep.cores, slots=sweep.slots, **where)
    with closing(found):  # which asks the cells under way to stop
        for task, outcome in found:
            lost = Ending(False, f"{outcome.fault}; its log is {task.log}")
            yield task, lost if outcome.value is None else outcome.value


def stop_sweep(number: int, frame: FrameType | None) -> None:
    """SIGTERM and SIGHUP stop a sweep like Ctrl-C does."""
    say("stopping: the cells under way save what they have; once more to stop at once\n")
    raise Interrupted("stopped; the same command continues the sweep", number)


def describe_sweep(sweep: Sweep) -> str:
    """What would be done, cell by cell."""
    lines = [f"{sweep.name}: {len(sweep.tasks)} cells, {describe_slots(sweep.slots)}"]
    words = {"new": "to run", "finished": "finished, to skip", "broken": "broken off, to continue"}
    for task in sweep.tasks:
        try:
            state = words[find_state(task)]
        except UcbMoppoError as fault:
            state = f"cannot run: {fault}"
        lines.append(f"{task.cell.name}: {task.steps:,} steps, {state}")
    return "\n".join([*lines, f"runs go to {sweep.runs}, results to {sweep.out}"])


def describe_end(sweep: Sweep, endings: dict[str, Ending]) -> str:
    """What came of it, with the reason of every failure."""
    failed = {name: ending.reason for name, ending in endings.items() if not ending.succeeded}
    skipped = sum(ending.skipped for ending in endings.values())
    finished = len(endings) - len(failed)
    before = f" ({skipped} of them before)" if skipped else ""
    lines = [f"{len(endings)} cells: {finished} finished{before}, {len(failed)} failed"]
    lines += [f"failed: {name}: {reason}" for name, reason in failed.items()]
    if finished:
        lines.append(f"results: {sweep.out}   table: ucb-moppo report {sweep.out}")
    return "\n".join(lines)
