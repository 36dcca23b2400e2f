"""TensorBoard and Weights & Biases as observers of a run, both optional installs.

They are told what every reporter is told and write the same numbers as ``metrics.jsonl``; training knows
nothing of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ucb_moppo.cli.progress import make_reporter
from ucb_moppo.config import RunConfig
from ucb_moppo.engine.learner import Plan, StageRecord
from ucb_moppo.errors import needing
from ucb_moppo.training.reporter import Reporter, Silent


def make_reporters(quiet: bool, tensorboard: bool, wandb: bool) -> Reporter:
    """What tells a person of a run, and the trackers asked for. What is not installed is found before training."""
    trackers: list[Reporter] = [TensorBoard()] if tensorboard else []
    if wandb:
        trackers.append(WeightsAndBiases())
    reporter = make_reporter(quiet)
    return ReporterGroup([reporter, *trackers]) if trackers else reporter


class ReporterGroup:
    """Several reporters, told one after the other."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self.reporters = tuple(reporters)

    def start(self, config: RunConfig, plan: Plan, path: Path) -> None:
        for reporter in self.reporters:
            reporter.start(config, plan, path)

    def iteration(self, iteration: int) -> None:
        for reporter in self.reporters:
            reporter.iteration(iteration)

    def stage(self, record: StageRecord) -> None:
        for reporter in self.reporters:
            reporter.stage(record)

    def stop(self) -> None:
        for reporter in self.reporters:
            reporter.stop()


def scalars(record: StageRecord) -> dict[str, float]:
    """The numbers of a stage by tag: indicators, learning, cost, and the surrogate's error per objective."""
    found = {f"front/{name}": float(value) for name, value in record.indicators.items()}
    found |= {f"learning/{name}": float(value) for name, value in record.learning.items()}
    found["cost/seconds"] = record.seconds
    found["cost/evaluation_steps"] = float(record.evaluation_steps)
    for name in ("absolute_error", "absolute_change"):
        for j, value in enumerate(record.diagnostics.get(name, ())):
            found[f"surrogate/{name}_{j + 1}"] = float(value)
    if "beta" in record.diagnostics:
        found["surrogate/beta"] = float(record.diagnostics["beta"])
    return found


class TensorBoard(Silent):
    """Event files in the run's directory ``tensorboard``, over training steps."""

    def __init__(self) -> None:
        with needing("--tensorboard", "tensorboard"):
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        self._make_writer, self._event, self._summary = EventFileWriter, event_pb2.Event, summary_pb2.Summary
        self._writer: Any = None

    def start(self, config: RunConfig, plan: Plan, path: Path) -> None:
        self._writer = self._make_writer(str(path / "tensorboard"))

    def stage(self, record: StageRecord) -> None:
        values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in scalars(record).items()]
        summary = self._summary(value=values)
        self._writer.add_event(self._event(wall_time=time.time(), step=record.training_steps, summary=summary))
        self._writer.flush()

    def stop(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class WeightsAndBiases(Silent):
    """A run in the run's directory ``wandb``; offline unless WANDB_MODE is set."""

    def __init__(self) -> None:
        with needing("--wandb", "wandb"):
            import wandb
        self._wandb: Any = wandb
        self._run: Any = None

    def start(self, config: RunConfig, plan: Plan, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._run = self._wandb.init(
            project="ucb-moppo",
            name=path.name,
            dir=str(path),
            config=config.to_json(),
            mode=os.environ.get("WANDB_MODE", "offline"),
        )

    def stage(self, record: StageRecord) -> None:
        self._run.log(scalars(record) | {"training_steps": record.training_steps}, step=record.training_steps)

    def stop(self) -> None:
        if self._run is not None:
            self._run.finish()
            self._run = None
