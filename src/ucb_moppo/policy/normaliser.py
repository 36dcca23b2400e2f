"""Running mean and variance of what a policy sees (observations) and of what it earns (returns).

Functions of numpy or JAX arrays; one policy's statistics are vectors over features.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ucb_moppo.policy.networks import Array

CLIP = 10.0
MIN_STD = 1e-4


class Statistics(NamedTuple):
    """Mean and population variance over ``count`` samples of each of d features: [d], [d], []."""

    mean: Any
    variance: Any
    count: Any

    @property
    def std(self) -> Array:
        # A feature that never moves has variance 0: dividing by a floor keeps it at 0 instead of NaN.
        xp = self.variance.__array_namespace__()
        return xp.sqrt(xp.maximum(self.variance, self.variance * 0 + MIN_STD**2))


def init_statistics(size: int) -> Statistics:
    """Mean 0, variance 1 and no samples: normalises by doing nothing until the first update."""
    return Statistics(np.zeros(size, np.float32), np.ones(size, np.float32), np.zeros((), np.float32))


def update_statistics(stats: Statistics, samples: Array) -> Statistics:
    """Statistics of the samples so far and of ``samples`` [n, d] together (Chan et al., parallel variance)."""
    mean, variance, num_samples = samples.mean(0), samples.var(0), samples.shape[0]
    count = stats.count + num_samples
    shift = mean - stats.mean
    new = num_samples / count  # the fraction of all samples that are new
    pooled = stats.variance * (1 - new) + variance * new + shift**2 * new * (1 - new)
    return Statistics(stats.mean + shift * new, pooled, count)


def normalise(stats: Statistics, values: Array, clip: float = CLIP) -> Array:
    """(values − mean) / std of [B, d] values, clipped to ±clip; untouched while there are no statistics."""
    xp = values.__array_namespace__()
    scaled = (values - stats.mean[..., None, :]) / stats.std[..., None, :]
    return xp.where(stats.count[..., None, None] > 0, xp.clip(scaled, -clip, clip), values)


def denormalise(stats: Statistics, values: Array) -> Array:
    """Back to raw units: mean + std · values, for [B, d] values."""
    return values * stats.std[..., None, :] + stats.mean[..., None, :]
