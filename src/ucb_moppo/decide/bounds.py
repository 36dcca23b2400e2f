"""What must hold: floors and ceilings of objectives, how many policies they leave, and which of them costs most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.decide.outcomes import Outcomes
from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives.names import per_objective


@dataclass(frozen=True, eq=False)
class Bounds:
    """At least and at most, an entry per objective; −inf and inf where nothing is asked."""

    floors: NDArray
    """[m]"""
    ceilings: NDArray
    """[m]"""

    def hold(self, returns: NDArray) -> NDArray:
        """[...] whether all of them hold for ``returns`` [..., m]."""
        return np.asarray(((returns >= self.floors) & (returns <= self.ceilings)).all(axis=-1))

    def without(self, objective: int, floor: bool) -> Bounds:
        """The same but for one of them."""
        floors, ceilings = self.floors.copy(), self.ceilings.copy()
        if floor:
            floors[objective] = -np.inf
        else:
            ceilings[objective] = np.inf
        return Bounds(floors, ceilings)

    def given(self) -> list[tuple[int, bool, float]]:
        """(objective, whether it is a floor, value) of each that is asked for."""
        floors = [(j, True, float(x)) for j, x in enumerate(self.floors) if np.isfinite(x)]
        return floors + [(j, False, float(x)) for j, x in enumerate(self.ceilings) if np.isfinite(x)]


def make_bounds(
    objectives: tuple[str, ...], floors: Mapping[str, float] | None, ceilings: Mapping[str, float] | None
) -> Bounds:
    """Bounds by the names of objectives; a floor above its ceiling is refused."""
    bounds = Bounds(
        per_objective(floors or {}, objectives, -np.inf), per_objective(ceilings or {}, objectives, np.inf)
    )
    for name, floor, ceiling in zip(objectives, bounds.floors, bounds.ceilings, strict=True):
        if floor > ceiling:
            raise ConfigError(
                f"{name}: the floor {floor:g} is above the ceiling {ceiling:g}; nothing can hold both"
            )
    return bounds


def remaining(outcomes: Outcomes, bounds: Bounds) -> NDArray:
    """Which of the n policies are within the bounds: their places, ascending."""
    return np.flatnonzero(bounds.hold(outcomes.returns))


def without_each(outcomes: Outcomes, bounds: Bounds) -> list[tuple[int, bool, float, int]]:
    """(objective, whether a floor, value, policies that would remain without it) of each bound that is given."""
    return [
        (objective, floor, value, len(remaining(outcomes, bounds.without(objective, floor))))
        for objective, floor, value in bounds.given()
    ]


def nearest_miss(outcomes: Outcomes, bounds: Bounds) -> int:
    """The policy that falls short of the bounds by least: the sum over objectives, each by what the front spans."""
    short = np.maximum(bounds.floors - outcomes.returns, 0) + np.maximum(outcomes.returns - bounds.ceilings, 0)
    return int(np.argmin((short / outcomes.span).sum(axis=1)))
