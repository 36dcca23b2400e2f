"""Utilities: what a preference makes of returns. All objectives are maximised.

A family u(returns [..., m], preference [..., m]) -> [...] has a member for every preference of the simplex, so that
one set of policies, conditioned on the preference, serves all of them. It is taken of the mean return (SER) or of
each episode's return (ESR): see ``Goal``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucb_moppo.errors import require
from ucb_moppo.objectives.goal_settings import GoalSettings
from ucb_moppo.objectives.names import check_number, find_objective
from ucb_moppo.registry import UTILITIES

FloatArray = NDArray[np.float64]

SMOOTHING = 0.05
"""How far, in normalised units, the slope of a minimum blends from one objective to another."""
FLOOR_SMOOTHING = 0.03
"""How far around a floor, in what it rises above the nadir, its slope fades. A mean return comes to rest where what
is left of the slope equals what the floor costs elsewhere: somewhat above it, so that episodes keep it, too."""
DIFFERENCE = 1e-4
"""Of an objective's scale: the step that the slopes of a user's own utility are measured by."""


class Utility(Protocol):
    """A family of utilities, one for every preference."""

    def __call__(self, returns: FloatArray, preference: FloatArray) -> FloatArray:
        """The utility of returns [..., m] for preferences [..., m]: [...]."""
        ...

    def gradient(self, returns: FloatArray, preference: FloatArray) -> FloatArray:
        """What a little more of each objective is worth there: [..., m]."""
        ...


@dataclass(frozen=True)
class Linear:
    """The weighted sum p·V."""

    def __call__(self, returns: FloatArray, preference: FloatArray) -> FloatArray:
        """The weighted sum [...] of returns [..., m]."""
        return np.asarray((returns * preference).sum(-1))

    def gradient(self, returns: FloatArray, preference: FloatArray) -> FloatArray:
        """The preference itself, whatever the returns are."""
        return np.array(np.broadcast_arrays(preference, returns)[0], float)


@dataclass(frozen=True, eq=False)
class Chebyshev:
    """The achievement function 1 + m · min_j pⱼ(zⱼ − 1) + ρ · mean z, z = (V − nadir) / (ideal − nadir).

    An even preference makes it min z + ρ · mean z. An objective that a preference leaves at 0 does not count in the
    minimum.
    """

    nadir: FloatArray
    ideal: FloatArray
    rho: float

    def _lags(self, returns: FloatArray, preference: FloatArray) -> tuple[FloatArray, FloatArray]:
        """z [..., m], and m · pⱼ(zⱼ − 1) [..., m], infinite where nothing is preferred."""
        z = (np.asarray(returns, float) - self.nadir) / (self.ideal - self.nadir)
        lags = len(self.ideal) * preference * (z - 1)
        return z, np.where(np.asarray(preference) > 0, lags, np.inf)

    def __call__(self, returns: FloatArray, preference: FloatArray) -> FloatArray:
        """The achievement [...] of returns [..., m]."""
        z, lags = self._lags(returns, preference)
        return np.asarray(1 + lags.min(-1) + self.rho * z.mean(-1))

    def gradient(self, returns: FloatArray, preference: FloatArray) -> FloatArray:
        """The slope of the minimum, blended where several objectives are nearly the worst off."""
        _, lags = self._lags(returns, preference)
        blend = np.exp(-(lags - lags.min(-1, keepdims=True)) / SMOOTHING)
        blend /= blend.sum(-1, keepdims=True)
        count = len(self.ideal)
        return np.asarray((count * preference * blend + self.rho / count) / (self.ideal - self.nadir))


@dataclass(frozen=True, eq=False)
class Floors:
    """The weighted sum, less what returns lack of their floors: p·V − Σⱼ costⱼ · max(floorⱼ − Vⱼ, 0)."""

    floors: FloatArray
    """[m], −inf where there is none."""
    costs: FloatArray
    """[m] of a unit below the floor."""
    widths: FloatArray
    """[m] over which a floor's slope fades."""

    def __call__(self, returns: FloatArray, preference: FloatArray) -> FloatArray:
        """The penalised sum [...] of returns [..., m]."""
        lacking = np.maximum(self.floors - returns, 0.0)
        return np.asarray((returns * preference - self.costs * lacking).sum(-1))

    def gradient(self, returns: FloatArray, preference: FloatArray) -> FloatArray:
        """The preference, and below a floor the cost; in between, near it."""
        below = 0.5 + 0.5 * np.tanh(0.5 * (self.floors - returns) / self.widths)
        return np.asarray(preference + self.costs * below)


