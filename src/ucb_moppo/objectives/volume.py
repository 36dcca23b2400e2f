"""The hypervolume above a reference point: exact while that is cheap, beyond it an estimate with its error.

Up to six objectives the exact volume of hundreds of points takes milliseconds; above, every objective multiplies
its time. The estimate is a mean over directions drawn evenly from the positive orthant of the sphere (Deng and
Zhang 2019, by moocore): always the same directions, so that the estimate of a front that grows never falls.
"""

from __future__ import annotations

from typing import NamedTuple

import moocore
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

ALWAYS_EXACT = 5
"""Objectives up to which any number of points is cheap: thousands take hundredths of a second."""
MAX_EXACT_POINTS = {6: 600, 7: 180, 8: 90, 9: 60}
"""Points on the front up to which the exact volume takes less than half a second, by objectives."""
FEW_POINTS = 25
"""The same for more objectives than that."""
NUM_BATCHES, BATCH_SIZE = 16, 20_000


class Volume(NamedTuple):
    """A hypervolume and how far it may be off."""

    value: float
    error: float = 0.0
    """Standard error; 0 where the value is exact."""


def is_cheap(num_points: int, num_objectives: int) -> bool:
    """Whether the exact volume of a front of so many points is quick enough to ask for it at every stage."""
    return num_objectives <= ALWAYS_EXACT or num_points <= MAX_EXACT_POINTS.get(num_objectives, FEW_POINTS)


def exact_volume(points: FloatArray, reference: FloatArray) -> Volume:
    """The volume that ``points`` [n, m] above ``reference`` [m] dominate, n >= 1."""
    return Volume(float(moocore.hypervolume(points, ref=reference, maximise=True)))


def estimate_volume(points: FloatArray, reference: FloatArray) -> Volume:
    """The same, estimated: the mean over batches of directions, and the standard error of that mean."""
    found = [
        moocore.hv_approx(points, ref=reference, maximise=True, nsamples=BATCH_SIZE, seed=batch, method="DZ2019-MC")
        for batch in range(NUM_BATCHES)
    ]
    return Volume(float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(NUM_BATCHES)))
