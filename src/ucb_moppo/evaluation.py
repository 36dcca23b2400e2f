"""Deterministic returns of (policy, weight) pairs: undiscounted, to the horizon, from fixed initial states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.envs.base import BatchEnv, Step
from ucb_moppo.errors import EnvironmentFault
from ucb_moppo.ppo.networks import greedy_action
from ucb_moppo.rollout import Actors, apply_actors
from ucb_moppo.seeding import EVALUATION, EVALUATION_SEED, episode_seed


class Evaluation(NamedTuple):
    """Mean returns [K, W, m] and the environment steps they took."""

    returns: NDArray
    steps: int


def evaluate(
    actors: Actors,
    weights: NDArray,
    env: BatchEnv,
    episodes: int = 1,
    policy_ids: Sequence[int] | None = None,
) -> Evaluation:
    """Returns of K policies under weights [K, W, m], averaged over ``episodes`` each.

    ``env`` holds K·E environments for any E; episodes run in as many waves as that takes. The initial state
    depends on the position of the weight and on the episode alone, so stages, methods and runs meet the same.
    ``policy_ids`` are what faults call the policies (0 to K−1 by default).
    """
    num_policies, num_weights, num_objectives = weights.shape
    width = env.num_envs // num_policies
    jobs = [(w, e) for w in range(num_weights) for e in range(episodes)]
    ids = range(num_policies) if policy_ids is None else policy_ids
    totals = np.zeros((num_policies, num_weights, num_objectives))
    steps = 0
    for start in range(0, len(jobs), width):
        wave = jobs[start : start + width]
        columns = np.array([w for w, _ in wave])
        seeds = [episode_seed(EVALUATION_SEED, EVALUATION, w, e) for w, e in wave]
        returns, taken = run_episodes(actors, weights[:, columns], env, seeds, ids)
        for column, found in zip(columns, returns.swapaxes(0, 1), strict=True):
            totals[:, column] += found
        steps += taken
    return Evaluation(totals / episodes, steps)


def run_episodes(
    actors: Actors, weights: NDArray, env: BatchEnv, seeds: list[int], policy_ids: Sequence[int]
) -> tuple[NDArray, int]:
    """One episode per policy and column: weights [K, E, m] -> undiscounted returns [K, E, m], steps taken.

    A policy whose output is not finite has no return: NaN.
    """
    num_policies, width, num_objectives = weights.shape
    weight = weights.astype(np.float32)
    alive = np.arange(num_policies * width)
    observation = env.reset(alive, seeds * num_policies)
    returns = np.zeros((num_policies * width, num_objectives))
    steps = 0
    while alive.size:
        output = apply_actors(actors, observation.reshape(num_policies, width, -1), weight)
        action = greedy_action(actors.params, output)
        flat = action.reshape(num_policies * width, *action.shape[2:])[alive]
        finite = np.isfinite(output).all(-1).ravel()[alive]
        step = _step_named(env, np.where(np.isfinite(flat), flat, 0), alive, weights, policy_ids)
        returns[alive] += np.where(finite[:, None], step.reward, np.nan)
        observation[alive] = step.observation
        steps += alive.size
        alive = alive[~(step.terminated | step.truncated)]
    return returns.reshape(weights.shape), steps


def _step_named(env: BatchEnv, action: NDArray, ids: NDArray, weights: NDArray, policy_ids: Sequence[int]) -> Step:
    """Step some environments; a fault says which of the policies and weights [K, E, m] it met."""
    try:
        return env.step(action, ids)
    except EnvironmentFault as fault:
        if fault.environment is None:
            raise
        k, column = divmod(fault.environment, weights.shape[1])
        where = f"policy {policy_ids[k]} under weight {weights[k, column].tolist()}"
        raise EnvironmentFault(f"{where}: {fault}") from fault
