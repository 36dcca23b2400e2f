"""I(w): where the solution of a preference lies, interpolated from the solutions of a few key preferences.

Objectives differ in scale, so the best return vector of a preference does not point along the preference itself.
Those of a few key preferences tell where it does point, and a radial basis function with a linear kernel passes
through their directions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.policy.networks import Array


class Interpolation(NamedTuple):
    """I(w) = Σ_k −|w − w_k| c_k + d, a linear kernel with a constant. A pytree."""

    preferences: Any  # [k, m] the key preferences w_k
    coefficients: Any  # [k, m]
    constant: Any  # [m]


def key_preferences(num_objectives: int) -> NDArray:
    """The extreme preferences, one objective each, and the middle one: [m + 1, m]."""
    return np.vstack([np.eye(num_objectives), np.full(num_objectives, 1 / num_objectives)])


def unit_directions(solutions: NDArray) -> NDArray:
    """Return vectors [k, m] at length 1."""
    return solutions / np.maximum(np.linalg.norm(solutions, axis=-1, keepdims=True), 1e-8)


def fit_interpolation(preferences: NDArray, solutions: NDArray) -> Interpolation:
    """The interpolation from key preferences [k, m] to the directions of their solutions [k, m].

    Solves [Φ 1; 1ᵀ 0] [c; d] = [y; 0]: the linear kernel is unique up to a constant, whose coefficients sum to 0.
    """
    count = len(preferences)
    system = np.ones((count + 1, count + 1))
    system[:count, :count] = -np.linalg.norm(preferences[:, None] - preferences[None], axis=-1)
    system[count, count] = 0.0
    values = np.vstack([unit_directions(solutions), np.zeros((1, solutions.shape[1]))])
    solved = np.linalg.solve(system, values).astype(np.float32)
    return Interpolation(preferences.astype(np.float32), solved[:count], solved[count])


def interpolate(interpolation: Interpolation, weight: Array) -> Array:
    """I(w) of preferences [B, m]: [B, m]."""
    xp = weight.__array_namespace__()
    apart = weight[:, None, :] - interpolation.preferences
    distance = xp.sqrt(xp.sum(apart**2, axis=-1))
    return -distance @ interpolation.coefficients + interpolation.constant


def better_solutions(preferences: NDArray, solutions: NDArray, found: NDArray) -> NDArray:
    """Of known and newly found key solutions [k, m] the ones with the larger w·V, row by row: [k, m].

    A found solution that is not finite belongs to a policy that has diverged, and is no solution.
    """
    better = np.sum(preferences * found, axis=-1) > np.sum(preferences * solutions, axis=-1)
    return np.where(better[:, None] & np.isfinite(found).all(axis=-1, keepdims=True), found, solutions)
