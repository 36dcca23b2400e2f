"""What policies return of late near a preference: the mean of training episodes, set right by evaluations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

MIN_EPISODES, MAX_EPISODES = 30, 1000
"""That are remembered: a mean of few is biased through the bend of a utility, one of many is late, and what is
steered by a late mean swings from one side to the other."""
STATE = ("preferences", "returns", "counts", "anchors", "evaluated", "offsets", "anchored")


def num_remembered(num_envs: int) -> int:
    """How many episodes of a policy in ``num_envs`` environments count as recent: one of each."""
    return min(max(num_envs, MIN_EPISODES), MAX_EPISODES)


class RecentReturns:
    """The last L training episodes of each of K policies, and its evaluation at A preferences.

    Training explores, and what that costs must not pass for what a policy returns: an evaluation without noise
    tells by how much the two differ, and that is added until the next one.
    """

    def __init__(
        self, num_policies: int, num_episodes: int, num_anchors: int, num_objectives: int, width: float
    ) -> None:
        """``width``: of the kernel that says how near a preference is."""
        self.width = width
        episodes, anchors = (
            (num_policies, num_episodes, num_objectives),
            (num_policies, num_anchors, num_objectives),
        )
        self.preferences, self.returns = np.zeros(episodes), np.zeros(episodes)
        self.counts = np.zeros(num_policies, np.int64)
        """[K] episodes noted so far; the newest stands in row (count − 1) mod L."""
        self.anchors, self.evaluated, self.offsets = np.zeros(anchors), np.zeros(anchors), np.zeros(anchors)
        """[K, A, m] preferences, what was evaluated there, and by how much that exceeded the training episodes."""
        self.anchored = np.zeros(num_policies, bool)
        """[K] which policies have been evaluated."""

    def note(self, policy: int, preferences: NDArray, returns: NDArray) -> None:
        """Remember n episodes of a policy, [n, m] each, in the place of its oldest."""
        length = self.returns.shape[1]
        rows = (self.counts[policy] + np.arange(len(returns))) % length
        self.preferences[policy, rows[-length:]] = preferences[-length:]
        self.returns[policy, rows[-length:]] = returns[-length:]
        self.counts[policy] += len(returns)

    def correct(self, policy: int, preferences: NDArray, returns: NDArray) -> None:
        """Take what an evaluation without noise returned at preferences, [A, m] each."""
        trained = self._trained(policy, preferences)
        self.anchors[policy], self.evaluated[policy] = preferences, returns
        self.offsets[policy] = 0.0 if trained is None else returns - trained
        self.anchored[policy] = True

    def estimate(self, policy: int, preferences: NDArray) -> NDArray:
        """The mean return near each of ``preferences`` [n, m]: [n, m].

        Before the first episode has ended it is the last evaluation; NaN where there is none, either.
        """
        trained = self._trained(policy, preferences)
        if not self.anchored[policy]:
            return np.full(preferences.shape, np.nan) if trained is None else trained
        known = self.evaluated if trained is None else self.offsets
        found = smooth(preferences, self.anchors[policy], known[policy], self.width)
        return found if trained is None else trained + found

    def _trained(self, policy: int, preferences: NDArray) -> NDArray | None:
        """The mean of training episodes near preferences [n, m]; None before the first has ended."""
        known = min(int(self.counts[policy]), self.returns.shape[1])
        if not known:
            return None
        return smooth(preferences, self.preferences[policy, :known], self.returns[policy, :known], self.width)

    def part(self, group: int) -> None:
        """Give each of ``group`` copies of every policy the same episodes, and its share of the evaluations."""
        for name in ("preferences", "returns", "counts", "anchored"):
            setattr(self, name, np.repeat(getattr(self, name), group, axis=0))
        for name in ("anchors", "evaluated", "offsets"):
            array = getattr(self, name)
            setattr(self, name, array.reshape(len(array) * group, -1, array.shape[-1]))

    def get_state(self) -> dict[str, NDArray]:
        """All of it, a row per policy."""
        return {name: getattr(self, name).copy() for name in STATE}

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned."""
        for name in STATE:
            if state[name].shape != getattr(self, name).shape:
                raise ValueError(f"recent {name} are {state[name].shape}, not {getattr(self, name).shape}")
            setattr(self, name, state[name].copy())


def smooth(wanted: NDArray, places: NDArray, values: NDArray, width: float) -> NDArray:
    """Means of ``values`` [n, m] at ``places`` [n, m], weighted by a kernel around ``wanted`` [w, m]: [w, m]."""
    gaps = (cdist(wanted, places) / width) ** 2
    near = np.exp(-0.5 * (gaps - gaps.min(axis=1, keepdims=True)))
    return np.asarray(near @ values / near.sum(axis=1, keepdims=True))
