"""What many objectives cost: weights, searching and the hypervolume, against a stage of training.

    PYTHONPATH=tests/support python benchmarks/many_objectives.py [--problems mo-reacher-v5 ...] [--steps 5000000]

Of a run with default settings: how many policies (K), candidates (M) and probes (P) it has and how long they take
to lay out; one choice of weights, on made-up values; a stage of training, from iterations that are timed here, and
the share of the choice in both together ("search"); the hypervolume of the largest front that a run may end with,
and whether that is an estimate. All in CPU seconds, so that what else runs here matters less.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ucb_moppo.config import MoppoConfig, default_settings, override, resolve
from ucb_moppo.cores import one_blas_thread
from ucb_moppo.engine.probes import make_run_decomposition
from ucb_moppo.engine.shard import Shard
from ucb_moppo.envs import make_spec
from ucb_moppo.objectives.pareto import measure_volume
from ucb_moppo.objectives.weights import Decomposition
from ucb_moppo.search.methods import SearchContext, make_method
from ucb_moppo.training.ending import MAX_WEIGHTS_IN_ALL

NUM_EVALUATIONS = 10
"""As many as there are in the middle of a run."""


def cpu_seconds(work: Callable[[], Any], rounds: int) -> float:
    """The median CPU time of calling ``work``, after a first call that does not count."""
    work()
    found = []
    for _ in range(rounds):
        start = process_time()
        work()
        found.append(process_time() - start)
    return statistics.median(found)


def sphere(weights: NDArray) -> NDArray:
    """Returns on a unit sphere, where the best for each weight is: all of them on the front."""
    return np.asarray(weights / np.linalg.norm(weights, axis=-1, keepdims=True))


def made_up_context(config: MoppoConfig, parts: Decomposition) -> SearchContext:
    """What a method sees halfway through a run whose front grows to a sphere."""
    rng, shape = np.random.default_rng(0), parts.probes.shape
    grown = [1 - 0.5 ** (z + 1) for z in range(NUM_EVALUATIONS)]
    values = np.stack([share * sphere(parts.probes) + 0.02 * rng.normal(size=shape) for share in grown])
    return SearchContext(
        pivots=parts.pivots,
        candidates=parts.candidates,
        evaluated_weights=parts.probes,
        values=values,
        front=values[-1].reshape(-1, shape[-1]),
        density=np.ones((NUM_EVALUATIONS - 1, *shape[:2])),
        rates=np.linspace(1, 0.5, NUM_EVALUATIONS),
        stage=3,
        num_active=config.search.active,
        rng_seed=(0, 0, 0),
        group=config.search.policies,
    )


def stage_seconds(config: MoppoConfig, rounds: int) -> float:
    """CPU seconds of training a stage, by iterations of one process."""
    shard = Shard(config, range(config.num_subspaces))
    weights = shard._uniform_weights()[None]
    seconds = cpu_seconds(lambda: shard.train(weights), rounds)
    shard.close()
    return seconds * config.search.stage_iterations


@dataclass(frozen=True)
class Options:
    """Measure what many objectives cost."""

    problems: tuple[str, ...] = (
        "mo-reacher-v5",
        "mo-lunar-lander-v3",
        "fruit-tree-v0",
        "probe_envs:probe/NineBall-v0",
    )
    """Which problems."""
    steps: int = 5_000_000
    """Training steps of the run that stages belong to."""
    rounds: int = 3
    """How often each is measured."""


def measure_problem(problem: str, steps: int, rounds: int) -> tuple[str, ...]:
    """A row of the table."""
    spec = make_spec(problem)
    config = resolve(override(default_settings(problem), steps=steps, executor="local"), spec)
    parts, m = make_run_decomposition(config, spec), spec.num_objectives
    layout = cpu_seconds(lambda: make_run_decomposition(config, spec), 1)
    method, context = make_method("ucb", config.search, config.reference_point), made_up_context(config, parts)
    stage = stage_seconds(config, rounds)
    with one_blas_thread():  # as a run does
        choice = cpu_seconds(lambda: method.choose(context), rounds)
    every = parts.candidates.shape[1] // 11
    front, below = sphere(parts.candidates.reshape(-1, m)[::every][:MAX_WEIGHTS_IN_ALL]), np.full(m, -0.01)
    volume, seconds = measure_volume(front, below), cpu_seconds(lambda: measure_volume(front, below), rounds)
    search = config.search
    return (
        problem,
        *map(str, (m, search.policies, search.candidates, search.probes)),
        *(f"{one:.2f}" for one in (layout, choice, stage)),
        f"{choice / (choice + stage):.1%}",
        f"{seconds:.3f}",
        f"± {volume.error / volume.value:.1%}" if volume.error else "exact",
    )


def main() -> None:
    options = tyro.cli(Options)
    columns = ("problem", "m", "K", "M", "P", "weights s", "choice s", "stage s", "search", "HV s", "HV")
    table = Table(*columns, title=f"CPU seconds, runs of {options.steps:,} steps")
    for problem in options.problems:
        row = measure_problem(problem, options.steps, options.rounds)
        print(*row, flush=True)
        table.add_row(*row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
