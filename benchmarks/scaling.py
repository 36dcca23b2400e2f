"""How throughput, memory and the cost of the search grow: the numbers of docs/scaling.md.

    python benchmarks/scaling.py policies --values 10 20 40 80
    python benchmarks/scaling.py active --values 5 10 25 50
    python benchmarks/scaling.py shards --values 1 2 5 10
    python benchmarks/scaling.py search
    python benchmarks/scaling.py hypervolume

The first three train a few iterations of policies that are apart with one number varied, in processes with a shard
per core where shards are not what varies. `search` times the choice of a stage's weights (surrogates, scores,
selection) on a made-up history of 40 evaluations; `hypervolume` that of a front of K·P points. Every row goes to
results/scaling/<what>.csv, of which benchmarks/plot_scaling.py makes the picture.
"""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Literal

import numpy as np
import tyro

from ucb_moppo.config import MoppoConfig, default_settings, override, resolve
from ucb_moppo.cores import available_cores
from ucb_moppo.envs import make_spec
from ucb_moppo.objectives.pareto import hypervolume
from ucb_moppo.objectives.weights import make_decomposition
from ucb_moppo.runtime.executor import make_executor
from ucb_moppo.search.methods import SearchContext, make_method
from ucb_moppo.spec import ActionSpec, EnvSpec

RESULTS = Path(__file__).parents[1] / "results" / "scaling"
SEARCHES = [
    *((2, 10, 100), (2, 100, 100)),
    *((3, 36, 50), (3, 36, 117), (3, 36, 200), (3, 100, 100)),
    *((4, 36, 100), (5, 36, 100), (6, 36, 100)),
]
"""(m, K, M)"""
STATIC = {"layout": "static", "policies": 10, "active": 10, "samples": 2500, "probes": 10}
"""What does not vary: the paper's numbers."""
FRONTS = [(m, size) for m in range(2, 7) for size in (100, 360, 1000)]
"""(m, K·P)"""


def peak_memory(pid: int) -> float:
    """Peak resident memory of a process, GiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20


def measure(config: MoppoConfig, iterations: int) -> dict[str, Any]:
    """Steps per second, steps per second of CPU time of all shards, and peak memory of all processes."""
    executor = make_executor(config, make_spec(config.problem))
    try:
        weights = np.full((1, config.num_subspaces, config.search.active, 2), 0.5)
        executor.train(weights)  # compiles
        seconds, before = [], sum(clock["cpu"] for clock in executor.clocks())
        for _ in range(iterations):
            start = perf_counter()
            executor.train(weights)
            seconds.append(perf_counter() - start)
        cpu = (sum(clock["cpu"] for clock in executor.clocks()) - before) / iterations
        pids = [os.getpid(), *(shard.worker.pid for shard in executor.shards)]  # type: ignore[attr-defined]
        memory = sum(map(peak_memory, pids))
    finally:
        executor.close()
    steps = config.steps_per_iteration
    return {
        "steps per second": round(steps / statistics.median(seconds)),
        "steps per CPU second": round(steps / cpu),
        "memory, GiB": round(memory, 2),
    }


def grow(problem: str, name: str, values: tuple[int, ...], iterations: int) -> Iterator[dict[str, Any]]:
    """A row for every value of the setting ``name``."""
    for value in values:
        chosen = STATIC | {"executor": "processes", "shards": len(available_cores()), "steps": 10**9, name: value}
        config = resolve(override(default_settings(problem), **chosen), make_spec(problem))
        yield {"problem": problem, name: value} | measure(config, iterations)


def made_up_returns(num_stages: int, weights: np.ndarray) -> np.ndarray:
    """Returns [Z, K, P, m] that grow towards a sphere from stage to stage, with noise."""
    rng = np.random.default_rng(0)
    target = 1000 * weights / np.linalg.norm(weights, axis=-1, keepdims=True)
    progress = np.linspace(0.2, 1, num_stages)[:, None, None, None]
    return progress * target * rng.uniform(0.9, 1, (num_stages, *target.shape))


def sample_spec(num_objectives: int) -> EnvSpec:
    """A problem of any number of objectives that exists only on paper."""
    names = tuple(f"objective {j}" for j in range(num_objectives))
    return EnvSpec("paper-problem", names, 3, ActionSpec(False, 1, (-1.0,), (1.0,)), 1000, (0.0,) * num_objectives)


def time_search(num_objectives: int, policies: int, candidates: int, stages: int = 40) -> float:
    """CPU seconds to choose the weights of the last stage of a run."""
    parts = make_decomposition(num_objectives, policies, candidates, 10)
    values, shape = made_up_returns(stages, parts.probes), parts.probes.shape
    context = SearchContext(
        pivots=parts.pivots,
        candidates=parts.candidates,
        evaluated_weights=parts.probes,
        values=values,
        front=values[-1].reshape(-1, num_objectives),
        density=np.ones((stages - 1, *shape[:2])),
        rates=1 - np.arange(stages) / stages,
        stage=stages,
        num_active=10,
        rng_seed=(0, 0),
    )
    chosen = STATIC | {"policies": policies, "candidates": candidates, "steps": 10**9}
    search = resolve(override(default_settings("HalfCheetah-v2"), **chosen), sample_spec(num_objectives)).search
    method = make_method("ucb", search, (0.0,) * num_objectives)
    start = process_time()
    method.choose(context)
    return process_time() - start


def time_searches() -> Iterator[dict[str, Any]]:
    for m, policies, candidates in SEARCHES:
        seconds = round(time_search(m, policies, candidates), 2)
        yield {"objectives": m, "policies": policies, "candidates": candidates, "CPU seconds": seconds}


def time_hypervolumes() -> Iterator[dict[str, Any]]:
    """Of points none of which dominates another: the worst case."""
    for m, size in FRONTS:
        rng = np.random.default_rng(0)
        points = rng.dirichlet(np.ones(m), size)
        start = process_time()
        hypervolume(points / np.linalg.norm(points, axis=1, keepdims=True), (0.0,) * m)
        yield {"objectives": m, "points": size, "CPU seconds": float(f"{process_time() - start:.2g}")}


def note(rows: Iterator[dict[str, Any]], path: Path) -> None:
    """Print the rows as they come and write them to a file, with the commit they were measured at."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent).stdout.strip()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        for index, row in enumerate(rows):
            row |= {"cores": len(available_cores()), "load": round(os.getloadavg()[0], 1), "commit": commit}
            writer = csv.DictWriter(file, row, lineterminator="\n")
            if index == 0:
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            print(row, flush=True)


@dataclass(frozen=True)
class Options:
    """Measure how something grows."""

    what: tyro.conf.Positional[Literal["policies", "active", "shards", "search", "hypervolume"]]
    """The number that varies; `search` and `hypervolume` for the cost of choosing weights."""
    problem: str = "HalfCheetah-v2"
    """Problem to train on."""
    values: tuple[int, ...] = (10, 20, 40, 80)
    """Values of the number."""
    iterations: int = 3
    """Iterations measured for each."""
    out: Path = RESULTS
    """Directory of the tables."""


def main() -> None:
    options = tyro.cli(Options)
    if options.what == "search":
        rows = time_searches()
    elif options.what == "hypervolume":
        rows = time_hypervolumes()
    else:
        rows = grow(options.problem, options.what, options.values, options.iterations)
    note(rows, options.out / f"{options.what}.csv")


if __name__ == "__main__":
    main()
