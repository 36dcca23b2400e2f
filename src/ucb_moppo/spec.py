"""What a problem looks like to those who learn and act: objectives, observations and actions. Numpy alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


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
