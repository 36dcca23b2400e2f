"""Training throughput against raw physics, in one run, for each of the six problems.

    python benchmarks/throughput.py [--problems Hopper-v2 ...] [--iterations 6]

Raw physics is the bare ``mujoco.batch.Batch`` with the same model, batch size and threads, stepped from the
states that training visits. Raw and training are measured in turns, and medians are compared, so that a noisy
moment meets both. Shares are of the time of a whole training iteration (rollout and update, compiled).
"""

from __future__ import annotations

import os
import resource
import statistics
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

import ucb_moppo.rollout as rollout_module
from ucb_moppo.config import default_config, resolve
from ucb_moppo.envs import PROBLEMS, make_spec
from ucb_moppo.shard import Shard


class Stopwatch:
    """Adds up the time spent in a function while standing in for it."""

    def __init__(self, function: Any) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        start = perf_counter()
        try:
            return self.function(*args, **kwargs)
        finally:
            self.seconds += perf_counter() - start


class TimedBatch:
    """A Batch whose steps are timed."""

    def __init__(self, batch: Any) -> None:
        self.batch, self.step = batch, Stopwatch(batch.step)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.batch, name)


@dataclass
class Measurement:
    """Seconds per iteration of each part, one entry per iteration."""

    raw: list[float] = field(default_factory=list)
    total: list[float] = field(default_factory=list)
    physics: list[float] = field(default_factory=list)
    acting: list[float] = field(default_factory=list)
    updating: list[float] = field(default_factory=list)


def raw_physics(env: Any, steps: int) -> float:
    """Seconds for ``steps`` steps of the bare batch under random actions, from where training stands."""
    batch = env._batch.batch
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, env.num_envs, env.spec.action.size))
    state = batch.state.copy()
    start = perf_counter()
    for action in actions:
        batch.ctrl[:] = action
        batch.step(nstep=env.problem.frame_skip)
    seconds = perf_counter() - start
    batch.state[:] = state
    return seconds


def measure(problem: str, iterations: int) -> tuple[Measurement, int]:
    """Alternate raw physics and training iterations of a problem; the first iteration compiles."""
    config = resolve(default_config(problem), make_spec(problem))
    shard = Shard(config, range(config.num_policies))
    env: Any = shard._collector.env
    env._batch = physics = TimedBatch(env._batch)
    weights, found = shard._uniform_weights(), Measurement()
    shard.train(weights, 1)
    acting = rollout_module.apply_actors = Stopwatch(rollout_module.apply_actors)  # type: ignore[assignment]
    for _ in range(iterations):
        found.raw.append(raw_physics(env, config.rollout_steps))
        before = physics.step.seconds, acting.seconds, shard.clock["updating"]
        start = perf_counter()
        shard.train(weights, 1)
        found.total.append(perf_counter() - start)
        found.physics.append(physics.step.seconds - before[0])
        found.acting.append(acting.seconds - before[1])
        found.updating.append(shard.clock["updating"] - before[2])
    rollout_module.apply_actors = acting.function
    return found, config.steps_per_iteration


@dataclass(frozen=True)
class Options:
    """Compare training with raw physics."""

    problems: tuple[str, ...] = tuple(PROBLEMS)
    """Which problems."""
    iterations: int = 6
    """Iterations measured for each."""


def main() -> None:
    options = tyro.cli(Options)
    threads = len(os.sched_getaffinity(0))
    title = f"steps per second, {threads} threads; shares of a training iteration"
    table = Table(
        "problem", "raw physics", "training", "ratio", "physics", "acting", "updating", "rest", title=title
    )
    for problem in options.problems:
        found, steps = measure(problem, options.iterations)
        raw, total, physics, acting, updating = (
            statistics.median(getattr(found, part)) for part in ("raw", "total", "physics", "acting", "updating")
        )
        parts = (physics, acting, updating, total - physics - acting - updating)
        row = (f"{steps / raw:,.0f}", f"{steps / total:,.0f}", f"{raw / total:.2f}")
        table.add_row(problem, *row, *(f"{part / total:.0%}" for part in parts))
        print(problem, *row, flush=True)
    Console().print(table)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
