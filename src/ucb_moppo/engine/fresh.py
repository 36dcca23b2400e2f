"""Fresh episodes of one policy, from initial states that nothing was chosen or measured by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.decide.forecast import Episodes
from ucb_moppo.engine.evaluation import MAX_EVALUATION_ENVS, MakeBatch, evaluate
from ucb_moppo.envs.base import BatchEnv, Step
from ucb_moppo.errors import ConfigError, EnvironmentFault
from ucb_moppo.policy.actors import actors_from_tensors
from ucb_moppo.policy.policy import Policy
from ucb_moppo.seeding import FORECAST


class Watched:
    """A batch that notes how long its environments' last episodes were, and which the problem ended."""

    def __init__(self, env: BatchEnv) -> None:
        self._env, self.spec, self.num_envs = env, env.spec, env.num_envs
        self.steps = np.zeros(env.num_envs, int)
        self.terminated = np.zeros(env.num_envs, bool)

    def reset(self, ids: NDArray, seeds: Sequence[int]) -> NDArray:
        self.steps[ids], self.terminated[ids] = 0, False
        return self._env.reset(ids, seeds)

    def step(self, action: NDArray, ids: NDArray | None = None) -> Step:
        stepped = np.arange(self.num_envs) if ids is None else ids
        step = self._env.step(action, ids)
        self.steps[stepped] += 1
        self.terminated[stepped] = step.terminated
        return step

    def get_state(self) -> dict[str, NDArray]:
        return self._env.get_state()

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        self._env.set_state(state)

    def close(self) -> None:
        self._env.close()


def run_fresh_episodes(
    policy: Policy, make_batch: MakeBatch, num_episodes: int, discount: float = 1.0, sampled: bool = False
) -> Episodes:
    """Let a policy act in ``num_episodes`` episodes side by side, deterministically or not, under its own weight.

    Returns are discounted by ``discount`` a step, as the run's were, so that bounds mean the same for both.
    """
    if not 1 <= num_episodes <= MAX_EVALUATION_ENVS:
        raise ConfigError(f"episodes is {num_episodes}; choose from 1 to {MAX_EVALUATION_ENVS:,}")
    acting = actors_from_tensors({name: array[None] for name, array in policy.tensors.items()}, policy.network)
    with closing(Watched(make_batch(num_episodes))) as env:
        weights = np.asarray(policy.weight)[None, None]
        found = evaluate(
            acting,
            weights,
            env,
            num_episodes,
            starts=FORECAST,
            policy_ids=[policy.index],
            discount=discount,
            sampled=sampled,
        )
        returns = found.episodes[0, 0]
        if not np.isfinite(returns).all():
            raise EnvironmentFault(
                f"policy {policy.index} returns numbers that are not finite: it cannot be deployed"
            )
        return Episodes(returns, env.steps, env.terminated & (env.steps < env.spec.horizon))
