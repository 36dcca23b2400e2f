"""Training throughput against raw physics, in one run, for each native problem.

    python benchmarks/throughput.py [--problems Hopper-v2 ...] [--layout static] [--rounds 4]

Raw physics is the bare ``mujoco.batch.Batch`` on all cores: it takes the very steps that training has just taken,
from the same states under the same controls, because what a step costs depends on what touches what. Training runs
in one process with all cores and with a shard per core, by default with one policy for all sub-spaces: shards then
collect, and wait while it is updated. Policies that are apart (``--layout static``) train a part at a time, that is
some five seconds, before they wait for each other, as they do in `train`. The three are measured in turns, and
medians are compared, so that a noisy moment meets all of them. The ratio of CPU time is what physics needs of all
the CPU time that shards and whoever leads them spend: the rest is acting and updating, without any waiting. `train`
chooses one of the two layouts by itself, which the last column names, with the ratio to hold against the aim.
Shares are of the time of a whole training iteration in one process (rollout and update, compiled).
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from ucb_moppo.config import MoppoConfig, default_settings, override, resolve
from ucb_moppo.cores import available_cores
from ucb_moppo.engine.population import Population
from ucb_moppo.engine.shard import Shard
from ucb_moppo.envs import MO_PROBLEMS, make_spec
from ucb_moppo.policy.actors import Actors
from ucb_moppo.runtime.executor import make_executor
from ucb_moppo.search.search_settings import LayoutName

AIMS = {
    "Swimmer-v2": 0.6,
    "HalfCheetah-v2": 0.55,
    "Walker2d-v2": 0.75,
    "Ant-v2": 0.8,
    "Hopper-v2": 0.75,
    "Hopper-v3": 0.75,
    **dict.fromkeys(MO_PROBLEMS, 0.6),
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
    """A Batch whose steps are timed, and the states they start from remembered, controls and all."""

    def __init__(self, batch: Any) -> None:
        self.batch, self.stopwatch = batch, Stopwatch(batch.step)
        self.states: list[np.ndarray] = []

    def step(self, **arguments: Any) -> None:
        self.states.append(self.batch.state.copy())
        self.stopwatch(**arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.batch, name)


@dataclass
class Measurement:
    """Seconds per iteration of each part, one entry per round."""

    raw: list[float] = field(default_factory=list)
    total: list[float] = field(default_factory=list)
    sharded: list[float] = field(default_factory=list)
    raw_cpu: list[float] = field(default_factory=list)
    sharded_cpu: list[float] = field(default_factory=list)
    physics: list[float] = field(default_factory=list)
    acting: list[float] = field(default_factory=list)
    updating: list[float] = field(default_factory=list)


def raw_physics(physics: TimedBatch, frame_skip: int) -> float:
    """Seconds in which the bare batch takes the steps of the last training again."""
    states, physics.states = physics.states, []
    batch = physics.batch
    now = batch.state.copy()
    start = perf_counter()
    for state in states:
        batch.state[:] = state
        batch.step(nstep=frame_skip)
    seconds = perf_counter() - start
    batch.state[:] = now
    return seconds


def measure(config: MoppoConfig, rounds: int) -> Measurement:
    """Training in one process and with a shard per core, and raw physics, in turns."""
    num_shards, spec = min(len(available_cores()), config.num_subspaces), make_spec(config.problem)
    shards = make_executor(override(config, executor="processes", shards=num_shards), spec)
    alone = make_executor(override(config, executor="local", shards=1), spec)
    shard: Shard = alone.shards[0].worker._object  # type: ignore[attr-defined]
    env: Any = shard._collector.env
    env = getattr(env, "env", env)  # what is staggered, not what staggers
    env._batch = physics = TimedBatch(env._batch)
    once, found = shard._uniform_weights()[None], Measurement()
    for _ in range(2):  # the first compiles, the second tells the shards how many iterations make a part
        alone.train(once)
        shards.train(once)
    acting, updating = Stopwatch(Actors.__call__), Stopwatch(Population.update)
    Actors.__call__ = lambda self, *args: acting(self, *args)  # type: ignore[method-assign]
    Population.update = lambda self, *args: updating(self, *args)  # type: ignore[method-assign]
    part = shards.part_iterations
    weights = np.repeat(once, part, axis=0)
    for _ in range(rounds):
        physics.states.clear()
        before = physics.stopwatch.seconds, acting.seconds, updating.seconds
        start = perf_counter()
        alone.train(weights)
        found.total.append((perf_counter() - start) / part)
        found.physics.append((physics.stopwatch.seconds - before[0]) / part)
        found.acting.append((acting.seconds - before[1]) / part)
        found.updating.append((updating.seconds - before[2]) / part)
        cpu = process_time()
        found.raw.append(raw_physics(physics, env.problem.frame_skip) / part)
        found.raw_cpu.append((process_time() - cpu) / part)
        clocks, start, cpu = shards.clocks(), perf_counter(), process_time()
        shards.train(weights)
        found.sharded.append((perf_counter() - start) / part)
        leading = process_time() - cpu  # a policy that is shared is updated here
        spent = [now["cpu"] - then["cpu"] for now, then in zip(shards.clocks(), clocks, strict=True)]
        found.sharded_cpu.append((sum(spent) + leading) / part)
    shards.close()
    alone.close()
    Actors.__call__, Population.update = acting.function, updating.function  # type: ignore[method-assign]
    return found


@dataclass(frozen=True)
class Options:
    """Compare training with raw physics."""

    problems: tuple[str, ...] = tuple(AIMS)
    """Which problems."""
    layout: LayoutName = "parting"
    """parting: one policy for all sub-spaces; static: the ten (or 36) of the paper, apart from the start."""
    rounds: int = 4
    """Rounds measured for each, of some five seconds of training."""


def main() -> None:
    options = tyro.cli(Options)
    title = f"steps per second on {len(available_cores())} cores; shares of an iteration in one process"
    rates = ("raw physics", "one process", "ratio", "shards", "ratio", "in CPU time")
    table = Table("problem", *rates, "physics", "acting", "updating", "rest", "by default (aim)", title=title)
    for problem in options.problems:
        apart = {"layout": "static", "active": 10, "samples": 2500} if options.layout == "static" else {}
        config = resolve(override(default_settings(problem), **apart), make_spec(problem))
        found, steps = measure(config, options.rounds), config.steps_per_iteration
        names = ("raw", "total", "sharded", "physics", "acting", "updating")
        raw, total, sharded, physics, acting, updating = (statistics.median(getattr(found, n)) for n in names)
        parts = (physics, acting, updating, total - physics - acting - updating)
        row = [f"{steps / raw:,.0f}"]
        for seconds in (total, sharded):
            row += [f"{steps / seconds:,.0f}", f"{raw / seconds:.2f}"]
        row.append(f"{statistics.median(found.raw_cpu) / statistics.median(found.sharded_cpu):.2f}")
        layout, seconds = ("shards", sharded) if config.shards > 1 else ("one process", total)
        default = f"{layout} {raw / seconds:.2f} ({AIMS[problem]})"
        table.add_row(problem, *row, *(f"{part / total:.0%}" for part in parts), default)
        print(problem, *row, flush=True)
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
