"""Places of a front that need no questions: its extremes, its knee, and what comes closest to aspirations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.decide.outcomes import Outcomes

RHO = 0.05
"""Share of the mean in the achievement function: without it, more of what is not the worst would count nothing."""


def find_extremes(outcomes: Outcomes, among: NDArray) -> list[int]:
    """For each objective, who of ``among`` has most of it; of equals, who has most of the others."""
    scaled = outcomes.scaled[among]
    return [int(among[np.lexsort((scaled.sum(axis=1), scaled[:, j]))[-1]]) for j in range(scaled.shape[1])]


def find_knee(outcomes: Outcomes, among: NDArray) -> int:
    """Who of ``among`` lies farthest beyond the plane through their extremes, where a little more costs most.

    Das's characterisation of the knee (Structural Optimization 18, 1999), on returns scaled so that each objective
    spans 0 to 1 among them.
    """
    returns = outcomes.returns[among]
    low, span = returns.min(axis=0), np.ptp(returns, axis=0)
    scaled = (returns - low) / np.where(span > 0, span, 1.0)
    places = [int(np.flatnonzero(among == i)[0]) for i in find_extremes(outcomes, among)]
    return int(among[np.argmax(scaled @ plane_normal(scaled[places]))])


def plane_normal(extremes: NDArray) -> NDArray:
    """[m] the normal of the plane through m points [m, m], as shares that sum to 1.

    Where two extremes are one, or the plane leans away from an objective, all objectives count alike.
    """
    num_objectives = len(extremes)
    even = np.full(num_objectives, 1 / num_objectives)
    if np.linalg.matrix_rank(extremes) < num_objectives:
        return even
    normal = np.linalg.solve(extremes, np.ones(num_objectives))
    return normal / normal.sum() if (normal > 0).all() else even


def achievement(outcomes: Outcomes, aspirations: NDArray, rho: float = RHO) -> NDArray:
    """[n] how well each policy does against what is aspired to [m], in what the front spans: min + ρ · mean.

    0 where everything is just as aspired; whoever is worst off counts most (Wierzbicki's achievement function).
    NaN aspires to nothing in particular: such an objective enters the mean alone.
    """
    asked = np.isfinite(aspirations)
    excess = (outcomes.returns - np.where(asked, aspirations, outcomes.worst)) / outcomes.span
    least = excess[:, asked].min(axis=1) if asked.any() else np.zeros(len(outcomes))
    return np.asarray(least + rho * excess.mean(axis=1))


def find_closest(outcomes: Outcomes, among: NDArray, aspirations: NDArray) -> int:
    """Who of ``among`` does best against the aspirations [m]."""
    return int(among[np.argmax(achievement(outcomes, aspirations)[among])])
