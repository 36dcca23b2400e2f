"""How large objectives are, by what random actions bring: weights mean little where one drowns the others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SMALLEST_RATIO = 10.0
"""Objectives whose returns vary by amounts that differ less than this are of one size."""


def find_scales(returns: NDArray) -> tuple[float, ...]:
    """How much each objective of ``returns`` [n, m] varies, to two digits; 1 each where that is about the same.

    An objective that stays as it is tells nothing: it counts as the largest. So do episodes that are not finite.
    """
    finite = returns[np.isfinite(returns).all(axis=1)]
    spread = finite.std(axis=0) if len(finite) else np.zeros(returns.shape[1])
    largest = spread.max()
    spread = np.where(spread > 0, spread, largest)
    if largest == 0 or largest < SMALLEST_RATIO * spread.min():
        return (1.0,) * returns.shape[1]
    return tuple(float(f"{value:.1e}") for value in spread)