@dataclass(frozen=True, eq=False)
class OwnUtility:
    """A user's own function; where it has no ``gradient``, slopes are measured by central differences."""

    function: Callable[[Any, Any], Any]
    scales: FloatArray

    def __call__(self, returns: FloatArray, preference: FloatArray) -> FloatArray:
        """What the function says of returns [..., m]."""
        shape = np.broadcast_shapes(np.shape(returns), np.shape(preference))
        values = np.asarray(self.function(returns, preference), float)
        require(
            values.shape == shape[:-1],
            f"the utility {self.function!r} made {values.shape} of returns {shape}: it must give a number for each "
            f"return, {shape[:-1]}",
        )
        return values

    def gradient(self, returns: FloatArray, preference: FloatArray) -> FloatArray:
        """The function's own, or differences over a small step of each objective."""
        own = getattr(self.function, "gradient", None)
        if own is not None:
            return np.asarray(own(returns, preference), float)
        steps = np.diag(DIFFERENCE * self.scales)
        slopes = [(self(returns + s, preference) - self(returns - s, preference)) / (2 * s.sum()) for s in steps]
        return np.stack(slopes, axis=-1)


@dataclass(frozen=True, eq=False)
class Goal:
    """A utility and how it is taken: of the mean return (``ser``), or of each episode's, on average (``esr``)."""

    utility: Utility
    criterion: str
    scales: FloatArray
    """[m] what objectives are of a size with: slopes are compared in these units."""

    @property
    def is_linear(self) -> bool:
        return isinstance(self.utility, Linear)

    @property
    def by_episode(self) -> bool:
        return self.criterion == "esr"

    def outcomes(self, episodes: FloatArray) -> FloatArray:
        """What of episodes [..., E, m] the utility is taken of: each of them, or [..., 1, m] their mean."""
        return episodes if self.by_episode else episodes.mean(axis=-2, keepdims=True)

    def values(self, outcomes: FloatArray, preferences: FloatArray) -> FloatArray:
        """The value of outcomes [..., E, m] for preferences [..., m]: the mean utility, [...]."""
        return np.asarray(self.utility(outcomes, preferences[..., None, :]).mean(-1))

    def best_values(self, outcomes: FloatArray, preferences: FloatArray) -> FloatArray:
        """For every preference [n_p, m] the value of the best of n outcomes [n, E, m]: [n_p]."""
        return np.array([self.values(outcomes, preference[None]).max() for preference in preferences])

    def direction(self, returns: FloatArray, preference: FloatArray) -> FloatArray:
        """The slope at mean returns [..., m], made of one size: what takes the place of a weight, [..., m].

        Where nothing is known of the returns (NaN), or nothing matters there, it is the preference itself.
        """
        known = np.isfinite(returns).all(-1, keepdims=True)
        slope = self.utility.gradient(np.where(known, returns, 0.0), preference)
        known &= np.isfinite(slope).all(-1, keepdims=True) & (np.abs(slope).sum(-1, keepdims=True) > 0)
        chosen = np.where(known, slope, preference)
        return np.asarray(chosen / (np.abs(chosen) * self.scales).sum(-1, keepdims=True))


LINEAR_GOAL = Goal(Linear(), "ser", np.ones(1))
"""A weighted sum, of any number of objectives; its mean is the same of returns and of their mean."""


