"""Evaluate a finished run again: on more weights of each sub-space, or over more episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.config import from_json
from ucb_moppo.envs import make_batch
from ucb_moppo.errors import ConfigError
from ucb_moppo.evaluation import evaluate
from ucb_moppo.ppo.normaliser import Statistics
from ucb_moppo.rollout import Actors
from ucb_moppo.run import Run, load_run, write_front
from ucb_moppo.shard import evaluation_width
from ucb_moppo.trainer import make_run_decomposition, measure


def load_actors(run: Run) -> Actors:
    """The actors of all policies of a run."""
    tensors, prefix = run.tensors(), "actor."
    params = {n.removeprefix(prefix): a for n, a in tensors.items() if n.startswith(prefix)}
    return Actors(params, Statistics(*(tensors[f"observation.{name}"] for name in Statistics._fields)))


def subspace_weights(run: Run, weights_per_policy: int | None) -> NDArray:
    """[K, W, m] evenly spaced weights of every policy's sub-space."""
    config = from_json(run.config)
    return make_run_decomposition(config, run.spec, num_probes=weights_per_policy).probes


def evaluate_run(
    path: Path, weights_per_policy: int | None, episodes: int, *, out: Path | None = None, threads: int = 0
) -> dict[str, Any]:
    """Indicators of a run's policies on ``weights_per_policy`` weights each; the front goes to ``out``."""
    for name, value in (("weights-per-policy", weights_per_policy), ("episodes", episodes)):
        if value is not None and value < 1:
            raise ConfigError(f"--{name} is {value}; it must be at least 1")
    run = load_run(path)
    config, weights = from_json(run.config), subspace_weights(run, weights_per_policy)
    num_envs = len(weights) * min(weights.shape[1] * episodes, evaluation_width(len(weights)))
    env = make_batch(config.problem, num_envs, threads, config.horizon, config.reference_point, config.protocol)
    try:
        result = evaluate(load_actors(run), weights, env, episodes)
    finally:
        env.close()
    if out is not None:
        write_front(out, weights, result.returns)
    return {
        "run": str(run.path),
        "weights_per_policy": int(weights.shape[1]),
        "episodes": episodes,
        "evaluation_steps": result.steps,
        **measure(np.asarray(result.returns), config),
    }
