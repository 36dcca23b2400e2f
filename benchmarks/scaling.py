"""How throughput, memory and the cost of the search grow: the numbers of docs/scaling.md.

    python benchmarks/scaling.py policies --problem HalfCheetah-v2 --values 10 20 40 80
    python benchmarks/scaling.py active --values 5 10 20 50
    python benchmarks/scaling.py shards --values 1 2 5 10
    python benchmarks/scaling.py search

The first three train a few iterations with one number varied, in processes with a shard per core where shards are
not what varies. `search` times the choice of a stage's weights (surrogates, scores, selection) on a made-up history
of evaluations, for 2 to 6 objectives, and for 100 policies with 100 candidates and 3 objectives.
"""

from __future__ import annotations

import os
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Literal

import numpy as np
import tyro

from ucb_moppo.config import Config, default_config, override, resolve
from ucb_moppo.cores import available_cores
from ucb_moppo.envs import make_spec
from ucb_moppo.executor import ProcessExecutor
from ucb_moppo.search.acquisition import HypervolumeScore
from ucb_moppo.search.methods import SearchContext, make_method
from ucb_moppo.search.surrogate import BaggedElasticNet
from ucb_moppo.weights import make_decomposition


def resident(pid: int) -> float:
    """Peak resident memory of a process, GiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20


def measure(config: Config, iterations: int) -> tuple[float, float, float]:
    """Steps per second, steps per CPU second of the busiest shard, and peak memory of all processes in GiB."""
    executor = ProcessExecutor(config)
    try:
        weights = np.full((config.num_policies, config.search.active, 2), 0.5)
        executor.train(weights, 1)  # compiles
        seconds, before = [], [clock["cpu"] for clock in executor.clocks()]
        for _ in range(iterations):
            start = perf_counter()
            executor.train(weights, 1)
            seconds.append(perf_counter() - start)
        cpu = max(clock["cpu"] - b for clock, b in zip(executor.clocks(), before, strict=True)) / iterations
        pids = [os.getpid(), *(seat.worker.pid for seat in executor.seats)]  # type: ignore[attr-defined]
        memory = sum(map(resident, pids))
    finally:
        executor.close()
    return config.steps_per_iteration / statistics.median(seconds), config.steps_per_iteration / cpu, memory


def grow(problem: str, name: str, values: tuple[int, ...], iterations: int) -> None:
    """A row for every value of the setting ``name``."""
    print(f"| {name} | steps per second | per second of CPU time of a shard | memory, GiB |\n|---|---|---|---|")
    for value in values:
        cores = len(available_cores())
        config = override(default_config(problem), executor="processes", shards=cores, steps=10**9)
        config = resolve(override(config, **{name: value}), make_spec(problem))
        wall, cpu, memory = measure(config, iterations)
        print(f"| {value} | {wall:,.0f} | {cpu:,.0f} | {memory:.2f} |", flush=True)


def made_up_history(num_stages: int, weights: np.ndarray) -> np.ndarray:
    """Returns [Z, K, P, m] that grow towards a sphere from stage to stage, with noise."""
    rng = np.random.default_rng(0)
    target = 1000 * weights / np.linalg.norm(weights, axis=-1, keepdims=True)
    progress = np.linspace(0.2, 1, num_stages)[:, None, None, None]
    return progress * target * rng.uniform(0.9, 1, (num_stages, *target.shape))


def time_search(num_objectives: int, policies: int, candidates: int, stages: int = 40) -> float:
    """CPU seconds to choose the weights of the last stage of a run."""
    parts = make_decomposition(num_objectives, policies, candidates, 10)
    context = SearchContext(
        pivots=parts.pivots,
        candidates=parts.candidates,
        evaluated_weights=parts.probes,
        values=made_up_history(stages, parts.probes),
        stage=stages,
        num_active=10,
        rng_seed=(0, 0),
        policy_ids=tuple(range(policies)),
    )
    method: Any = make_method(
        "ucb",
        surrogate=BaggedElasticNet(10, 0.1, 0.5),
        score=HypervolumeScore((0.0,) * num_objectives),
        selection="sequential",
    )
    start = process_time()
    method.choose(context)
    return process_time() - start


def search() -> None:
    print("| objectives | policies | candidates | CPU seconds per stage |\n|---|---|---|---|")
    sizes = ((2, 10, 100), (3, 36, 117), (3, 100, 100), (4, 36, 100), (5, 36, 100), (6, 36, 100))
    for m, policies, candidates in sizes:
        print(f"| {m} | {policies} | {candidates} | {time_search(m, policies, candidates):.1f} |", flush=True)


@dataclass(frozen=True)
class Options:
    """Measure how something grows."""

    what: tyro.conf.Positional[Literal["policies", "active", "shards", "search"]]
    """The number that varies; `search` for the cost of choosing weights."""
    problem: str = "HalfCheetah-v2"
    """Problem to train on."""
    values: tuple[int, ...] = (10, 20, 40, 80)
    """Values of the number."""
    iterations: int = 3
    """Iterations measured for each."""


def main() -> None:
    options = tyro.cli(Options)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    print(f"commit {commit}, {len(available_cores())} cores, load {os.getloadavg()[0]:.1f}")
    if options.what == "search":
        search()
    else:
        grow(options.problem, options.what, options.values, options.iterations)


if __name__ == "__main__":
    main()