class Problem(Protocol):
    """What a utility may know of the problem."""

    @property
    def objectives(self) -> tuple[str, ...]: ...

    @property
    def reference_point(self) -> tuple[float, ...]: ...


def make_goal(goal: GoalSettings, spec: Problem, objective_scales: Sequence[float] | None = None) -> Goal:
    """What the settings say of a problem; ``objective_scales`` are those its weights are spread by."""
    if goal.is_linear:
        return LINEAR_GOAL
    sizes = np.ones(len(spec.objectives)) if objective_scales is None else np.asarray(objective_scales, float)
    found = UTILITIES.find(goal.utility)
    if goal.utility not in UTILITIES:
        scales = span(goal, spec, sizes)
        return Goal(OwnUtility(found, scales), goal.criterion, scales)
    return Goal(*found(goal, spec, sizes))


def span(goal: GoalSettings, spec: Problem, sizes: FloatArray) -> FloatArray:
    """From nadir to ideal [m]; where that is not given, the sizes of the objectives."""
    if goal.ideal is None:
        return sizes
    nadir = per_number("nadir", goal.nadir or spec.reference_point, spec)
    width = per_number("ideal", goal.ideal, spec) - nadir
    require(
        bool((width > 0).all()),
        f"ideal is {list(goal.ideal)} and nadir {nadir.tolist()}: the first must be above the second everywhere",
    )
    return width


def per_number(name: str, numbers: ArrayLike, spec: Problem) -> FloatArray:
    """Numbers [m], refused unless there is one per objective."""
    values, count = np.asarray(numbers, float), len(spec.objectives)
    require(
        values.shape == (count,),
        f"{name} is {values.tolist()}: give {count} numbers, one per objective ({', '.join(spec.objectives)})",
    )
    return values


def make_chebyshev(goal: GoalSettings, spec: Problem, sizes: FloatArray) -> tuple[Chebyshev, str, FloatArray]:
    """The achievement function between nadir and ideal."""
    width = span(goal, spec, sizes)
    nadir = np.asarray(goal.nadir or spec.reference_point, float)
    return Chebyshev(nadir, nadir + width, goal.rho), goal.criterion, width


def make_floors(goal: GoalSettings, spec: Problem, sizes: FloatArray) -> tuple[Floors, str, FloatArray]:
    """Floors by the names of objectives; a unit below one costs the more, the smaller the objective's size is."""
    floors = np.full(len(spec.objectives), -np.inf)
    for name, value in read_floors(goal.floors, spec.objectives):
        floors[spec.objectives.index(name)] = value
    nadir = per_number("nadir", goal.nadir or spec.reference_point, spec)
    rises = np.where(np.isfinite(floors) & (floors != nadir), np.abs(floors - nadir), sizes)
    costs = goal.floor_penalty * len(sizes) * (1 / sizes) / (1 / sizes).sum()
    return Floors(floors, np.where(np.isfinite(floors), costs, 0.0), FLOOR_SMOOTHING * rises), goal.criterion, sizes


def read_floors(floors: Sequence[str], objectives: Sequence[str]) -> list[tuple[str, float]]:
    """The objective that each NAME=VALUE means, by its whole name, and the value."""
    found = []
    for text in floors:
        name, equals, value = text.partition("=")
        require(bool(equals), f"floors has {text!r}; give NAME=VALUE, e.g. {objectives[0]}=2000")
        found.append((objectives[find_objective(name, objectives)], check_number(name.strip(), value)))
    named = [name for name, _ in found]
    twice = [name for name in named if named.count(name) > 1]
    require(not twice, f"floors name {twice[:1]} more than once")
    return found


def make_linear(goal: GoalSettings, spec: Problem, sizes: FloatArray) -> tuple[Linear, str, FloatArray]:
    """The weighted sum."""
    return Linear(), goal.criterion, sizes
