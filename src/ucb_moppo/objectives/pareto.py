"""Dominance and the indicators of a set of objective vectors. Every objective is maximised.

A point is the value of a policy, V [m]; a set of them is [n, m]. Rows with NaN or inf are failed evaluations,
not values: every function here ignores them. The indicators are those of the paper's Results Analysis
(hypervolume, expected utility, sparsity), and two that need a known front.
"""

from __future__ import annotations

import moocore
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives.volume import Volume, estimate_volume, exact_volume, is_cheap
from ucb_moppo.objectives.weights import check_weights

FloatArray = NDArray[np.float64]


def finite_points(points: ArrayLike) -> FloatArray:
    """The rows of ``points`` [n, m] without NaN or inf, [f, m]."""
    rows = _as_points(points)
    return rows[np.isfinite(rows).all(axis=1)]


def nondominated(points: ArrayLike) -> NDArray[np.bool_]:
    """Which of ``points`` [n, m] are on the Pareto front, [n].

    Of equal points only the first is, so that the front counts distinct trade-offs. Non-finite rows never
    are: nothing dominates a NaN, so they have to be taken out beforehand.
    """
    rows = _as_points(points)
    mask: NDArray[np.bool_] = np.asarray(np.isfinite(rows).all(axis=1))
    if mask.any():
        mask[mask] = moocore.is_nondominated(rows[mask], maximise=True, keep_weakly=False)
    return mask


def pareto_front(points: ArrayLike) -> FloatArray:
    """The distinct nondominated rows of ``points`` [n, m], in their order, [f, m]."""
    return _as_points(points)[nondominated(points)]


def cardinality(points: ArrayLike) -> int:
    """Size of the Pareto front of ``points`` [n, m]."""
    return int(nondominated(points).sum())


def hypervolume(points: ArrayLike, reference_point: ArrayLike) -> float:
    """Volume dominated by ``points`` [n, m] above ``reference_point`` [m]; 0 for no points.

    A point that is not above the reference in every objective encloses no volume and adds nothing. Of many points
    in six or more objectives it is an estimate: see `measure_volume`.
    """
    return measure_volume(points, reference_point).value


def measure_volume(points: ArrayLike, reference_point: ArrayLike) -> Volume:
    """`hypervolume` with its standard error, which is 0 where the volume is exact."""
    rows = finite_points(points)
    if len(rows) == 0:
        return Volume(0.0)
    reference = np.asarray(reference_point, dtype=np.float64)
    if reference.shape != rows.shape[1:] or not np.isfinite(reference).all():
        raise ConfigError(
            f"reference point {reference.tolist()} does not fit points of {rows.shape[1]} objectives: "
            "give one finite number per objective"
        )
    above = rows[(rows > reference).all(axis=1)]
    if len(above) == 0:
        return Volume(0.0)
    if is_cheap(len(above), rows.shape[1]):
        return exact_volume(above, reference)
    front = pareto_front(above)
    return (exact_volume if is_cheap(*front.shape) else estimate_volume)(front, reference)


def expected_utility(points: ArrayLike, weights: ArrayLike) -> float:
    """Mean over ``weights`` [n_w, m] of the best utility max_p w·V_p that ``points`` [n, m] offer.

    NaN for no points: there is no utility to expect, and 0 would beat a set of negative ones.
    """
    rows = finite_points(points)
    return float(np.mean(_best_utilities(rows, weights))) if len(rows) else float("nan")


def sparsity(points: ArrayLike) -> float:
    """Mean squared gap along the front of ``points`` [n, m]: Σ_j Σ_i (gap i of objective j)² / (n − 1).

    The values of each objective are sorted on their own. 0 for a front of fewer than two points. For
    comparison with older papers only: it grows with the extent of a front and so rewards a short one.
    """
    front = pareto_front(points)
    if len(front) < 2:
        return 0.0
    gaps = np.diff(np.sort(front, axis=0), axis=0)
    return float(np.sum(gaps**2) / (len(front) - 1))


def inverted_generational_distance(points: ArrayLike, true_front: ArrayLike) -> float:
    """Mean Euclidean distance from each point of ``true_front`` [t, m] to the nearest of ``points`` [n, m].

    NaN for no points, which are at no distance.
    """
    rows, truth = finite_points(points), _check_true_front(true_front)
    if len(rows) == 0:
        return float("nan")
    _check_same_objectives(rows, truth)
    return float(moocore.igd(rows, ref=truth, maximise=True))


def maximum_utility_loss(points: ArrayLike, true_front: ArrayLike, weights: ArrayLike) -> float:
    """What a user loses at worst: max over ``weights`` [n_w, m] of best true utility − best utility found.

    ``points`` [n, m], ``true_front`` [t, m]. NaN for no points. Negative only if the points beat the true
    front for every weight, which then was not the true one.
    """
    rows, truth = finite_points(points), _check_true_front(true_front)
    if len(rows) == 0:
        return float("nan")
    _check_same_objectives(rows, truth)
    return float(np.max(_best_utilities(truth, weights) - _best_utilities(rows, weights)))


def _best_utilities(rows: FloatArray, weights: ArrayLike) -> FloatArray:
    """max_p w·V_p for every weight: rows [n, m], n >= 1, weights [n_w, m] -> [n_w]."""
    checked = np.atleast_2d(check_weights(weights, rows.shape[1]))
    if checked.ndim != 2 or len(checked) == 0:
        raise ConfigError(f"weights have shape {checked.shape}: give at least one, as [n, {rows.shape[1]}]")
    return np.max(checked @ rows.T, axis=1)


def _as_points(points: ArrayLike) -> FloatArray:
    """``points`` as float64 [n, m]. An empty list has no m to tell and becomes [0, 0]."""
    rows = np.asarray(points, dtype=np.float64)
    if rows.ndim == 1 and rows.size == 0:
        return rows.reshape(0, 0)
    if rows.ndim != 2:
        raise ConfigError(f"points have shape {rows.shape}: give [n, m], one row per objective vector")
    return rows


def _check_true_front(true_front: ArrayLike) -> FloatArray:
    truth = finite_points(true_front)
    if len(truth) == 0:
        raise ConfigError(
            f"true front of shape {np.shape(true_front)} has no finite point: give the known front, [t, m]"
        )
    return truth


def _check_same_objectives(rows: FloatArray, truth: FloatArray) -> None:
    if rows.shape[1] != truth.shape[1]:
        raise ConfigError(
            f"points have {rows.shape[1]} objectives and the true front {truth.shape[1]}: "
            "compare fronts of the same problem"
        )
