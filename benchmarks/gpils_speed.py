"""What a step of GPI-LS costs: the agent of morl-baselines that `--method gpils` trains, and its JAX agent.

    taskset -c 0 python benchmarks/gpils_speed.py [--problem Hopper-v2] [--steps 40] [--threads 1] [--jax]

Agents take turns step by step in one process, so that all meet the same machine; medians of CPU time, which what
else runs here changes little, and of time. ``--jax`` needs flax and orbax-checkpoint; no extra of ours has them.
"""

from __future__ import annotations

import os
import statistics
import sys
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

import numpy as np
import tyro

CORNERS = list(np.eye(2, dtype=np.float32))
"""Weights of the first iteration: the extreme ones, as the package begins with."""


@dataclass(frozen=True)
class Options:
    problem: str = "Hopper-v2"
    """One with two objectives."""
    steps: int = 40
    updates: int = 20
    threads: int = 1
    jax: bool = False


def make_agents(options: Options) -> dict[str, Any]:
    """Agents that have taken the random steps at the beginning, and a few that learn."""
    from morl_baselines.multi_policy.gpi_pd.gpi_pd_continuous_action import GPILSContinuousAction

    common = {"gradient_updates": options.updates, "learning_starts": 100, "log": False, "seed": 0}
    agents: dict[str, Any] = {
        "torch": GPILSContinuousAction(make_env(options.problem), **common, device="cpu"),
    }
    if options.jax:
        from morl_baselines.multi_policy.gpi_ls_jax import gpi_ls_continuous_action_jax as module

        agents["JAX"] = module.GPILSContinuousAction(make_env(options.problem), **common)
    for agent in agents.values():
        agent.train_iteration(102, CORNERS[0], CORNERS, change_weight_every_episode=True)
    return agents


def make_env(problem: str) -> Any:
    from ucb_moppo.config import make_settings, resolve
    from ucb_moppo.engine.environments import environments_of
    from ucb_moppo.envs import make_spec
    from ucb_moppo.peers.counting import CountedEnv, Counter

    config = resolve(make_settings(problem, "gpils"), make_spec(problem))
    return CountedEnv(environments_of(config)(1, 1), Counter(), "training", (0, 0, 0))


def time_step(agent: Any) -> tuple[float, float]:
    """CPU seconds and seconds of one step and its updates; the priorities wait for JAX."""
    begun = process_time(), perf_counter()
    agent.train_iteration(1, CORNERS[0], CORNERS)
    return process_time() - begun[0], perf_counter() - begun[1]


def main(options: Options) -> None:
    import torch

    torch.set_num_threads(options.threads)
    agents = make_agents(options)
    times = {name: [] for name in agents}
    for _ in range(options.steps):
        for name, agent in agents.items():
            times[name].append(time_step(agent))
    for name, taken in times.items():
        cpu, wall = map(statistics.median, zip(*taken, strict=True))
        print(f"{name}: {1e3 * cpu:.0f} ms of CPU a step, {1 / cpu:.1f} steps a CPU second; {1e3 * wall:.0f} ms")


if __name__ == "__main__":
    chosen = tyro.cli(Options)
    if os.environ.get("OMP_NUM_THREADS") != str(chosen.threads):
        from ucb_moppo.cores import thread_settings

        os.environ |= thread_settings(chosen.threads)  # read when XLA and BLAS are loaded: begin again with it
        os.execv(sys.executable, [sys.executable, *sys.argv])
    main(chosen)
