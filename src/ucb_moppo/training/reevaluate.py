"""Evaluate a finished run again: on more weights, over more episodes, or with sampled actions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.config import RunConfig, from_run, resolve
from ucb_moppo.engine.environments import environments_of
from ucb_moppo.engine.evaluation import MakeBatch, evaluate_apart
from ucb_moppo.engine.held_out import HeldOut, evaluate_held_out
from ucb_moppo.engine.probes import spread_weights
from ucb_moppo.engine.second_look import look_again
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


@dataclass(frozen=True)
class Plan:
    """How a run is evaluated again: as was asked for, else as in the run."""

    episodes: int
    """Which the front's members are chosen by."""
    held_out: int
    """Others, which these are measured by; 0 to measure nothing again."""
    sampled: bool
    discount: float
    spare: int
    """Episodes of a second look at the front."""


@dataclass(frozen=True, eq=False)
class Evaluated:
    """What the front is chosen from."""

    weights: NDArray
    """[K, W, m]"""
    returns: NDArray
    """[K, W, m]"""
    outcomes: NDArray | None
    """[K, W, E, m] what a utility that is not linear is taken of."""
    steps: int


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
    """Evaluate a run's policies on ``weights_per_policy`` weights each: give indicators; the front goes to ``out``.

    Its members are chosen by ``episodes`` and measured by ``held_out`` others, if that is not 0. What is None is as
    in the run, so that without changes its own front comes out. Actions that only this evaluation samples are
    measured where they are chosen.
    """
    check_options(weights_per_policy, episodes, held_out, discount)
    run = load_run(path)
    config = load_config(run)
    plan = make_plan(run, config, weights_per_policy, episodes, held_out, sampled, discount)
    weights = subspace_weights(run, weights_per_policy)

    make = partial(environments_of(config), num_threads=threads)
    evaluated = evaluate_weights(run, config, plan, weights, make)
    measured = measure_front(run, config, plan, evaluated, make) if plan.held_out else None
    found = measure_evaluated(run, config, evaluated) if measured is None else measured.indicators
    if out is not None:
        reported = None if measured is None else reported_by(measured)
        write_front(out, weights, evaluated.returns, reported, evaluated.outcomes)
    steps = evaluated.steps + (0 if measured is None else measured.steps)
    return describe_evaluation(run, plan, int(weights.shape[1]), steps) | found


def check_options(
    weights_per_policy: int | None, episodes: int | None, held_out: int | None, discount: float | None
) -> None:
    """Refuse numbers that make no sense for any run."""
    for name, value in (("weights-per-policy", weights_per_policy), ("episodes", episodes)):
        if value is not None and value < 1:
            raise ConfigError(f"--{name} is {value}; it must be at least 1")
    if discount is not None and not 0 < discount <= 1:
        raise ConfigError(f"--discount is {discount}; it must lie in (0, 1], 1 for undiscounted returns")
    if held_out is not None and held_out < 0:
        raise ConfigError(f"--held-out is {held_out}; it must be 0 (measure nothing again) or more")


def make_plan(
    run: Run,
    config: RunConfig,
    weights_per_policy: int | None,
    episodes: int | None,
    held_out: int | None,
    sampled: bool | None,
    discount: float | None,
) -> Plan:
    """Take from the run what was not asked for; refuse what its policies or its utility cannot give."""
    if discount not in (None, 1.0) and not config.make_goal(run.spec).is_linear:
        raise ConfigError(f"--discount is {discount}, but the run's utility is taken of undiscounted returns")
    held_out = config.held_out if held_out is None else held_out
    discount = config.evaluation_discount if discount is None else discount
    sampled = config.sampled if sampled is None else sampled
    if sampled:
        check_can_sample(run)
        held_out = held_out if config.sampled else 0
    as_chosen = weights_per_policy is None and episodes is None and held_out
    spare = run.summary.get("held_out", {}).get("spare_episodes", 0) if as_chosen else 0
    return Plan(episodes or config.episodes, held_out, sampled, discount, spare)


def evaluate_weights(run: Run, config: RunConfig, plan: Plan, weights: NDArray, make: MakeBatch) -> Evaluated:
    """Run every policy on its weights [K, W, m], and who is on the front once more where the run did."""
    result = evaluate_apart(
        load_actors(run), weights, make, plan.episodes, sampled=plan.sampled, discount=plan.discount
    )
    goal = config.make_goal(run.spec)
    outcomes = None if goal.is_linear else goal.outcomes(result.episodes)
    again = look_again(
        run.tensors(),
        run.network,
        weights,
        result.returns,
        make,
        seen=plan.episodes,
        spare=plan.spare,
        discount=plan.discount,
        sampled=plan.sampled,
    )
    return Evaluated(weights, again.returns, outcomes, result.steps + again.steps)


def measure_evaluated(run: Run, config: RunConfig, evaluated: Evaluated) -> dict[str, float]:
    """Give the indicators of what the front is chosen from."""
    goal, point = config.make_goal(run.spec), run.spec.reference_point
    return measure(evaluated.returns, point, config.utility_divisions, goal, evaluated.outcomes)


def measure_front(run: Run, config: RunConfig, plan: Plan, evaluated: Evaluated, make: MakeBatch) -> HeldOut:
    """Measure the front's members by episodes that they were not chosen by."""
    return evaluate_held_out(
        run.tensors(),
        run.network,
        evaluated.weights,
        evaluated.returns,
        make,
        episodes=plan.held_out,
        reference_point=run.spec.reference_point,
        discount=plan.discount,
        divisions=config.utility_divisions,
        goal=config.make_goal(run.spec),
        outcomes=evaluated.outcomes,
        sampled=plan.sampled,
    )


def describe_evaluation(run: Run, plan: Plan, weights_per_policy: int, steps: int) -> dict[str, Any]:
    """Say of which run and how the indicators beside this were found."""
    return {
        "run": str(run.path),
        "weights_per_policy": weights_per_policy,
        "episodes": plan.episodes,
        "held_out": plan.held_out,
        "actions": "sampled" if plan.sampled else "deterministic",
        "evaluation_discount": plan.discount,
        "evaluation_steps": steps,
    }
