"""The batch protocol: many environments of one problem, stepped in lockstep, rewarded with vectors.

A batch never resets by itself. ``step`` returns the observation that ends an episode as it is, with
``terminated`` and ``truncated`` apart, and the caller resets the finished environments with new seeds. Every
reset is a pure function of its seed, so a batch holds no random state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.errors import ConfigError
from ucb_moppo.spec import EnvSpec

FloatArray = NDArray[np.floating]
ADAPTER_PREFIX = "adapter:"
"""What stands before an id whose environments are to be stepped one by one, though there is a native batch."""


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
