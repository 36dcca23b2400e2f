"""What a problem looks like to those who learn and act: objectives, observations and actions. Numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ActionSpec:
    """What the actor controls. Box actions live in [-1, 1] for the actor and in [low, high] outside.

    ``size`` is the number of action components (Box, MultiDiscrete) or of choices (Discrete).
    """

    discrete: bool
    size: int
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    start: int = 0
    """What the environment calls its first choice (Discrete)."""
    choices: tuple[int, ...] = ()
    """Of how many each component is chosen (MultiDiscrete); its first is then called ``low``. Else empty."""
    shape: tuple[int, ...] | None = None
    """Of the array that the environment takes; None: a row of ``size`` numbers, or one choice."""
    dtype: str = ""
    """What numbers that array is of, such as float32; empty: of those that come out."""

    @property
    def chosen(self) -> bool:
        """Whether actions are choices, one or several, rather than quantities."""
        return self.discrete or bool(self.choices)

    @property
    def num_outputs(self) -> int:
        """What the actor says: a number per component (Box), or a logit per choice."""
        return sum(self.choices) or self.size

    @property
    def own_shape(self) -> tuple[int, ...]:
        """The shape of one action as the environment takes it."""
        return self.shape if self.shape is not None else () if self.discrete else (self.size,)

    def to_space(self, actions: NDArray) -> NDArray:
        """A batch of what `to_environment` takes -> arrays [B, …] of the environment's own action space."""
        own = np.asarray(self.to_environment(actions)).reshape(len(actions), *self.own_shape)
        return own.astype(self.dtype) if self.dtype else own

    def to_environment(self, action: NDArray) -> NDArray:
        """Actor's output [..., size] (Box), choices [..., size] (MultiDiscrete) or choice [...] (Discrete) -> what
        the environment takes.

        Finite bounds: [-1, 1] is stretched to [low, high] and clipped there. Infinite ones: passed through.
        """
        if self.discrete:
            return action + self.start
        if self.choices:
            return (action + np.asarray(self.low)).astype(np.int64)
        scale, centre, low, high = self.stretch
        return np.clip(action * scale + centre, low, high)

    @cached_property
    def stretch(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Scale, centre, low and high of ``to_environment`` [a] each, once instead of at every step."""
        low, high = np.asarray(self.low), np.asarray(self.high)
        finite = np.isfinite(low) & np.isfinite(high)
        bottom, top = np.where(finite, low, -1.0), np.where(finite, high, 1.0)
        return (top - bottom) / 2, (top + bottom) / 2, low, high


@dataclass(frozen=True)
class ObservationPart:
    """One array of an observation that is not just a vector, and how it is shown."""

    path: tuple[str | int, ...]
    """Keys (Dict) and positions (Tuple) that lead to it; empty: it is the whole observation."""
    shape: tuple[int, ...]
    choices: tuple[int, ...] = ()
    """Each of its numbers is one of so many and becomes one-hot; empty: numbers are shown as they are."""
    start: tuple[int, ...] = ()
    """The smallest value of each such number."""

    @property
    def size(self) -> int:
        """How many numbers it becomes."""
        return sum(self.choices) or prod(self.shape)

    def find(self, observation: Any) -> Any:
        """This part of an observation as the environment shows it."""
        for key in self.path:
            observation = observation[key]
        return observation

    def encode(self, values: NDArray) -> NDArray:
        """Values [B, *shape] -> rows [B, size] of float64."""
        rows = np.zeros((len(values), self.size))
        self.write(values, rows)
        return rows

    def write(self, values: NDArray, rows: NDArray) -> None:
        """Encode values [B, *shape] into rows [B, size] of zeros."""
        flat = values.reshape(len(values), prod(self.shape))
        if not self.choices:
            rows[:] = flat
            return
        start, count, first = self._one_hot
        shifted = flat - start
        inside = (shifted >= 0) & (shifted < count)  # what is not a number is not inside, either
        if not inside.all():
            raise ValueError(f"observation {flat[~inside.all(axis=1)][0].tolist()} lies outside its space")
        rows[np.arange(len(rows))[:, None], first + shifted.astype(np.int64)] = 1

    @cached_property
    def _one_hot(self) -> tuple[NDArray, NDArray, NDArray]:
        """Of each number the smallest value, how many there are, and where its vector begins."""
        return np.asarray(self.start), np.asarray(self.choices), np.cumsum((0, *self.choices[:-1]))


_SHAPE = attrgetter("shape")


def stack_alike(values: Sequence[Any]) -> NDArray:
    """B arrays or numbers -> one array [B, …]; arrays of one shape several times quicker than by ``np.array``."""
    try:
        shapes = set(map(_SHAPE, values))
    except AttributeError:  # plain numbers or lists
        return np.array(values)
    if len(shapes) != 1 or shapes == {()}:
        return np.array(values)
    return np.concatenate(values).reshape(len(values), *shapes.pop())


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
    observation_parts: tuple[ObservationPart, ...] = ()
    """What the rows of numbers are made of, in this order; empty: of one number, as above, or of one array."""
    accrued_scales: tuple[float, ...] = ()
    """What accrued returns are divided by where policies see them, and the time, behind the observation; empty:
    they see neither."""

    @property
    def num_objectives(self) -> int:
        return len(self.objectives)

    @property
    def shows_accrued(self) -> bool:
        """Whether policies see what an episode has returned so far, and its time."""
        return bool(self.accrued_scales)

    @property
    def input_size(self) -> int:
        """Numbers that a policy sees: the observation, and what has accrued with the time."""
        return self.observation_size + (self.num_objectives + 1 if self.shows_accrued else 0)

    @property
    def num_accrued(self) -> int:
        """Of these, how many stand behind the observation, on scales of their own."""
        return self.input_size - self.observation_size

    @property
    def num_values(self) -> int:
        """Numbers that a critic tells: the value of each objective, and of the utility where returns accrue."""
        return self.num_objectives + self.shows_accrued

    def extend(self, observation: NDArray, accrued: NDArray, time: NDArray) -> NDArray:
        """Rows [B, observation_size], accrued returns [B, m] and times [B] -> rows [B, input_size]."""
        scaled = accrued / np.asarray(self.accrued_scales)
        return np.concatenate([observation, scaled, np.reshape(time, (-1, 1)) / self.horizon], axis=1)

    @cached_property
    def parts(self) -> tuple[ObservationPart, ...]:
        """What to encode, part by part; empty: observations are arrays of ``observation_size`` numbers."""
        if not self.discrete_observation:
            return self.observation_parts
        return (ObservationPart((), (), (self.observation_size,), (self.observation_start,)),)

    def encode(self, observations: Sequence[Any]) -> NDArray:
        """Observations as the environment shows them -> rows [B, observation_size] of float64."""
        if not self.parts:
            rows = stack_alike(observations).astype(np.float64)
            return rows.reshape(len(observations), self.observation_size)
        rows, end = np.zeros((len(observations), self.observation_size)), 0
        found: dict[tuple[str | int, ...], NDArray] = {}
        for part in self.parts:
            if part.path not in found:  # one array may be shown in two ways
                shown = [part.find(observation) for observation in observations] if part.path else observations
                found[part.path] = stack_alike(shown)
            start, end = end, end + part.size
            part.write(found[part.path].reshape(len(observations), *part.shape), rows[:, start:end])
        return rows
