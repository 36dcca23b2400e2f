"""Evaluate a finished run again: on more weights, over more episodes, or with sampled actions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.config import RunConfig, from_run, resolve
from ucb_moppo.engine.environments import environments_of
from ucb_moppo.engine.evaluation import evaluate_apart
from ucb_moppo.engine.held_out import evaluate_held_out
from ucb_moppo.engine.probes import spread_weights
from ucb_moppo.errors import ConfigError, RunFormatError
from ucb_moppo.objectives.indicators import measure
from ucb_moppo.policy.actors import Actors, actors_from_tensors
from ucb_moppo.store.layout import CONFIG
from ucb_moppo.store.run import Run, load_run
from ucb_moppo.store.writer import write_front
from ucb_moppo.training.ending import reported_by
from ucb_moppo.training.imports import announce_imports


def load_actors(run: Run) -> Actors:
    """The actors of all policies of a run."""
    return actors_from_tensors(run.tensors(), run.network)


def load_config(run: Run) -> RunConfig:
    """What a run's settings resolve to, from its own files alone."""
    announce_imports(run.path / CONFIG, run.config)
    return resolve(from_run(run.config), run.spec)


def subspace_weights(run: Run, weights_per_policy: int | None) -> NDArray:
    """[K, W, m] the weights that every policy was evaluated on, or so many evenly spaced ones of its sub-space.

    One policy that knows all sub-spaces gets those of all of them.
    """
    if weights_per_policy is None:
        return evaluated_weights(run)
    if not run.network.conditioned:
        raise ConfigError(f"the policies of {run.path} do not depend on a weight: leave out --weights-per-policy")
    division = load_config(run).division
    return spread_weights(division, run.spec.num_objectives, run.num_policies, weights_per_policy)


def evaluated_weights(run: Run) -> NDArray:
    """[K, W, m] the weights that each policy was evaluated on in the run."""
    evaluated, num_policies = run.evaluated(), run.num_policies
    num_weights = len(evaluated.policy) // num_policies
    if not np.array_equal(evaluated.policy, np.repeat(np.arange(num_policies), num_weights)):
        raise RunFormatError(f"{run.path} does not list as many weights for each of its {num_policies} policies")
    return evaluated.weights.reshape(num_policies, num_weights, -1)


def check_can_sample(run: Run) -> None:
    """Refuse to sample from actors that have learnt no distribution, or whose std is not kept."""
    if not run.spec.action.chosen and "actor.log_std" not in run.tensors():
        raise ConfigError(
            f"the policies of {run.path} ({run.config.get('method')}) come without a standard deviation: there is "
            f"nothing to sample from; evaluate them with --actions deterministic"
        )


def evaluate_run(
    path: Path,
    weights_per_policy: int | None,
    episodes: int | None = None,
    *,
    held_out: int | None = None,
    out: Path | None = None,
    threads: int = 0,
    sampled: bool | None = None,
    discount: float | None = None,
) -> dict[str, Any]:
    """Indicators of a run's policies on ``weights_per_policy`` weights each; the front goes to ``out``.

    Its members are chosen by ``episodes`` and measured by ``held_out`` others, if that is not 0. What is None is as
    in the run, so that without changes its own front comes out. Actions that only this evaluation samples are
    measured where they are chosen.
    """
    for name, value in (("weights-per-policy", weights_per_policy), ("episodes", episodes)):
        if value is not None and value < 1:
            raise ConfigError(f"--{name} is {value}; it must be at least 1")
    if discount is not None and not 0 < discount <= 1:
        raise ConfigError(f"--discount is {discount}; it must lie in (0, 1], 1 for undiscounted returns")
    if held_out is not None and held_out < 0:
        raise ConfigError(f"--held-out is {held_out}; it must be 0 (measure nothing again) or more")
    run = load_run(path)
    config, spec = load_config(run), run.spec
    if discount not in (None, 1.0) and not config.make_goal(spec).is_linear:
        raise ConfigError(f"--discount is {discount}, but the run's utility is taken of undiscounted returns")
    episodes, held_out = episodes or config.episodes, config.held_out if held_out is None else held_out
    discount = config.evaluation_discount if discount is None else discount
    sampled = config.sampled if sampled is None else sampled
    if sampled:
        check_can_sample(run)
        held_out = held_out if config.sampled else 0
    weights = subspace_weights(run, weights_per_policy)

    make = partial(environments_of(config), num_threads=threads)
    result = evaluate_apart(load_actors(run), weights, make, episodes, sampled=sampled, discount=discount)
    goal = config.make_goal(spec)
    outcomes = None if goal.is_linear else goal.outcomes(result.episodes)
    found = measure(result.returns, spec.reference_point, config.utility_divisions, goal, outcomes)
    measured = None
    if held_out:
        measured = evaluate_held_out(
            run.tensors(),
            run.network,
            weights,
            result.returns,
            make,
            episodes=held_out,
            reference_point=spec.reference_point,
            discount=discount,
            divisions=config.utility_divisions,
            goal=goal,
            outcomes=outcomes,
            sampled=sampled,
        )
        found = measured.indicators
    if out is not None:
        write_front(out, weights, result.returns, None if measured is None else reported_by(measured), outcomes)
    return {
        "run": str(run.path),
        "weights_per_policy": int(weights.shape[1]),
        "episodes": episodes,
        "held_out": held_out,
        "actions": "sampled" if sampled else "deterministic",
        "evaluation_discount": discount,
        "evaluation_steps": result.steps + (0 if measured is None else measured.steps),
        **found,
    }
