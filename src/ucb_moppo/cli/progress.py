"""What a person sees while a run trains: a bar in a notebook or on a terminal, lines elsewhere, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ucb_moppo.cli.clock import Clock, describe_plan, describe_stage
from ucb_moppo.cli.notebook import NotebookBar
from ucb_moppo.config import RunConfig
from ucb_moppo.engine.learner import Plan, StageRecord
from ucb_moppo.training.reporter import Reporter, Silent, format_seconds, silence, tell


class PlainLines(Silent):
    """A line per stage, for logs and pipes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream, self._clock = stream or sys.stderr, Clock()

    def start(self, config: RunConfig, plan: Plan, path: Path) -> None:
        self._clock.start(plan)
        self._print(describe_plan(config, plan, path))

    def stage(self, record: StageRecord) -> None:
        done = record.iteration
        self._print(
            f"stage {record.stage}/{self._clock.plan.num_stages}  {record.training_steps:,} steps  "
            f"{self._clock.rate(done):,.0f} steps/s  {describe_stage(record)}  "
            f"{format_seconds(self._clock.left(done))} left"
        )

    def _print(self, text: str) -> None:
        tell(text, self._stream)


class Bar(Silent):
    """A live progress bar on a terminal."""

    def __init__(self, console: Console) -> None:
        self._clock = Clock()
        self._progress = Progress(
            TextColumn("stage {task.fields[stage]}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%  {task.fields[rate]}  {task.fields[found]}  {task.fields[left]}"),
            console=console,
        )

    def start(self, config: RunConfig, plan: Plan, path: Path) -> None:
        self._clock.start(plan)
        self._progress.console.print(describe_plan(config, plan, path), highlight=False)
        fields: dict[str, Any] = {"stage": f"0/{plan.num_stages}", "rate": "", "found": "", "left": ""}
        self._task = self._progress.add_task("train", total=plan.num_iterations, **fields)
        self._progress.start()

    def iteration(self, iteration: int) -> None:
        self._progress.update(
            self._task,
            completed=iteration,
            rate=f"{self._clock.rate(iteration):,.0f} steps/s",
            left=f"{format_seconds(self._clock.left(iteration))} left",
        )

    def stage(self, record: StageRecord) -> None:
        stage = f"{record.stage}/{self._clock.plan.num_stages}"
        self._progress.update(self._task, stage=stage, found=describe_stage(record))

    def stop(self) -> None:
        self._progress.stop()


class UntilUnread:
    """Tells another reporter, until its terminal is gone; then the run goes on in silence."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def start(self, config: RunConfig, plan: Plan, path: Path) -> None:
        self._try(lambda reporter: reporter.start(config, plan, path))

    def iteration(self, iteration: int) -> None:
        self._try(lambda reporter: reporter.iteration(iteration))

    def stage(self, record: StageRecord) -> None:
        self._try(lambda reporter: reporter.stage(record))

    def stop(self) -> None:
        self._try(lambda reporter: reporter.stop())

    def _try(self, tell_it: Callable[[Reporter], None]) -> None:
        try:
            tell_it(self._reporter)
        except OSError:
            self._reporter = Silent()
            silence(sys.stderr)


def make_reporter(quiet: bool = False) -> Reporter:
    """A bar in a notebook or on a terminal, plain lines elsewhere, nothing when told to be quiet."""
    if quiet:
        return Silent()
    console = Console(stderr=True)
    if console.is_jupyter:
        return NotebookBar()
    return UntilUnread(Bar(console)) if console.is_terminal else PlainLines()
