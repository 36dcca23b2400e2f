"""Acquisitions of other methods, to be tried in the place of the hypervolume; two objectives.

    PYTHONPATH=benchmarks ucb-moppo train HalfCheetah-v2 --acquisition acquisitions:Corners
    PYTHONPATH=benchmarks ucb-moppo train HalfCheetah-v2 --acquisition acquisitions:Crowding

What each brings is in docs/results.md. Everything is maximised.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.objectives.pareto import pareto_front


class Corners:
    """By how much a candidate raises the best utility at the corner weights of the front: where two neighbours on
    its convex hull are worth the same, and at both ends of the simplex (GPI-LS goes by these, too)."""

    def __init__(self, reference_point: Sequence[float]) -> None:
        self.reference = np.asarray(reference_point, float)

    def __call__(self, front: NDArray, candidates: NDArray) -> NDArray:
        """Score ``candidates`` [n, 2] against ``front`` [f, 2] -> [n]; 0 where none is raised."""
        scores = np.full(len(candidates), -np.inf)
        finite = np.isfinite(candidates).all(axis=1)
        known = np.vstack([front[np.isfinite(front).all(axis=1)], self.reference])
        weights = corner_weights(known)
        raised = candidates[finite] @ weights.T - (known @ weights.T).max(axis=0)
        scores[finite] = raised.max(axis=1).clip(min=0.0)
        return scores


def corner_weights(points: NDArray) -> NDArray:
    """Weights [c, 2] at which two neighbours on the convex hull of ``points`` [n, 2] tie, and both ends."""
    hull: list[NDArray] = []
    for point in sorted(pareto_front(points), key=lambda p: p[0]):
        while len(hull) > 1 and not turns_right(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    steps = np.diff(np.array(hull), axis=0)  # to the right and down
    normals = np.stack([-steps[:, 1], steps[:, 0]], axis=1)
    return np.vstack([[0.0, 1.0], normals / normals.sum(axis=1, keepdims=True), [1.0, 0.0]])


def turns_right(a: NDArray, b: NDArray, c: NDArray) -> bool:
    """Whether the way from a over b to c bends downwards at b."""
    return bool((b[0] - a[0]) * (c[1] - a[1]) < (b[1] - a[1]) * (c[0] - a[0]))


class Crowding:
    """How far apart a candidate's neighbours on the front would be, each objective by its span (C-MORL goes by
    this); 0 for one that would not be on it."""

    def __init__(self, reference_point: Sequence[float]) -> None:
        self.reference = np.asarray(reference_point, float)

    def __call__(self, front: NDArray, candidates: NDArray) -> NDArray:
        """Score ``candidates`` [n, 2] against ``front`` [f, 2] -> [n]."""
        known = pareto_front(front[np.isfinite(front).all(axis=1)])
        span = np.ptp(known, axis=0) if len(known) else np.zeros(2)
        span[span == 0] = 1.0
        return np.array([self.gap(known / span, candidate / span) for candidate in candidates])

    def gap(self, known: NDArray, candidate: NDArray) -> float:
        """Of one candidate [2]: the distance between its neighbours; at an end, twice that to the one it has."""
        if not np.isfinite(candidate).all():
            return -np.inf
        if (known >= candidate).all(axis=1).any():
            return 0.0
        kept = known[~(candidate >= known).all(axis=1)]
        kept = kept[np.argsort(kept[:, 0])]
        place = int(np.searchsorted(kept[:, 0], candidate[0]))
        neighbours = kept[max(0, place - 1) : place + 1]
        if len(neighbours) == 2:
            return float(np.abs(neighbours[1] - neighbours[0]).sum())
        return float(2 * np.abs(neighbours - candidate).sum()) if len(neighbours) else 1.0
