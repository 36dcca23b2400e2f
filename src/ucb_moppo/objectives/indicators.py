"""Indicators of how good a set of objective vectors is, all called alike: points [n, m], reference point [m].

A user's own is such a function too, named as module:name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.objectives import pareto
from ucb_moppo.objectives.pareto import hypervolume
from ucb_moppo.objectives.utility import LINEAR_GOAL, Goal
from ucb_moppo.objectives.weights import even_weights, simplex_lattice
from ucb_moppo.registry import INDICATORS

HYPERVOLUME_ERROR = "hypervolume_error"
"""Where the standard error of a hypervolume stands that is an estimate."""

__all__ = [
    "HYPERVOLUME_ERROR",
    "cardinality",
    "expected_utility",
    "hypervolume",
    "measure",
    "measure_with",
    "sparsity",
]


class Indicator(Protocol):
    """A number about a set of objective vectors; all objectives are maximised."""

    def __call__(self, points: NDArray, reference_point: Sequence[float]) -> float:
        """Measure ``points`` [n, m], Pareto-optimal or not, above ``reference_point`` [m]."""
        ...


def expected_utility(
    points: NDArray, reference_point: Sequence[float], divisions: int | None = None, goal: Goal = LINEAR_GOAL
) -> float:
    """Mean over evenly spaced preferences of the best utility that the points offer.

    The preferences are multiples of 1/``divisions``; by default as many as make a hundred or more. Where ``goal``
    is not linear, points may be what its utility is taken of, [n, E, m].
    """
    m = points.shape[-1]
    preferences = simplex_lattice(m, divisions) if divisions else even_weights(m)
    if goal.is_linear:
        return pareto.expected_utility(points, preferences)
    outcomes = points if points.ndim == 3 else points[:, None]
    finite = outcomes[np.isfinite(outcomes).all((1, 2))]
    return float(goal.best_values(finite, preferences).mean()) if len(finite) else float("nan")


def sparsity(points: NDArray, reference_point: Sequence[float]) -> float:
    """Mean squared gap along the front."""
    return pareto.sparsity(points)


def cardinality(points: NDArray, reference_point: Sequence[float]) -> int:
    """Size of the front."""
    return pareto.cardinality(points)


def measure(
    returns: NDArray,
    reference_point: Sequence[float],
    divisions: int | None = None,
    goal: Goal = LINEAR_GOAL,
    outcomes: NDArray | None = None,
) -> dict[str, float]:
    """The indicators that every run records, of returns [K, W, m]; ``divisions`` and ``goal`` as in
    `expected_utility`, which is that of ``outcomes`` [K, W, E, m] where these are given.

    Where the hypervolume is an estimate, its standard error stands beside it.
    """
    volume = pareto.measure_volume(returns.reshape(-1, returns.shape[-1]), reference_point)
    others = [name for name in INDICATORS if name != "hypervolume"]
    found = {"hypervolume": volume.value} | measure_with(others, returns, reference_point, divisions)
    if not goal.is_linear:
        taken = returns[..., None, :] if outcomes is None else outcomes
        points = taken.reshape(-1, *taken.shape[-2:])
        found["expected_utility"] = expected_utility(points, reference_point, divisions, goal)
    return found | ({HYPERVOLUME_ERROR: volume.error} if volume.error else {})


def measure_with(
    names: Sequence[str], returns: NDArray, reference_point: Sequence[float], divisions: int | None = None
) -> dict[str, float]:
    """Named indicators of returns [K, W, m]; ``divisions`` as in `expected_utility`."""
    points = returns.reshape(-1, returns.shape[-1])
    indicators: dict[str, Indicator] = {name: INDICATORS.find(name) for name in names}
    if "expected_utility" in indicators:
        indicators["expected_utility"] = partial(expected_utility, divisions=divisions)
    return {name: indicator(points, reference_point) for name, indicator in indicators.items()}
