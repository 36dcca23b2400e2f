"""The hypervolume above a reference point: exact while that is cheap, beyond it an estimate with its error.

Up to six objectives the exact volume of hundreds of points takes milliseconds; above, every objective multiplies
its time. The estimate is a mean over directions drawn evenly from the positive orthant of the sphere (Deng and
Zhang 2019, by moocore): always the same directions, so that the estimate of a front that grows does not fall, but
for its error where an objective comes to reach twice as far.
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
    """The same, estimated: the mean over batches of directions, and the standard error of that mean.

    Directions are even in units in which objectives reach about as far: of one that reaches a thousand times as far
    as the others hardly any direction would see the rest, and the error could not be told.
    """
    units = units_of(points - reference)
    scaled, origin, size = (points - reference) / units, np.zeros(len(units)), float(np.prod(units))
    found = [
        moocore.hv_approx(scaled, ref=origin, maximise=True, nsamples=BATCH_SIZE, seed=batch, method="DZ2019-MC")
        for batch in range(NUM_BATCHES)
    ]
    return Volume(size * float(np.mean(found)), size * float(np.std(found, ddof=1) / np.sqrt(NUM_BATCHES)))


def units_of(reach: FloatArray) -> FloatArray:
    """For each objective the largest power of two that some point of ``reach`` [n, m] above 0 comes up to, [m].

    Powers of two round nothing, and stay the same while a front grows a little.
    """
    return 2.0 ** np.floor(np.log2(reach.max(axis=0)))
