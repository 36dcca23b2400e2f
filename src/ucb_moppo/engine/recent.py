"""What the training episodes of late have returned, by the preference they were run for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

EPISODES_PER_ENV = 4
"""That are remembered: a mean of few would be biased through the bend of a utility, one of many is late."""
MIN_EPISODES, MAX_EPISODES = 100, 1000


def num_remembered(num_envs: int) -> int:
    """How many episodes of a policy in ``num_envs`` environments count as recent."""
    return min(max(EPISODES_PER_ENV * num_envs, MIN_EPISODES), MAX_EPISODES)


class RecentReturns:
    """The last L episodes of each of K policies: preferences and undiscounted returns."""

    def __init__(self, num_policies: int, num_episodes: int, num_objectives: int, width: float) -> None:
        """``width``: of the kernel that says how near a preference is."""
        shape = (num_policies, num_episodes, num_objectives)
        self.preferences, self.returns, self.width = np.zeros(shape), np.zeros(shape), width
        self.counts = np.zeros(num_policies, np.int64)
        """[K] noted so far; the newest stands in row (count − 1) mod L."""

    def note(self, policy: int, preferences: NDArray, returns: NDArray) -> None:
        """Remember n episodes of a policy, [n, m] each, in the place of its oldest."""
        length = self.returns.shape[1]
        preferences, returns = preferences[-length:], returns[-length:]
        rows = (self.counts[policy] + np.arange(len(returns))) % length
        self.preferences[policy, rows], self.returns[policy, rows] = preferences, returns
        self.counts[policy] += len(returns)

    def estimate(self, policy: int, preferences: NDArray) -> NDArray:
        """The mean return near each of ``preferences`` [n, m]: [n, m]; NaN before the first episode has ended."""
        known = min(int(self.counts[policy]), self.returns.shape[1])
        if not known:
            return np.full(preferences.shape, np.nan)
        gaps = (cdist(preferences, self.preferences[policy, :known]) / self.width) ** 2
        near = np.exp(-0.5 * (gaps - gaps.min(axis=1, keepdims=True)))
        return np.asarray(near @ self.returns[policy, :known] / near.sum(axis=1, keepdims=True))

    def part(self, group: int) -> None:
        """Give each of ``group`` copies of every policy the same memory."""
        for name in ("preferences", "returns", "counts"):
            setattr(self, name, np.repeat(getattr(self, name), group, axis=0))

    def get_state(self) -> dict[str, NDArray]:
        """All of it, a row per policy."""
        return {name: getattr(self, name).copy() for name in ("preferences", "returns", "counts")}

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned."""
        for name in ("preferences", "returns", "counts"):
            if state[name].shape != getattr(self, name).shape:
                raise ValueError(f"recent {name} are {state[name].shape}, not {getattr(self, name).shape}")
            setattr(self, name, state[name].copy())
