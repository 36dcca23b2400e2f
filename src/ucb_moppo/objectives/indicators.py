"""Indicators of how good a set of objective vectors is, all called alike: points [n, m], reference point [m].

A user's own is such a function too, named as module:name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from numpy.typing import NDArray

from ucb_moppo.objectives import pareto
from ucb_moppo.objectives.pareto import hypervolume
from ucb_moppo.objectives.weights import even_weights
from ucb_moppo.registry import INDICATORS

__all__ = ["cardinality", "expected_utility", "hypervolume", "measure", "measure_with", "sparsity"]


class Indicator(Protocol):
    """A number about a set of objective vectors; all objectives are maximised."""

    def __call__(self, points: NDArray, reference_point: Sequence[float]) -> float:
        """Measure ``points`` [n, m], Pareto-optimal or not, above ``reference_point`` [m]."""
        ...


def expected_utility(points: NDArray, reference_point: Sequence[float]) -> float:
    """Mean over evenly spaced weights of the best utility that the points offer."""
    return pareto.expected_utility(points, even_weights(points.shape[-1]))


def sparsity(points: NDArray, reference_point: Sequence[float]) -> float:
    """Mean squared gap along the front."""
    return pareto.sparsity(points)


def cardinality(points: NDArray, reference_point: Sequence[float]) -> int:
    """Size of the front."""
    return pareto.cardinality(points)


def measure(returns: NDArray, reference_point: Sequence[float]) -> dict[str, float]:
    """The indicators that every run records, of returns [K, W, m]."""
    return measure_with(tuple(INDICATORS), returns, reference_point)


def measure_with(names: Sequence[str], returns: NDArray, reference_point: Sequence[float]) -> dict[str, float]:
    """Named indicators of returns [K, W, m]."""
    points = returns.reshape(-1, returns.shape[-1])
    indicators: dict[str, Indicator] = {name: INDICATORS.find(name) for name in names}
    return {name: indicator(points, reference_point) for name, indicator in indicators.items()}
