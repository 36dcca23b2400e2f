"""The replay buffer: a ring of transitions on the host, each with its own preference and the relabelled ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.spec import EnvSpec


class Samples(NamedTuple):
    """Samples that an update sees, B at a time: observations raw, actions the actor's own."""

    observation: Any  # [..., B, d]
    action: Any  # [..., B, a]
    reward: Any  # [..., B, m]
    next_observation: Any  # [..., B, d]: the final one where an episode ended
    terminated: Any  # [..., B] float: 1 where the problem, not the horizon, ended the episode
    weight: Any  # [..., B, m]


class ReplayBuffer:
    """The newest transitions. Each is stored once, with all its preferences: it counts as that many samples."""

    def __init__(self, spec: EnvSpec, num_transitions: int, num_preferences: int) -> None:
        """Room for ``num_transitions`` with ``num_preferences`` (the one acted on, and the relabels) each."""
        size, actions, objectives = spec.observation_size, spec.action.size, spec.num_objectives
        self._ring = Samples(
            observation=np.empty((num_transitions, size), np.float32),
            action=np.empty((num_transitions, actions), np.float32),
            reward=np.empty((num_transitions, objectives), np.float32),
            next_observation=np.empty((num_transitions, size), np.float32),
            terminated=np.empty(num_transitions, np.float32),
            weight=np.empty((num_transitions, num_preferences, objectives), np.float32),
        )
        self._num_added = 0

    @property
    def capacity(self) -> int:
        return len(self._ring.terminated)

    @property
    def num_preferences(self) -> int:
        return self._ring.weight.shape[1]

    def __len__(self) -> int:
        """Stored transitions."""
        return min(self._num_added, self.capacity)

    def add(self, transitions: Samples) -> None:
        """Store n transitions [n, …] with weights [n, num_preferences, m] over the oldest ones."""
        rows = (self._num_added + np.arange(len(transitions.terminated))) % self.capacity
        for ring, new in zip(self._ring, transitions, strict=True):
            ring[rows] = new
        self._num_added += len(rows)

    def get_state(self) -> dict[str, NDArray]:
        """Give the stored transitions, and how many there have been."""
        stored = {name: ring[: len(self)].copy() for name, ring in self._ring._asdict().items()}
        return stored | {"num_added": np.array(self._num_added)}

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned."""
        self._num_added = int(state["num_added"])
        for name, ring in self._ring._asdict().items():
            ring[: len(self)] = state[name]

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Samples:
        """Samples [*shape, …], each a stored transition under one of its preferences, drawn with replacement."""
        row, preference = np.divmod(
            rng.integers(len(self) * self.num_preferences, size=shape), self.num_preferences
        )
        found = Samples(*(ring[row] for ring in self._ring))
        return found._replace(weight=self._ring.weight[row, preference])
