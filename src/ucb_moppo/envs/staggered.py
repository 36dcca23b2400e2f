"""A batch whose environments end their first episodes at different times.

Environments that begin together and live to the horizon end together for ever: every rollout then shows all of them
at the same age, standing still after a reset or all at full speed. Cut once each, they stay apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.envs.base import BatchEnv, Step
from ucb_moppo.seeding import STAGGER


def draw_first_lengths(seed: int, subspaces: Sequence[int], num_envs: int, horizon: int) -> NDArray:
    """Steps of the first episodes, [sub-spaces · N] from 1 to the horizon: evenly spaced, in random order.

    They belong to a sub-space, whatever company it trains in.
    """

    def draw(subspace: int) -> NDArray:
        rng = np.random.default_rng((seed, STAGGER, subspace))
        return np.ceil(horizon * (rng.permutation(num_envs) + 1 - rng.random()) / num_envs)

    return np.maximum(np.concatenate([draw(subspace) for subspace in subspaces]), 1).astype(np.int64)


class StaggeredBatch:
    """Environments whose first episodes are cut, as by a time limit, after ``first_lengths`` [B] steps."""

    def __init__(self, env: BatchEnv, first_lengths: NDArray) -> None:
        self.env, self.num_envs, self.spec = env, env.num_envs, env.spec
        self.left = first_lengths.copy()
        """[B] steps that are left of the first episode; 0: it is over."""

    def reset(self, ids: NDArray, seeds: Sequence[int]) -> NDArray:
        """Start new episodes."""
        return self.env.reset(ids, seeds)

    def step(self, action: NDArray, ids: NDArray | None = None) -> Step:
        """Step environments; a first episode that has had its length is cut."""
        step = self.env.step(action, ids)
        if not self.left.any():
            return step
        rows: slice | NDArray = slice(None) if ids is None else ids
        left, ended = self.left[rows], step.terminated | step.truncated
        cut = (left == 1) & ~ended
        self.left[rows] = np.where(ended, 0, np.maximum(left - 1, 0))
        return step._replace(truncated=step.truncated | cut)

    def get_state(self) -> dict[str, NDArray]:
        """The environments' own state, and what is left of first episodes."""
        return self.env.get_state() | {"first_left": self.left.copy()}

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned."""
        own = dict(state)
        self.left = own.pop("first_left").copy()
        self.env.set_state(own)

    def close(self) -> None:
        """End the environments."""
        self.env.close()
