"""Training throughput against raw physics, in one run, for each of the six problems.

    python benchmarks/throughput.py [--problems Hopper-v2 ...] [--iterations 6]

Raw physics is the bare ``mujoco.batch.Batch`` with the same model, batch size and threads, stepped from the
states that training visits, on all cores. Training runs in one process with all cores and with a shard per core.
The three are measured in turns, and medians are compared, so that a noisy moment meets all of them. The ratio of
CPU time (of the busiest core) says about what it would be if nothing else ran. `train` chooses one of the two
layouts by itself, which the last column names, with the ratio to hold against the aim. Shares are of the time of a
whole training iteration in one process (rollout and update, compiled).
"""

from __future__ import annotations

import resource
import statistics
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

import ucb_moppo.rollout as rollout_module
from ucb_moppo.config import Config, default_config, override, resolve
from ucb_moppo.cores import available_cores
from ucb_moppo.envs import PROBLEMS, make_spec
from ucb_moppo.executor import ProcessExecutor
from ucb_moppo.shard import Shard

AIMS = {
    "Swimmer-v2": 0.6,
    "HalfCheetah-v2": 0.55,
    "Walker2d-v2": 0.75,
    "Ant-v2": 0.8,
    "Hopper-v2": 0.75,
    "Hopper-v3": 0.75,
}
"""Share of the throughput of raw physics that training should reach on two cores."""


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
    sharded: list[float] = field(default_factory=list)
    raw_cpu: list[float] = field(default_factory=list)
    sharded_cpu: list[float] = field(default_factory=list)
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


def measure(config: Config, iterations: int) -> Measurement:
    """Raw physics, training in one process and with a shard per core, in turns; the first iterations compile."""
    shards = ProcessExecutor(override(config, shards=min(len(available_cores()), config.num_policies)))
    shard = Shard(config, range(config.num_policies))
    env: Any = shard._collector.env
    env._batch = physics = TimedBatch(env._batch)
    weights, found = shard._uniform_weights(), Measurement()
    shard.train(weights, 1)
    shards.train(weights, 1)
    acting = rollout_module.apply_actors = Stopwatch(rollout_module.apply_actors)  # type: ignore[assignment]
    for _ in range(iterations):
        cpu = process_time()
        found.raw.append(raw_physics(env, config.rollout_steps))
        found.raw_cpu.append((process_time() - cpu) / len(shards.seats))
        before = physics.step.seconds, acting.seconds, shard.clock["updating"]
        start = perf_counter()
        shard.train(weights, 1)
        found.total.append(perf_counter() - start)
        found.physics.append(physics.step.seconds - before[0])
        found.acting.append(acting.seconds - before[1])
        found.updating.append(shard.clock["updating"] - before[2])
        start, clocks = perf_counter(), shards.clocks()
        shards.train(weights, 1)
        found.sharded.append(perf_counter() - start)
        spent = [now["cpu"] - then["cpu"] for now, then in zip(shards.clocks(), clocks, strict=True)]
        found.sharded_cpu.append(max(spent))
    shards.close()
    rollout_module.apply_actors = acting.function
    return found


@dataclass(frozen=True)
class Options:
    """Compare training with raw physics."""

    problems: tuple[str, ...] = tuple(PROBLEMS)
    """Which problems."""
    iterations: int = 6
    """Iterations measured for each."""


def main() -> None:
    options = tyro.cli(Options)
    title = f"steps per second on {len(available_cores())} cores; shares of an iteration in one process"
    rates = ("raw physics", "one process", "ratio", "shards", "ratio", "in CPU time")
    table = Table("problem", *rates, "physics", "acting", "updating", "rest", "by default (aim)", title=title)
    for problem in options.problems:
        config = resolve(default_config(problem), make_spec(problem))
        found, steps = measure(config, options.iterations), config.steps_per_iteration
        names = ("raw", "total", "sharded", "physics", "acting", "updating")
        raw, total, sharded, physics, acting, updating = (statistics.median(getattr(found, n)) for n in names)
        parts = (physics, acting, updating, total - physics - acting - updating)
        row = [f"{steps / raw:,.0f}"]
        for seconds in (total, sharded):
            row += [f"{steps / seconds:,.0f}", f"{raw / seconds:.2f}"]
        row.append(f"{statistics.median(found.raw_cpu) / statistics.median(found.sharded_cpu):.2f}")
        layout, seconds = ("shards", sharded) if config.num_shards > 1 else ("one process", total)
        default = f"{layout} {raw / seconds:.2f} ({AIMS[problem]})"
        table.add_row(problem, *row, *(f"{part / total:.0%}" for part in parts), default)
        print(problem, *row, flush=True)
    Console().print(table)
    for who, name in ((resource.RUSAGE_SELF, "one process"), (resource.RUSAGE_CHILDREN, "the largest shard")):
        print(f"peak memory of {name} {resource.getrusage(who).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
