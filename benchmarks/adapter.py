"""Native problems against the adapter, and what the adapter adds to the environments' own time.

    python benchmarks/adapter.py [--problems mo-hopper-v5 ...] [--rollout 50] [--rounds 3]

Trains in one process, natively where there is a native batch and through the adapter, in turns, and compares
medians. "Outside" is the share of collecting a rollout that is not spent in the environments' own ``step`` and
``reset``: what the batch and the actors take. Nothing of it is an update. The environments' own time is that of
taking the same steps and resets again in a bare loop; both are CPU time, so that what else runs here matters less.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from ucb_moppo.algos.base import Transitions
from ucb_moppo.config import default_settings, override, resolve
from ucb_moppo.engine.rollout import Collector
from ucb_moppo.engine.shard import Shard
from ucb_moppo.envs import ADAPTER_PREFIX, MO_PROBLEMS, make_spec
from ucb_moppo.envs.adapter import GymBatch

PYTHON_ONLY = ("minecart-v0", "deep-sea-treasure-v0", "fruit-tree-v0")


class Training:
    """Iterations on one problem, timed."""

    def __init__(self, problem: str, rollout: int) -> None:
        settings = override(
            default_settings(problem), rollout=rollout, stagger=False, executor="local", steps=10**7
        )
        self.config = resolve(settings, make_spec(problem))
        self.shard = Shard(self.config, range(self.config.num_subspaces))
        self.weights = self.shard._uniform_weights()[None]
        self.seconds: list[float] = []
        self.iterate()  # compiles
        self.seconds.clear()

    def iterate(self) -> None:
        """One iteration, timed."""
        start = perf_counter()
        self.shard.train(self.weights)
        self.seconds.append(perf_counter() - start)

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.config.steps_per_iteration / statistics.median(self.seconds)

    def outside(self, rounds: int) -> float:
        """Share of collecting that is not the environments': one rollout over and over, the quickest of each, as a
        busy machine only adds."""
        collector, population = self.shard._collector, self.shard.own
        noise, state = population.draw_noise(), collector.get_state()
        collecting, own = [], []
        for _ in range(rounds):
            collector.set_state(state)
            start = process_time()
            rollout = collector.collect(population.actors, self.weights[0], noise)
            collecting.append(process_time() - start)
            collector.set_state(state)
            own.append(own_seconds(collector, rollout))
        collector.set_state(state)
        return 1 - min(own) / min(collecting)


def own_seconds(collector: Collector, rollout: Transitions) -> float:
    """CPU time of a rollout's steps and resets in the environments alone, from where they stood before it."""
    env, spent, episodes = collector.env, 0.0, collector.lockstep.episodes.ravel().copy()
    assert isinstance(env, GymBatch)
    envs, taken = env.environments, rollout.action.reshape(len(rollout.action), env.num_envs, -1)
    for t, row in enumerate(taken):
        actions = env._own_actions(env._checked(row[:, 0] if env.spec.action.discrete else row, env.num_envs))
        ended = np.flatnonzero((rollout.terminated | rollout.truncated)[t]).tolist()
        seeds = [collector.seeds.of(i, int(episodes[i])) for i in ended]
        episodes[ended] += 1
        start = process_time()
        for one, action in zip(envs, actions, strict=True):
            one.step(action)
        for i, seed in zip(ended, seeds, strict=True):
            envs[i].reset(seed=seed)
        spent += process_time() - start
    return spent


@dataclass(frozen=True)
class Options:
    """Compare the native batch with the adapter."""

    problems: tuple[str, ...] = (*MO_PROBLEMS, *PYTHON_ONLY)
    """Which problems."""
    rollout: int = 50
    """Steps of each environment in an iteration."""
    rounds: int = 3
    """Iterations measured of each."""
    repeats: int = 10
    """How often a rollout is collected to tell what of it is the environments' own."""


def main() -> None:
    options = tyro.cli(Options)
    table = Table("problem", "native", "adapter", "native / adapter", "outside", title="steps per second")
    for problem in options.problems:
        adapted = Training(ADAPTER_PREFIX + problem, options.rollout)
        native = Training(problem, options.rollout) if problem in MO_PROBLEMS else None
        for _ in range(options.rounds):
            adapted.iterate()
            if native is not None:
                native.iterate()
        row = ["", f"{adapted.rate:,.0f}", ""]
        if native is not None:
            row = [f"{native.rate:,.0f}", row[1], f"{native.rate / adapted.rate:.1f}"]
        row.append(f"{adapted.outside(options.repeats):.0%}")
        table.add_row(problem, *row)
        print(problem, *row, flush=True)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
