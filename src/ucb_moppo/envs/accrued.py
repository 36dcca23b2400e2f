"""A batch that shows, behind each observation, what its episode has returned so far and the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.envs.base import BatchEnv, Step


class AccruedBatch:
    """Environments whose observations [B, d] become [B, d + m + 1]: accrued returns over ``scales`` [m], and the
    share of the horizon that is gone."""

    def __init__(self, env: BatchEnv, scales: Sequence[float]) -> None:
        self.env, self.num_envs = env, env.num_envs
        self.spec = replace(env.spec, accrued_scales=tuple(map(float, scales)))
        self.accrued = np.zeros((env.num_envs, self.spec.num_objectives))
        """[B, m] undiscounted."""
        self.time = np.zeros(env.num_envs, np.int64)

    def reset(self, ids: NDArray, seeds: Sequence[int]) -> NDArray:
        """Start new episodes, in which nothing has accrued."""
        self.accrued[ids], self.time[ids] = 0.0, 0
        return self._extend(self.env.reset(ids, seeds), ids)

    def step(self, action: NDArray, ids: NDArray | None = None) -> Step:
        """Step environments; the observation that ends an episode shows all that it has returned."""
        stepped = np.arange(self.num_envs) if ids is None else ids
        step = self.env.step(action, ids)
        self.accrued[stepped] += step.reward
        self.time[stepped] += 1
        return step._replace(observation=self._extend(step.observation, stepped))

    def _extend(self, observation: NDArray, ids: NDArray) -> NDArray:
        return self.spec.extend(observation, self.accrued[ids], self.time[ids])

    def get_state(self) -> dict[str, NDArray]:
        """The environments' own state, and what has accrued in them."""
        return self.env.get_state() | {"accrued": self.accrued.copy(), "accrued_time": self.time.copy()}

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned."""
        own = dict(state)
        self.accrued, self.time = own.pop("accrued").copy(), own.pop("accrued_time").copy()
        self.env.set_state(own)

    def close(self) -> None:
        """End the environments."""
        self.env.close()
