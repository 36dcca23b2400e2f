"""A few points that show what a front is like, where there is no room for all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucb_moppo.objectives.weights import farthest_points

FloatArray = NDArray[np.float64]


def spread_over(points: ArrayLike, count: int) -> list[int]:
    """Up to ``count`` of ``points`` [n, m], as indices in order of choice: who has most of the first objective, of
    the second, and so on, then whoever is farthest from those before.

    Distances are in shares of what the points span of each objective; NaN counts as 0.
    """
    rows = np.nan_to_num(np.asarray(points, dtype=float))
    count = min(count, len(rows))
    if count < 1:
        return []
    scaled = _to_unit(rows)
    ends = list(dict.fromkeys(_most_of(scaled, j) for j in range(scaled.shape[1])))[:count]
    others = np.setdiff1d(np.arange(len(rows)), ends)
    more = others[farthest_points(scaled[others], count - len(ends), chosen=scaled[ends])]
    return [*ends, *map(int, more)]


def _most_of(scaled: FloatArray, objective: int) -> int:
    """Who has most of an objective; of equals, who has most of all others."""
    return int(np.lexsort((scaled.sum(axis=1), scaled[:, objective]))[-1])


def _to_unit(points: FloatArray) -> FloatArray:
    """Points moved and stretched so that each objective spans 0 to 1; halved first, so that no span overflows."""
    low = points.min(axis=0) / 2
    span = points.max(axis=0) / 2 - low
    return (points / 2 - low) / np.where(span > 0, span, 1.0)
