"""How Gymnasium's spaces become numbers: what the actor sees, and what it controls.

A Dict is flattened in the order of its space (Gymnasium sorts the keys), a Tuple by position, an array row by row.
Discrete and MultiDiscrete observations become one-hot; integers of some dozens of values in a Box are shown as
one-hot vectors and as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ucb_moppo.errors import ConfigError, require
from ucb_moppo.spec import ActionSpec, ObservationPart

MAX_ONE_HOT = 256
"""So many numbers at most does a Box of integers become as one-hot vectors; larger ones are shown as they are."""
MAX_PLAIN = 12
"""A Box of integers none of which takes more values is shown as it is: a network tells so few apart by itself.

The 12 of deep-sea-treasure are learnt faster so; of 14, among the walls of four-room, it goes astray.
"""
MAX_GIB = 8
BYTES_PER_NUMBER = 100 * 50 * 4 * 9
"""What each number costs with a default rollout: 100 environments × 50 steps in float32, which are there nine times
at the peak of an update (measured: 182 kB more for each number from 6,000 to 16,000 of them)."""
MAX_NUMBERS = MAX_GIB * 2**30 // BYTES_PER_NUMBER
"""So many numbers at most does a policy see or say. Beyond, memory would end in the middle of a library, which may
abort without a word."""


def describe_observation(env_id: str, space: spaces.Space) -> dict[str, Any]:
    """What an ``EnvSpec`` says about observations, by the names of its fields."""
    if isinstance(space, spaces.Discrete):
        check_observation_size(env_id, int(space.n))
        return {
            "observation_size": int(space.n),
            "discrete_observation": True,
            "observation_start": int(space.start),
        }
    parts = tuple(part for path, leaf in leaves(space) for part in describe_parts(env_id, path, leaf))
    size = sum(part.size for part in parts)
    if not size:
        raise ConfigError(f"{env_id}: observations of {space} hold no number; show the agent something")
    check_observation_size(env_id, size)
    plain = len(parts) == 1 and not parts[0].path and not parts[0].choices
    return {"observation_size": size, "observation_parts": () if plain else parts}


def check_observation_size(env_id: str, size: int) -> None:
    """Refuse more numbers than a rollout can hold, before anything is allocated for them."""
    require_room(
        env_id,
        f"observations of {size:,} numbers",
        size,
        "shows fewer: features or small pictures instead of large ones, digits instead of a choice among many "
        "values, which becomes one-hot",
    )


def require_room(env_id: str, what: str, size: int, remedy: str) -> None:
    """Refuse more numbers for each step of each environment than there is room for."""
    gib = size * BYTES_PER_NUMBER / 2**30
    require(
        size <= MAX_NUMBERS,
        f"{env_id}: {what} would take {gib:,.0f} GiB with a rollout of 100 environments × 50 steps; wrap the "
        f"environment so that it {remedy} (at most {MAX_NUMBERS:,} numbers)",
    )


def leaves(space: spaces.Space, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], spaces.Space]]:
    """The spaces without others in them and how to come to each, in order."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in inner:
            yield from leaves(part, (*path, key))
    else:
        yield path, space


def describe_parts(env_id: str, path: tuple[Any, ...], space: spaces.Space) -> list[ObservationPart]:
    """How one array of an observation is shown; refused if it is none of a fixed size."""
    if isinstance(space, spaces.Discrete):
        return [ObservationPart(path, (), (int(space.n),), (int(space.start),))]
    if isinstance(space, spaces.MultiDiscrete):
        return [ObservationPart(path, space.shape, integers(space.nvec), integers(space.start))]
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        plain, choices = ObservationPart(path, tuple(space.shape)), count_values(space)
        # One-hot tells values apart that have nothing to do with each other, the number itself which are near.
        one_hot = [replace(plain, choices=choices, start=integers(space.low))] if choices else []  # type: ignore[union-attr]
        return [*one_hot, plain]
    raise ConfigError(
        f"{env_id}: observations of {space} cannot be flattened into a vector; wrap the environment so that it "
        "returns Box, Discrete, MultiDiscrete or MultiBinary observations, or a Dict or Tuple of these"
    )


def count_values(space: spaces.Box | spaces.MultiBinary) -> tuple[int, ...]:
    """How many values each number takes, where they are integers and one-hot vectors pay; else empty."""
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.integer):
        return ()
    counts = [int(high) - int(low) + 1 for low, high in zip(space.low.ravel(), space.high.ravel(), strict=True)]
    return tuple(counts) if max(counts, default=0) > MAX_PLAIN and sum(counts) <= MAX_ONE_HOT else ()


def integers(array: Any) -> tuple[int, ...]:
    return tuple(int(number) for number in np.ravel(array))


def lowest_values(space: spaces.Space) -> NDArray:
    """The least [m] that a space of arrays allows; −∞ where it does not say."""
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape)
    if isinstance(space, spaces.MultiDiscrete):
        return np.asarray(space.start, dtype=np.float64)
    low = np.asarray(getattr(space, "low", -np.inf), dtype=np.float64)
    return np.broadcast_to(low, space.shape or ())


def describe_action(env_id: str, space: spaces.Space) -> ActionSpec:
    """One choice, several independent ones, or the bounds of a Box of floats, flattened; refused if there are too
    many."""
    action = read_action(env_id, space)
    require(
        action.size > 0,
        f"{env_id}: actions of {space} hold no number: there is nothing to learn; give the agent something to do",
    )
    require_room(
        env_id,
        f"actions of {action.num_outputs:,} numbers",
        action.num_outputs,
        "takes fewer: several small choices (MultiDiscrete) instead of a large one",
    )
    return action


def read_action(env_id: str, space: spaces.Space) -> ActionSpec:
    """What an action space says of itself."""
    if isinstance(space, spaces.Discrete):
        return ActionSpec(
            discrete=True, size=int(space.n), start=int(space.start), shape=(), dtype=str(space.dtype)
        )
    if isinstance(space, spaces.MultiDiscrete):
        return describe_choices(space, integers(space.nvec), integers(space.start))
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return describe_choices(space, (2,) * size, (0,) * size)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        low, high = (tuple(bound.astype(np.float64).ravel().tolist()) for bound in (space.low, space.high))
        return ActionSpec(False, len(low), low, high, shape=space.shape, dtype=str(space.dtype))
    raise ConfigError(
        f"{env_id}: actions of {space} are not supported; "
        "wrap the environment so that it takes a Discrete, a MultiDiscrete, a MultiBinary or a Box of floats"
    )


def describe_choices(space: spaces.Space, choices: tuple[int, ...], start: tuple[int, ...]) -> ActionSpec:
    """Independent choices of a space, each among so many that begin at ``start``."""
    high = tuple(float(first + count - 1) for first, count in zip(start, choices, strict=True))
    low = tuple(map(float, start))
    return ActionSpec(
        False, len(choices), low, high, choices=choices, shape=tuple(space.shape or ()), dtype=str(space.dtype)
    )
