"""One environment of a problem as Gymnasium code wants it, with every step counted.

It is our own batch of one: peers meet the same physics, rewards, horizon and action scale as our policies do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from ucb_moppo.envs.base import BatchEnv
from ucb_moppo.errors import ConfigError
from ucb_moppo.peers.base import Counts
from ucb_moppo.seeding import PEER, episode_seed
from ucb_moppo.spec import EnvSpec

Purpose = Literal["training", "pretraining", "evaluation"]


class Counter:
    """Counts environment steps by what they are for and tells ``on_steps`` after each."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.on_steps: Callable[[Counts], None] = lambda counts: None

    def add(self, purpose: Purpose) -> None:
        self.counts = self.counts._replace(**{purpose: getattr(self.counts, purpose) + 1})
        self.on_steps(self.counts)


class CountedEnv(gymnasium.Env):
    """A batch of one as a Gymnasium environment; actions of [-1, 1] are stretched to the problem's own range.

    Episodes that are not given a seed start from ``stream`` (the run's seed and whatever tells environments
    apart) and their number.
    """

    def __init__(self, batch: BatchEnv, counter: Counter, purpose: Purpose, stream: tuple[int, ...]) -> None:
        check_action(batch.spec)
        self.batch, self.counter, self.purpose, self.stream = batch, counter, purpose, stream
        self.episode = 0
        size, num_objectives = batch.spec.observation_size, batch.spec.num_objectives
        self.observation_space = Box(-np.inf, np.inf, (size,), np.float64)
        self.action_space = Box(-1.0, 1.0, (batch.spec.action.size,), np.float32)
        self.reward_space = Box(-np.inf, np.inf, (num_objectives,), np.float64)
        self.reward_dim = num_objectives
        self.action_space.seed(episode_seed(*stream, PEER))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray, dict[str, Any]]:
        super().reset(seed=seed)
        drawn = episode_seed(*self.stream, PEER, self.episode) if seed is None else seed
        self.episode += 1
        return self.batch.reset(np.zeros(1, np.int64), [drawn])[0], {}

    def step(self, action: NDArray) -> tuple[NDArray, NDArray, bool, bool, dict[str, Any]]:
        step = self.batch.step(np.asarray(action)[None])
        self.counter.add(self.purpose)
        # Copied: MO-Gymnasium's reward wrappers write into the reward they are given.
        return step.observation[0], step.reward[0].copy(), bool(step.terminated[0]), bool(step.truncated[0]), {}

    def close(self) -> None:
        self.batch.close()


def check_action(spec: EnvSpec) -> None:
    """Refuse problems that the peers' networks have no output for."""
    if spec.action.chosen:
        raise ConfigError(
            f"{spec.name} has {spec.action.num_outputs} discrete choices; this peer needs a Box of actions: "
            f"use one of our methods, or another problem"
        )
