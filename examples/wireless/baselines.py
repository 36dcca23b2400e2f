"""Rules that networks are run by, and what they are worth: what a trained front has to be measured against.

Rules see what policies see. Each is ``action = rule(observation)`` for one network, made anew for every episode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import gymnasium
import numpy as np
from cells import Cells, read_observation
from numpy.typing import NDArray

from ucb_moppo.seeding import EVALUATION_SEED, HELD_OUT, episode_seed

Rule = Callable[[NDArray], NDArray]
"""Observation -> where each user belongs, as an action of the environment."""
FRESH = 1_000_000
"""Number of the first episode that neither training nor the front of a run has seen."""


def do_nothing(env: Cells, seed: int) -> Rule:
    """Connect nobody."""
    return lambda observation: np.zeros(env.network.NUM_USERS, dtype=np.int64)


def act_randomly(env: Cells, seed: int) -> Rule:
    """Any action as likely as any other."""
    choices, rng = env.action_space.nvec, np.random.default_rng(seed)
    return lambda observation: rng.integers(choices)


def best_signal(env: Cells, seed: int) -> Rule:
    """Every user at its strongest station alone."""

    def act(observation: NDArray) -> NDArray:
        _, signals = read_observation(observation, env.network.NUM_USERS)
        return 1 + signals.argmax(axis=1)

    return act


def all_on(env: Cells, seed: int) -> Rule:
    """Every user at every station in its reach."""
    return lambda observation: np.full(env.network.NUM_USERS, env.network.NUM_STATIONS + 1)


RULES: dict[str, Callable[[Cells, int], Rule]] = {
    "doing nothing": do_nothing,
    "random": act_randomly,
    "best signal": best_signal,
    "all on": all_on,
}


def held_out_seeds(count: int) -> list[int]:
    """Seeds of the episodes that a finished run measures its front by."""
    return [episode_seed(EVALUATION_SEED, HELD_OUT, number) for number in range(count)]


def fresh_seeds(count: int) -> list[int]:
    """Seeds of episodes that nothing was chosen by."""
    return [episode_seed(EVALUATION_SEED, HELD_OUT, FRESH + number) for number in range(count)]


def measure_rule(make: Callable[[Cells, int], Rule], env_id: str, seeds: Iterable[int]) -> NDArray:
    """Returns [E, 4] of a rule, one episode per seed."""
    env = gymnasium.make(env_id).unwrapped
    return np.array([run_episode(env, seed, make(env, seed)) for seed in seeds])


def run_episode(env: gymnasium.Env, seed: int, act: Rule) -> NDArray:
    """The return [4] of one episode from a seed."""
    observation, _ = env.reset(seed=seed)
    total, done = np.zeros(len(env.objectives)), False
    while not done:
        observation, reward, terminated, truncated, _ = env.step(act(observation))
        total, done = total + reward, terminated or truncated
    return total
