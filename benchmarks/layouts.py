"""Ways to use the cores of one machine, against each other: what docs/scaling.md says was tried.

    python benchmarks/layouts.py [--problem HalfCheetah-v2] [--policies 10] [--iterations 4]

All policies in one process whose physics and updates use every core; a shard per core in processes of their own,
where one that is done lends its cores to a larger one (five policies make three and two), and where it does not;
and two halves of the policies in two threads of one process, so that one can update while the other steps. Policies
are apart in all of them: a shared one is updated in one place. They are measured in turns; CPU time counts all
threads and processes. Then acting alone: numpy as in training, and compiled by JAX.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

import jax
import numpy as np
import tyro

from ucb_moppo.config import MoppoConfig, default_settings, override, resolve
from ucb_moppo.cores import available_cores
from ucb_moppo.engine.shard import Shard
from ucb_moppo.envs import make_spec
from ucb_moppo.runtime.executor import ShardedExecutor, make_executor, split_subspaces


@dataclass(frozen=True)
class Layout:
    """A way to train all policies for one iteration, and the CPU seconds it has spent so far."""

    name: str
    train: Callable[[], Any]
    cpu: Callable[[], float] = process_time


def one_process(config: MoppoConfig) -> tuple[Layout, Shard]:
    shard = Shard(config, range(config.num_subspaces))
    weights = shard._uniform_weights()
    return Layout("one process", lambda: shard.train(weights[None])), shard


def halves_in_threads(config: MoppoConfig) -> Layout:
    """Physics and updates let go of Python's lock, so that each half runs on while the other is in them."""
    shards = [Shard(override(config, threads=1), part) for part in split_subspaces(config.num_subspaces, 2)]
    weights = [shard._uniform_weights() for shard in shards]
    pool = ThreadPoolExecutor(2)
    train = lambda: list(pool.map(lambda shard, weight: shard.train(weight[None]), shards, weights))  # noqa: E731
    return Layout("two threads", train)


def shards_in_processes(config: MoppoConfig, name: str) -> tuple[Layout, ShardedExecutor]:
    shards = min(len(available_cores()), config.num_subspaces)
    executor = make_executor(override(config, executor="processes", shards=shards), make_spec(config.problem))
    num_objectives = len(config.reference_point or ())
    weights = np.full((1, config.num_subspaces, config.search.active, num_objectives), 1 / num_objectives)

    def cpu() -> float:
        return sum(clock["cpu"] for clock in executor.clocks())

    return Layout(name, lambda: executor.train(weights), cpu), executor


def compare(layouts: list[Layout], iterations: int, steps: int) -> None:
    """Steps per second, and per CPU second, medians over iterations in turns."""
    for layout in layouts:
        layout.train()  # compiles
    wall: dict[str, list[float]] = {layout.name: [] for layout in layouts}
    cpu: dict[str, list[float]] = {layout.name: [] for layout in layouts}
    for _ in range(iterations):
        for layout in layouts:
            before, start = layout.cpu(), perf_counter()
            layout.train()
            wall[layout.name].append(perf_counter() - start)
            cpu[layout.name].append(layout.cpu() - before)
    for name in wall:
        seconds, used = statistics.median(wall[name]), statistics.median(cpu[name])
        print(f"{name}: {steps / seconds:,.0f} steps/s, {used:.2f} CPU s an iteration", flush=True)


def compare_acting(shard: Shard, calls: int = 500) -> None:
    """CPU microseconds of one call for all policies of a shard."""
    actors, weights = shard.own.algorithm.make_actors(shard.own.state), shard._uniform_weights()
    observation = shard._collector.lockstep.observation
    compiled = jax.jit(
        lambda params, stats, seen: actors._replace(params=params, observation_stats=stats)(seen, weights)
    )
    on_device = jax.device_put((actors.params, actors.observation_stats))
    ways: dict[str, Callable[[], Any]] = {
        "numpy": lambda: actors(observation, weights),
        "JAX": lambda: np.asarray(compiled(*on_device, observation.astype(np.float32))),
    }
    for name, act in ways.items():
        act()
        start = process_time()
        for _ in range(calls):
            act()
        print(f"acting in {name}: {(process_time() - start) / calls * 1e6:.0f} µs of CPU time a step", flush=True)


@dataclass(frozen=True)
class Options:
    """Compare layouts."""

    problem: str = "HalfCheetah-v2"
    """Problem to train on."""
    policies: int = 10
    """Policies, apart from the start, of 2,500 samples in ten environments each."""
    iterations: int = 4
    """Iterations measured for each."""


def main() -> None:
    options = tyro.cli(Options)
    static = {"layout": "static", "policies": options.policies, "active": 10, "samples": 2500}
    config = resolve(override(default_settings(options.problem), **static), make_spec(options.problem))
    whole, shard = one_process(config)
    shards, executor = shards_in_processes(config, "a shard per core")
    apart, other = shards_in_processes(override(config, threads=1), "a shard per core, nothing lent")
    try:
        compare([whole, shards, apart, halves_in_threads(config)], options.iterations, config.steps_per_iteration)
    finally:
        executor.close()
        other.close()
    compare_acting(shard)


if __name__ == "__main__":
    main()
