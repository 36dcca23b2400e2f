"""Returns of (policy, weight) pairs: to the horizon, from the same initial states for all, discounted if asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.cores import one_blas_thread
from ucb_moppo.envs.base import BatchEnv, Step
from ucb_moppo.errors import EnvironmentFault
from ucb_moppo.policy.actors import ActingFunction
from ucb_moppo.policy.networks import greedy_action
from ucb_moppo.seeding import ACTIONS, EVALUATION, EVALUATION_SEED, episode_seed
from ucb_moppo.spec import ActionSpec

MakeBatch = Callable[[int], BatchEnv]
"""Makes so many environments of the run's problem."""
MAX_EVALUATION_ENVS = 1000


def evaluation_width(num_policies: int) -> int:
    """Evaluation episodes per policy that run side by side."""
    return max(1, MAX_EVALUATION_ENVS // num_policies)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What episodes returned, and the environment steps they took."""

    episodes: NDArray
    """[K, W, E, m] the return of each."""
    steps: int

    @property
    def returns(self) -> NDArray:
        """[K, W, m] their means."""
        return np.asarray(self.episodes.mean(axis=2))

    @property
    def episode_steps(self) -> float:
        """Mean length of an episode."""
        return self.steps / int(np.prod(self.episodes.shape[:3]))

    def without(self, returns: NDArray) -> Evaluation:
        """The same where ``returns`` [K, W, m] are finite, NaN where they are not."""
        lost = ~np.isfinite(returns).all(-1)
        return Evaluation(np.where(lost[..., None, None], np.nan, self.episodes), self.steps)

    @property
    def errors(self) -> NDArray:
        """[K, W, m] standard errors of these means; NaN of a single episode."""
        num_episodes = self.episodes.shape[2]
        if num_episodes < 2:
            return np.full(self.returns.shape, np.nan)
        return np.asarray(self.episodes.std(axis=2, ddof=1) / np.sqrt(num_episodes))


def evaluate(
    act: ActingFunction,
    weights: NDArray,
    env: BatchEnv,
    episodes: int = 1,
    *,
    starts: int = EVALUATION,
    first: int = 0,
    sampled: bool = False,
    policy_ids: Sequence[int] | None = None,
    discount: float = 1.0,
) -> Evaluation:
    """Returns Σ discountᵗ·r of K policies under weights [K, W, m], of ``episodes`` each, from number ``first`` on.

    ``env`` holds K·E environments for any E; episodes run in as many waves as that takes. The initial state depends
    on the episode's number and the stream of ``starts`` alone, so policies, weights, stages, methods and runs meet
    the same; so does the noise of ``sampled`` actions. Otherwise actions are deterministic. ``policy_ids`` are what
    faults call the policies (0 to K−1 by default).
    """
    num_policies, num_weights, num_objectives = weights.shape
    width = env.num_envs // num_policies
    jobs = [(w, e) for w in range(num_weights) for e in range(episodes)]
    ids = range(num_policies) if policy_ids is None else policy_ids
    found = np.zeros((num_policies, num_weights, episodes, num_objectives))
    steps = 0
    for start in range(0, len(jobs), width):
        columns, numbers = np.array(jobs[start : start + width]).T
        seeds = [(starts, first + int(number)) for _ in range(num_policies) for number in numbers]
        with one_blas_thread():
            returns, taken = run_episodes(act, weights[:, columns], env, seeds, sampled, ids, discount)
        found[:, columns, numbers] = returns
        steps += taken
    return Evaluation(found, steps)


def evaluate_apart(
    act: ActingFunction,
    weights: NDArray,
    make: MakeBatch,
    episodes: int,
    *,
    sampled: bool = False,
    discount: float = 1.0,
) -> Evaluation:
    """The same in environments that are made for it, as many as run side by side."""
    num_policies, num_weights, _ = weights.shape
    with closing(make(num_policies * min(num_weights * episodes, evaluation_width(num_policies)))) as env:
        return evaluate(act, weights, env, episodes, sampled=sampled, discount=discount)


def run_episodes(
    act: ActingFunction,
    weights: NDArray,
    env: BatchEnv,
    starts: list[tuple[int, int]],
    sampled: bool,
    policy_ids: Sequence[int],
    discount: float = 1.0,
) -> tuple[NDArray, int]:
    """One episode per policy and column: weights [K, E, m] -> returns Σ discountᵗ·r [K, E, m], steps taken.

    ``starts`` are the K·E (stream, episode) pairs that initial states come from. A policy whose output is not
    finite has no return: NaN.
    """
    num_policies, width, num_objectives = weights.shape
    weight = weights.astype(np.float32)
    alive = np.arange(num_policies * width)
    observation = env.reset(alive, [episode_seed(EVALUATION_SEED, *start) for start in starts])
    noise = ActionNoise(starts, env.spec.action, env.spec.horizon) if sampled else None
    returns = np.zeros((num_policies * width, num_objectives))
    steps = time = 0
    while alive.size:
        drawn = None if noise is None else noise.at(time).reshape(num_policies, width, -1)
        output = act(observation.reshape(num_policies, width, -1), weight, drawn)
        action = greedy_action(output, env.spec.action.discrete)
        flat = action.reshape(num_policies * width, *action.shape[2:])[alive]
        finite = np.isfinite(output).all(-1).ravel()[alive]
        step = _step_named(env, np.where(np.isfinite(flat), flat, 0), alive, weights, policy_ids)
        returns[alive] += np.where(finite[:, None], np.float64(discount**time) * step.reward, np.nan)
        observation[alive] = step.observation
        steps, time = steps + alive.size, time + 1
        alive = alive[~(step.terminated | step.truncated)]
    return returns.reshape(weights.shape), steps


class ActionNoise:
    """The noise of sampled actions: the same in episodes of one number, whoever acts and whatever runs beside."""

    def __init__(self, starts: list[tuple[int, int]], action: ActionSpec, horizon: int) -> None:
        streams = sorted(set(starts))
        self._rows = np.array([streams.index(start) for start in starts])
        shape = (horizon, action.num_outputs)
        self._drawn = np.stack([self._draw(start, action.chosen, shape) for start in streams])

    @staticmethod
    def _draw(start: tuple[int, int], chosen: bool, shape: tuple[int, int]) -> NDArray:
        """Gumbel noise for choices, normal noise otherwise: [horizon, a]."""
        rng = np.random.default_rng(episode_seed(EVALUATION_SEED, ACTIONS, *start))
        return (rng.gumbel(size=shape) if chosen else rng.standard_normal(shape)).astype(np.float32)

    def at(self, time: int) -> NDArray:
        """[K·E, a] of one step."""
        return self._drawn[self._rows, time]


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
