"""Train from Python or from the command line: one function that runs the trainer and writes the run."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ucb_moppo.config import Config, default_config, override, resolve, to_json
from ucb_moppo.display import draw_front
from ucb_moppo.envs import make_spec
from ucb_moppo.envs.base import EnvSpec
from ucb_moppo.executor import Executor, LocalExecutor
from ucb_moppo.progress import Reporter, make_reporter
from ucb_moppo.run import PICTURE, Run, RunWriter, check_directory, fresh_directory
from ucb_moppo.trainer import StageRecord, Trainer

PACKAGES = (
    "ucb-moppo",
    "jax",
    "optax",
    "mujoco",
    "gymnasium",
    "mo-gymnasium",
    "numpy",
    "scikit-learn",
    "moocore",
)


@dataclass(frozen=True)
class Plan:
    """What a run will do, before it does it."""

    config: Config
    training_steps: int
    evaluation_steps: int
    """At most: an episode may end before the horizon."""
    num_stages: int
    seconds: float
    """Measured here: the time of an iteration and of a step, times how many there will be."""


def make_plan(trainer: Trainer) -> Plan:
    """Count the steps of a run and measure about how long they take on this machine."""
    config, stages = trainer.config, trainer.stages()
    assert config.horizon is not None
    episodes = trainer.evaluated_weights.shape[0] * trainer.evaluated_weights.shape[1] * config.episodes
    evaluation_steps = episodes * config.horizon * (len(stages) + 1)
    timing = trainer.executor.time_iteration()
    return Plan(
        config=config,
        training_steps=config.num_iterations * config.steps_per_iteration,
        evaluation_steps=evaluation_steps,
        num_stages=len(stages),
        seconds=config.num_iterations * timing.iteration + evaluation_steps * timing.step,
    )


def train(
    problem: str,
    *,
    method: str = "ucb",
    seed: int = 0,
    steps: int | None = None,
    preset: str = "tuned",
    out: str | Path | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Train a Pareto set of policies and return the run.

    Further ``settings`` are those of the command line with underscores, e.g. ``policies=5, gamma=0.995``.
    """
    config = override(default_config(problem, preset), method=method, seed=seed, steps=steps, **settings)
    return train_config(config, out, make_reporter(quiet))


def train_config(config: Config, out: str | Path | None, reporter: Reporter) -> Run:
    """Train what ``config`` says into the directory ``out``; everything wrong with it is found first."""
    spec = make_spec(config.problem, config.horizon, config.reference_point)
    config = resolve(config, spec)
    path = Path(out) if out is not None else fresh_directory(config.problem, config.method, config.seed)
    check_directory(path)
    executor = LocalExecutor(config)
    try:
        trainer = Trainer(config, spec, executor, reporter.iteration)
        reporter.start(make_plan(trainer), path)
        writer = RunWriter(path, to_json(config), spec)
        for record in trainer.run():
            write_stage(writer, trainer, record)
            reporter.stage(record)
    finally:
        reporter.stop()
        executor.close()
    run = Run(path)
    draw_front(run, path / PICTURE)
    return run


def write_stage(writer: RunWriter, trainer: Trainer, record: StageRecord) -> None:
    """Everything a stage leaves on disk."""
    probes = trainer.decomposition.probes
    writer.append_metrics(metrics_line(record))
    writer.append_evaluations(record.stage, probes, record.returns)
    writer.write_front(probes, record.returns)
    tensors = trainer.executor.policies()
    writer.write_policies(tensors)
    writer.write_summary(summarise(trainer.config, trainer.spec, trainer.executor, record))


def metrics_line(record: StageRecord) -> dict[str, Any]:
    """One line of ``metrics.jsonl``."""
    return {
        "stage": record.stage,
        "iteration": record.iteration,
        "training_steps": record.training_steps,
        "evaluation_steps": record.evaluation_steps,
        "seconds": round(record.seconds, 3),
        "stage_seconds": record.stage_seconds,
        **record.indicators,
        "selected_weights": None if record.selected is None else record.selected.tolist(),
        "learning": record.learning,
        "surrogate": record.diagnostics,
    }


def summarise(config: Config, spec: EnvSpec, executor: Executor, record: StageRecord) -> dict[str, Any]:
    """``summary.json``: what was found and what it cost."""
    parameters = sum(a.size for name, a in executor.policies().items() if name.split(".")[0] in ("actor", "critic"))
    return {
        "problem": config.problem,
        "method": config.method,
        "seed": config.seed,
        "objectives": list(spec.objectives),
        "reference_point": list(spec.reference_point),
        "finished": record.iteration == config.num_iterations,
        **record.indicators,
        "policies": config.num_policies,
        "parameters": parameters,
        "training_steps": record.training_steps,
        "evaluation_steps": record.evaluation_steps,
        "seconds": round(record.seconds, 3),
        "versions": {"python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in PACKAGES},
    }
