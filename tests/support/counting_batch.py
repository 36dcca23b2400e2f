"""A batch whose every number is known in closed form, to test what is done with environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.envs.base import Step
from ucb_moppo.policy.actors import Actors
from ucb_moppo.policy.networks import init_mlp
from ucb_moppo.policy.normaliser import Statistics
from ucb_moppo.spec import ActionSpec, EnvSpec

OBSERVATION_SIZE = 4


def start_of(seed: int) -> float:
    """The initial state a seed leads to, in [0, 1)."""
    return (seed % 997) / 997


class CountingBatch:
    """Observation: (environment, episodes before this one, steps of this one, initial state of the seed).

    Box actions a [2] pay (a_0 + initial state, a_1 · step), steps counted from 1; Discrete choices pay a one
    in the objective chosen. An episode terminates after ``life(seed)`` steps and is cut at the horizon; a
    batch refuses to step an environment whose episode is over. Resets are logged as (environment, seed).
    """

    def __init__(
        self,
        num_envs: int,
        *,
        horizon: int = 1000,
        life: Callable[[int], float] = lambda seed: np.inf,
        discrete: bool = False,
        poison: tuple[int, int, float] | None = None,
    ) -> None:
        action = ActionSpec(True, 2) if discrete else ActionSpec(False, 2, (-np.inf,) * 2, (np.inf,) * 2)
        self.spec = EnvSpec("counting", ("first", "second"), OBSERVATION_SIZE, action, horizon, (0.0, 0.0))
        self.num_envs, self.life = num_envs, life
        self.poison = poison  # (environment, step since the batch was made, reward paid there)
        self.episode = np.full(num_envs, -1)
        self.elapsed, self.seed = np.zeros(num_envs, int), np.zeros(num_envs, int)
        self.over = np.ones(num_envs, bool)
        self.clock = np.zeros(num_envs, int)
        self.resets: list[tuple[int, int]] = []

    def _observe(self, ids: NDArray) -> NDArray:
        start = [start_of(seed) for seed in self.seed[ids]]
        return np.column_stack([ids, self.episode[ids], self.elapsed[ids], start]).astype(float)

    def reset(self, ids: NDArray, seeds: Sequence[int]) -> NDArray:
        ids = np.asarray(ids)
        self.resets += zip(ids.tolist(), seeds, strict=True)
        self.episode[ids] += 1
        self.elapsed[ids], self.seed[ids], self.over[ids] = 0, seeds, False
        return self._observe(ids)

    def step(self, action: NDArray, ids: NDArray | None = None) -> Step:
        ids = np.arange(self.num_envs) if ids is None else np.asarray(ids)
        assert len(action) == len(ids), "an action per stepped environment"
        assert not self.over[ids].any(), "a finished episode was stepped"
        self.elapsed[ids] += 1
        self.clock[ids] += 1
        reward = self._pay(action, ids)
        terminated = self.elapsed[ids] >= [self.life(seed) for seed in self.seed[ids].tolist()]
        truncated = (self.elapsed[ids] >= self.spec.horizon) & ~terminated
        self.over[ids] = terminated | truncated
        return Step(self._observe(ids), reward, terminated, truncated)

    def _pay(self, action: NDArray, ids: NDArray) -> NDArray:
        if self.spec.action.discrete:
            reward = np.eye(2)[action]
        else:
            start = np.array([start_of(seed) for seed in self.seed[ids]])
            reward = np.column_stack([action[:, 0] + start, action[:, 1] * self.elapsed[ids]]).astype(float)
        if self.poison is not None:
            env, step, value = self.poison
            reward[(ids == env) & (self.clock[ids] == step), 1] = value
        return reward

    def get_state(self) -> dict[str, NDArray]:
        names = ("episode", "elapsed", "seed", "over", "clock")
        return {name: getattr(self, name).copy() for name in names}

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        for name, array in state.items():
            getattr(self, name)[:] = array

    def close(self) -> None:
        pass


def linear_actors(offset: NDArray, slope: NDArray, discrete: bool = False, start: float = 0.0) -> Actors:
    """K policies whose output is offset_k + w · slope_k, from offsets [K, 2] and slopes [K, 2, 2].

    Everything but the head's bias and its rows for w is zero, so observations do not matter, unless ``start``
    is given: then tanh(tanh(start · initial state)) is added to both outputs.
    """
    num_policies = len(offset)
    mlp = init_mlp(np.random.default_rng(0), OBSERVATION_SIZE, 2, 2, 3, 1.0)
    params = {name: np.zeros((num_policies, *array.shape), np.float32) for name, array in mlp.items()}
    params["hidden1.kernel"][:, 3, 0] = start
    params["hidden2.kernel"][:, 0, 0] = 1.0
    params["head.kernel"][:, 0] = float(start != 0)
    params["head.kernel"][:, -2:] = slope
    params["head.bias"][:] = offset
    if not discrete:
        params["log_std"] = np.zeros((num_policies, 2), np.float32)
    shape = (num_policies, OBSERVATION_SIZE)
    stats = Statistics(np.zeros(shape, np.float32), np.ones(shape, np.float32), np.zeros(num_policies, np.float32))
    return Actors(params, stats)
