"""The batch protocol: many environments of one problem, stepped in lockstep, rewarded with vectors.

A batch never resets by itself. ``step`` returns the observation that ends an episode as it is, with
``terminated`` and ``truncated`` apart, and the caller resets the finished environments with new seeds. Every
reset is a pure function of its seed, so a batch holds no random state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.errors import ConfigError

FloatArray = NDArray[np.floating]


@dataclass(frozen=True)
class ActionSpec:
    """What the actor controls. Box actions live in [-1, 1] for the actor and in [low, high] outside.

    ``size`` is the number of action components (Box) or of choices (Discrete).
    """

    discrete: bool
    size: int
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    start: int = 0
    """What the environment calls its first choice (Discrete)."""

    def to_environment(self, action: NDArray) -> NDArray:
        """Actor's output [..., size] (Box) or choice [...] (Discrete) -> what the environment takes.

        Finite bounds: [-1, 1] is stretched to [low, high] and clipped there. Infinite ones: passed through.
        """
        if self.discrete:
            return action + self.start
        scale, centre, low, high = self._stretch
        return np.clip(action * scale + centre, low, high)

    @cached_property
    def _stretch(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Scale, centre and bounds of ``to_environment``, once instead of at every step."""
        low, high = np.asarray(self.low), np.asarray(self.high)
        finite = np.isfinite(low) & np.isfinite(high)
        bottom, top = np.where(finite, low, -1.0), np.where(finite, high, 1.0)
        return (top - bottom) / 2, (top + bottom) / 2, low, high


@dataclass(frozen=True)
class EnvSpec:
    """What the engine needs to know about a problem."""

    name: str
    objectives: tuple[str, ...]
    observation_size: int
    action: ActionSpec
    horizon: int
    reference_point: tuple[float, ...]
    discrete_observation: bool = False
    """Whether the environment shows a number that the batch turns into one-hot vectors."""
    observation_start: int = 0
    """The smallest such number."""

    @property
    def num_objectives(self) -> int:
        return len(self.objectives)


class Step(NamedTuple):
    """What a step returns, a row per stepped environment. All objectives are maximised."""

    observation: NDArray  # [B, observation_size], the final one where an episode ended
    reward: NDArray  # [B, m]
    terminated: NDArray  # [B] bool: the problem ended the episode
    truncated: NDArray  # [B] bool: the horizon cut it (never together with terminated)


class BatchEnv(Protocol):
    """B environments of one problem."""

    spec: EnvSpec
    num_envs: int

    def reset(self, ids: NDArray, seeds: Sequence[int]) -> NDArray:
        """Start new episodes in environments ``ids``; observations [len(ids), observation_size]."""
        ...

    def step(self, action: NDArray, ids: NDArray | None = None) -> Step:
        """Step environments ``ids`` (all by default) with the actor's actions, a row per environment."""
        ...

    def get_state(self) -> dict[str, NDArray]:
        """Everything needed to continue from here, as arrays."""
        ...

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned: the next steps are the same to the bit."""
        ...

    def close(self) -> None: ...


def check_count(name: str, value: int) -> None:
    """Refuse a count (environments, steps) below one."""
    if value < 1:
        raise ConfigError(f"{name} is {value}; it must be at least 1")


def check_reference_point(point: Sequence[float] | None, num_objectives: int) -> tuple[float, ...] | None:
    """The reference point [m] as floats; refused unless it is finite with a number per objective."""
    if point is None:
        return None
    values = tuple(float(value) for value in point)
    if len(values) != num_objectives or not np.isfinite(values).all():
        raise ConfigError(
            f"reference_point is {values}; it needs {num_objectives} finite numbers, one per objective"
        )
    return values
