"""Statistics over seeds: mean ± standard deviation, and the interquartile mean with bootstrap intervals."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 2000
SEED = 0
"""Of the resampling: the same runs give the same report."""


class Estimate(NamedTuple):
    """A number over seeds. Spread and interval are NaN for a single seed, which has none."""

    mean: float
    std: float
    """Of the sample (n − 1)."""
    iqm: float
    low: float
    high: float
    num: int


def interquartile_mean(values: ArrayLike, axis: int = -1) -> NDArray:
    """Mean of the middle half. Below four values nothing is cut, and it is the mean."""
    return np.asarray(stats.trim_mean(values, 0.25, axis=axis))


def estimate(values: ArrayLike) -> Estimate:
    """Of one number per seed; runs where it is not finite do not count."""
    sample = np.asarray(values, float)
    sample = sample[np.isfinite(sample)]
    if not len(sample):
        nan = float("nan")
        return Estimate(nan, nan, nan, nan, nan, 0)
    std = float(np.std(sample, ddof=1)) if len(sample) > 1 else float("nan")
    low, high = stratified_interval([sample])
    return Estimate(float(np.mean(sample)), std, float(interquartile_mean(sample)), low, high, len(sample))


def stratified_interval(strata: Sequence[NDArray]) -> tuple[float, float]:
    """Percentile bootstrap interval of the interquartile mean of everything; each stratum resamples itself.

    A stratum is a problem and its values are the seeds', so no resample loses a problem. NaN where no stratum
    has two values.
    """
    if not any(len(stratum) > 1 for stratum in strata):
        return float("nan"), float("nan")
    fixed = np.concatenate([s for s in strata if len(s) == 1] or [np.empty(0)])
    varied = [s for s in strata if len(s) > 1]

    def pooled(*samples: NDArray, axis: int = -1) -> NDArray:
        alone = np.broadcast_to(fixed, (*samples[0].shape[:-1], len(fixed)))
        return interquartile_mean(np.concatenate([*samples, alone], axis=axis), axis)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # equal values: the interval is the value, which is right
        found = stats.bootstrap(
            varied,
            pooled,
            n_resamples=RESAMPLES,
            confidence_level=CONFIDENCE,
            method="percentile",
            rng=np.random.default_rng(SEED),
        )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def aggregate(strata: Sequence[NDArray]) -> Estimate:
    """Interquartile mean over problems and seeds of scores that problems share, with a stratified interval."""
    everything = np.concatenate(list(strata))
    low, high = stratified_interval(strata)
    std = float(np.std(everything, ddof=1)) if len(everything) > 1 else float("nan")
    iqm = float(interquartile_mean(everything))
    return Estimate(float(np.mean(everything)), std, iqm, low, high, len(everything))


class Band(NamedTuple):
    """A curve over seeds: steps [n], mean [n], standard deviation [n] (0 for one seed)."""

    steps: NDArray
    mean: NDArray
    std: NDArray


def make_band(curves: Sequence[tuple[NDArray, NDArray]]) -> Band:
    """Mean ± standard deviation of (steps, values) curves, up to where the shortest of them ends."""
    end = min(steps[-1] for steps, _ in curves)
    grid = np.unique(np.concatenate([steps for steps, _ in curves]))
    grid = grid[grid <= end]
    values = np.stack([np.interp(grid, steps, curve) for steps, curve in curves])
    spread = np.std(values, axis=0, ddof=1) if len(values) > 1 else np.zeros(len(grid))
    return Band(grid, values.mean(axis=0), spread)


class Probability(NamedTuple):
    """With its bootstrap interval, NaN where there is one seed of each."""

    value: float
    low: float
    high: float


def probability_of_improvement(strata: Sequence[tuple[NDArray, NDArray]]) -> Probability:
    """That a run of the first method beats one of the second, on a problem drawn at random.

    A stratum is a problem: the values [seeds] of both methods. Its probability is the share of pairs of seeds that
    the first method wins, a tie counting half (Mann and Whitney's U). The interval resamples the seeds of each
    method on each problem by themselves.
    """
    value = float(np.mean([win_share(ours[None], theirs[None])[0] for ours, theirs in strata]))
    if all(len(ours) == len(theirs) == 1 for ours, theirs in strata):
        return Probability(value, float("nan"), float("nan"))
    rng = np.random.default_rng(SEED)
    shares = [win_share(resample(ours, rng), resample(theirs, rng)) for ours, theirs in strata]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.mean(shares, axis=0), [tail, 1 - tail])
    return Probability(value, float(low), float(high))


def resample(values: NDArray, rng: np.random.Generator) -> NDArray:
    """[RESAMPLES, n] samples of n values with replacement."""
    return values[rng.integers(len(values), size=(RESAMPLES, len(values)))]


def win_share(ours: NDArray, theirs: NDArray) -> NDArray:
    """[R] share of all pairs of ours [R, n] and theirs [R, k] in which ours is larger, ties counting half."""
    difference = ours[:, :, None] - theirs[:, None, :]
    return np.mean((np.sign(difference) + 1) / 2, axis=(1, 2))


def first_reached(costs: NDArray, values: NDArray, target: float) -> float:
    """The cost [S] at the first evaluation whose value [S] is at least the target; infinity if none is.

    Nothing is interpolated: between two evaluations nobody has looked.
    """
    reached = np.flatnonzero(values >= target)
    return float(costs[reached[0]]) if len(reached) else float("inf")
