"""Two-layer decomposition of the weight simplex: lattices, pivots, sub-spaces and their candidates.

Implements "Two-layer decomposition of MORL problem into scalar RL sub-problems" of the paper. A weight is a
scalarisation vector w [m] with w_i >= 0 and sum 1. Everything here is deterministic: no seed, and ties always
go to the lowest index, so that two machines decompose a problem alike.

Axes: K policies (one pivot each), M candidates and P probes per sub-space, m objectives.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucb_moppo.errors import ConfigError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

SIMPLEX_TOLERANCE = 1e-6  # loose enough for weights that went through float32
TIE_TOLERANCE = 1e-9  # distances this close are equal: the difference is rounding, not geometry
MAX_LATTICE_POINTS = 2_000_000
# A farthest-point subset is only as even as the lattice it picks from: give it several points per pick.
LATTICE_POINTS_PER_CANDIDATE = 8
MAX_DISTANCES_AT_ONCE = 4_000_000  # differences: bounds the memory of a distance matrix to 32 MB


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The simplex split into K sub-spaces W_k, each with its pivot, candidates and probes."""

    pivots: FloatArray
    """[K, m]: the weight each policy warms up on; W_k is the set of weights nearest to pivot k."""
    candidates: FloatArray
    """[K, M, m]: the weights a stage may select for training."""
    probes: FloatArray
    """[K, P, m]: the fixed weights each policy is evaluated on at every stage boundary."""

    @property
    def num_policies(self) -> int:
        return self.pivots.shape[0]

    @property
    def num_objectives(self) -> int:
        return self.pivots.shape[1]


def make_decomposition(
    num_objectives: int,
    num_policies: int,
    num_candidates: int,
    num_probes: int,
    pivots: ArrayLike | None = None,
) -> Decomposition:
    """Both layers at once. ``pivots`` [K, m] replaces the evenly spread ones (sorted by w_1 for m = 2)."""
    if pivots is None:
        layer_one = make_pivots(num_policies, num_objectives)
    else:
        layer_one = _check_pivots(pivots, num_policies, num_objectives)
    return Decomposition(
        pivots=layer_one,
        candidates=make_subspace_weights(layer_one, num_candidates),
        probes=make_subspace_weights(layer_one, num_probes),
    )


def default_num_policies(num_objectives: int) -> int:
    """K of the paper's Experiment Setup: 10 for m = 2, 36 for m = 3; the latter's rule for any other m.

    The rule: as many as the coarsest lattice with at least 30 interior points has.
    """
    _check_count("num_objectives", num_objectives, least=2)
    if num_objectives == 2:
        return 10
    return lattice_size(num_objectives, _coarsest_divisions(num_objectives, at_least=30))


def default_num_candidates(num_objectives: int) -> int:
    """M of the paper's Experiment Setup: 100 for m = 2, 117 for m = 3 (and above, for want of a value)."""
    _check_count("num_objectives", num_objectives, least=2)
    return 100 if num_objectives == 2 else 117


# --- weights ---------------------------------------------------------------------------------------


def check_weights(weights: ArrayLike, num_objectives: int) -> FloatArray:
    """``weights`` [..., m] as float64 on the simplex, or a ConfigError that names the offending one.

    Entries below 0 and sums other than 1 are tolerated to 1e-6, and repaired.
    """
    try:
        checked = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"weights {weights!r} are not numbers: give lists of {num_objectives}") from error
    if checked.ndim == 0 or checked.shape[-1] != num_objectives:
        raise ConfigError(
            f"weights have shape {checked.shape}, expected [..., {num_objectives}]: "
            f"give one entry per objective ({num_objectives})"
        )
    _check_rows(checked, ~np.isfinite(checked).all(axis=-1), "is not finite: replace NaN and inf by numbers")
    negative = (checked < -SIMPLEX_TOLERANCE).any(axis=-1)
    _check_rows(checked, negative, "has a negative entry: every entry must be >= 0")
    off_simplex = np.abs(checked.sum(axis=-1) - 1.0) > SIMPLEX_TOLERANCE
    _check_rows(checked, off_simplex, "does not sum to 1: divide it by its sum")
    clipped = np.maximum(checked, 0.0)
    return clipped / clipped.sum(axis=-1, keepdims=True)


def _check_rows(weights: FloatArray, bad: ArrayLike, complaint: str) -> None:
    """Raise for the first weight [m] of ``weights`` [..., m] that ``bad`` [...] marks."""
    if np.any(bad):
        offender = weights.reshape(-1, weights.shape[-1])[np.argmax(np.ravel(bad))]
        raise ConfigError(f"weight {offender.tolist()} {complaint}")


def _check_count(name: str, value: int, least: int) -> None:
    if not isinstance(value, int | np.integer) or value < least:
        raise ConfigError(f"{name} is {value}: give a whole number of at least {least}")


def reweigh(weights: FloatArray, factors: FloatArray) -> FloatArray:
    """Weights […, m] with every objective's multiplied by its factor [m], summing to 1 again.

    A weight for objectives that are divided by scales is, times 1/scales, the same preference for the objectives
    as they are. Equal factors leave weights as they are, to the bit.
    """
    if (factors == factors[0]).all():
        return weights
    changed = weights * factors
    return np.asarray(changed / changed.sum(axis=-1, keepdims=True))


def subspace_width(pivots: FloatArray) -> float:
    """The mean distance from a pivot [K, m] to its nearest neighbour; half the simplex for a single one."""
    others = np.unique(pivots, axis=0)
    if len(others) == 1:
        return math.sqrt(0.5)
    distances = np.linalg.norm(others[:, None] - others[None], axis=-1)
    np.fill_diagonal(distances, np.inf)
    return float(distances.min(axis=1).mean())


# --- lattices --------------------------------------------------------------------------------------


def simplex_lattice(num_objectives: int, divisions: int) -> FloatArray:
    """All weights [n, m] whose entries are multiples of 1/divisions, ends included, in lexicographic order.

    For m = 2 that is ascending in w_1.
    """
    _check_count("num_objectives", num_objectives, least=2)
    _check_count("divisions", divisions, least=1)
    return _compositions(num_objectives, divisions) / divisions


def even_weights(num_objectives: int, at_least: int = 100) -> FloatArray:
    """Evenly spaced weights [n, m] of the whole simplex, ends included, to measure expected utility on.

    The coarsest lattice with n >= ``at_least``; for m = 2 exactly ``at_least`` points, but never fewer than
    the two ends.
    """
    _check_count("num_objectives", num_objectives, least=2)
    _check_count("at_least", at_least, least=1)
    return simplex_lattice(num_objectives, even_divisions(num_objectives, at_least))


def even_divisions(num_objectives: int, at_least: int = 100) -> int:
    """Divisions of the lattice that `even_weights` gives."""
    return max(1, _coarsest_divisions(num_objectives, at_least))


def lattice_size(num_objectives: int, divisions: int) -> int:
    """How many weights `simplex_lattice` gives."""
    return math.comb(divisions + num_objectives - 1, num_objectives - 1)


def _coarsest_divisions(num_objectives: int, at_least: int) -> int:
    """The fewest divisions whose lattice has ``at_least`` points (it has more points than divisions)."""
    return bisect.bisect_left(range(at_least), at_least, key=lambda d: lattice_size(num_objectives, d))


def _compositions(parts: int, total: int) -> IntArray:
    """All rows [n, parts] of whole numbers >= 0 that sum to ``total``, in lexicographic order."""
    rows = np.zeros((1, 0), dtype=np.intp)
    left = np.array([total], dtype=np.intp)
    for _ in range(parts - 1):
        # A row with r left to give away continues in r + 1 ways: 0, 1, ..., r.
        ways = left + 1
        parent = np.repeat(np.arange(len(left)), ways)
        part = np.arange(len(parent)) - np.repeat(np.cumsum(ways) - ways, ways)
        rows = np.column_stack([rows[parent], part])
        left = left[parent] - part
    return np.column_stack([rows, left])


# --- layer one: pivots -----------------------------------------------------------------------------


def make_pivots(num_policies: int, num_objectives: int) -> FloatArray:
    """K evenly spread pivots [K, m], in lexicographic order.

    m = 2: the middles of K equal intervals of w_1. Otherwise the interior points of the coarsest lattice with
    at least K of them, thinned to K by farthest-point choice: for m = 3, K = 36 the interior of the 0.1
    lattice.
    """
    _check_count("num_policies (K)", num_policies, least=1)
    _check_count("num_objectives", num_objectives, least=2)
    if num_objectives == 2:
        middles = (np.arange(num_policies) + 0.5) / num_policies
        return np.column_stack([middles, 1.0 - middles])
    # Taking one division from every objective turns an interior point into any point of a smaller lattice.
    smaller = _coarsest_divisions(num_objectives, num_policies)
    interior = (_compositions(num_objectives, smaller) + 1) / (smaller + num_objectives)
    return interior[np.sort(farthest_points(interior, num_policies))]


def _check_pivots(pivots: ArrayLike, num_policies: int, num_objectives: int) -> FloatArray:
    """Explicit pivots [K, m] as weights; sorted by w_1 for m = 2, where policies are ordered."""
    _check_count("num_objectives", num_objectives, least=2)
    checked = check_weights(pivots, num_objectives)
    if checked.ndim != 2 or len(checked) != num_policies:
        raise ConfigError(
            f"pivots have shape {checked.shape} for num_policies = {num_policies}: "
            f"give [{num_policies}, {num_objectives}], or set num_policies to the number of pivots"
        )
    return checked[np.argsort(checked[:, 0], kind="stable")] if num_objectives == 2 else checked


def _check_distinct(pivots: FloatArray) -> None:
    """Two pivots in one place would leave one of the two policies without a sub-space."""
    first, second = np.nonzero(np.triu(_distances(pivots, pivots) <= TIE_TOLERANCE, k=1))
    if len(first):
        raise ConfigError(
            f"pivots {first[0]} and {second[0]} are both {pivots[first[0]].tolist()}: "
            "give every policy a pivot of its own"
        )


# --- layer two: sub-spaces -------------------------------------------------------------------------


def nearest_pivot(weights: FloatArray, pivots: FloatArray) -> IntArray:
    """The sub-space of each weight: [n, m], [K, m] -> [n]. Ties (to 1e-9) go to the lowest index."""
    owners = np.empty(len(weights), dtype=np.intp)
    rows = max(1, MAX_DISTANCES_AT_ONCE // pivots.size)
    for start in range(0, len(weights), rows):
        distances = _distances(weights[start : start + rows], pivots)
        as_near = distances <= distances.min(axis=1, keepdims=True) + TIE_TOLERANCE
        owners[start : start + rows] = np.argmax(as_near, axis=1)
    return owners


def make_subspace_weights(pivots: FloatArray, count: int) -> FloatArray:
    """``count`` evenly spread weights of each sub-space, [K, m] -> [K, count, m]: candidates or probes.

    m = 2: evenly spaced over the interval of w_1, ascending. For the default pivots they are the lattice of
    K * count weights, both ends of the simplex included. m >= 3: the pivot, then a farthest-point subset of a
    fine lattice restricted to W_k, in order of choice, so that the first n are spread evenly too.
    A single weight is the pivot itself.
    """
    _check_count("number of weights per sub-space", count, least=1)
    _check_distinct(pivots)
    if count == 1:
        return pivots[:, None, :].copy()
    subspaces = _lattice_by_subspace(pivots, count)
    if pivots.shape[1] == 2:
        return np.stack([lattice[_even_ranks(len(lattice), count)] for lattice in subspaces])
    return np.stack(
        [_pivot_and_farthest(pivot, lattice, count) for pivot, lattice in zip(pivots, subspaces, strict=True)]
    )


def _pivot_and_farthest(pivot: FloatArray, lattice: FloatArray, count: int) -> FloatArray:
    """The pivot [m] and ``count - 1`` points of the lattice [n, m], far from it and from each other."""
    others = farthest_points(lattice, count - 1, chosen=pivot[None])
    return np.concatenate([pivot[None], lattice[others]])


def _distances(points: FloatArray, others: FloatArray) -> FloatArray:
    """Euclidean distances [n, k] between rows; numpy alone, because a deployed policy checks weights too."""
    return np.linalg.norm(points[:, None, :] - others[None, :, :], axis=-1)


def _lattice_by_subspace(pivots: FloatArray, count: int) -> list[FloatArray]:
    """A lattice with ``count`` points or more in every sub-space, divided among them: K arrays [n_k, m]."""
    num_policies, num_objectives = pivots.shape
    per_weight = 1 if num_objectives == 2 else LATTICE_POINTS_PER_CANDIDATE
    size = min(per_weight * num_policies * count, MAX_LATTICE_POINTS)
    while True:
        lattice = even_weights(num_objectives, size)
        owners = nearest_pivot(lattice, pivots)
        held = np.bincount(owners, minlength=num_policies)
        if held.min() >= count:
            by_owner = lattice[np.argsort(owners, kind="stable")]
            return np.split(by_owner, np.cumsum(held)[:-1])
        if size >= MAX_LATTICE_POINTS:
            raise _too_small(pivots, held, count)
        size = min(2 * size, MAX_LATTICE_POINTS)


def _too_small(pivots: FloatArray, held: IntArray, count: int) -> ConfigError:
    """The error for a sub-space that even the finest lattice does not fill; ``held`` [K] is what each got."""
    smallest = int(np.argmin(held))
    return ConfigError(
        f"the sub-space of pivot {smallest} {pivots[smallest].tolist()} holds {held[smallest]} of "
        f"{held.sum()} evenly spaced weights and {count} are asked for: "
        "move the neighbouring pivots away, or ask for fewer weights"
    )


# --- even subsets ----------------------------------------------------------------------------------


def farthest_points(points: FloatArray, count: int, chosen: FloatArray | None = None) -> IntArray:
    """Greedy farthest-point choice: indices [count] into ``points`` [n, m], in order of choice.

    Each pick is the point farthest from everything picked before it and from ``chosen`` [c, m]. With nothing
    chosen the first pick is the point nearest to the centroid. Ties (to 1e-9) go to the lowest index. No
    index comes twice; a point that equals one of ``chosen`` comes only after all others.
    """
    _check_available(len(points), count)
    picks: list[int] = []
    if chosen is None or len(chosen) == 0:
        if not count:
            return np.empty(0, dtype=np.intp)
        from_centroid = np.linalg.norm(points - points.mean(axis=0), axis=1)
        picks = [_first_largest(-from_centroid)]
        chosen = points[picks]
    nearest = _distances(points, chosen).min(axis=1)
    nearest[picks] = -np.inf
    while len(picks) < count:
        picks.append(_first_largest(nearest))
        nearest = np.minimum(nearest, np.linalg.norm(points - points[picks[-1]], axis=1))
        nearest[picks[-1]] = -np.inf
    return np.array(picks, dtype=np.intp)


def _first_largest(values: FloatArray) -> int:
    """Index of the largest of ``values`` [n]; of those within rounding of it, the lowest."""
    return int(np.argmax(values >= values.max() - TIE_TOLERANCE))


def spread_evenly(points: FloatArray, count: int, chosen_indices: Sequence[int] | IntArray) -> list[int]:
    """``count`` further indices into ``points`` [n, m], spread evenly and none of them in ``chosen_indices``.

    For weight selection where no candidate improves the hypervolume (the paper's "UCB acquisition function
    maximisation" leaves that case open).
    Nothing chosen and m = 2: evenly by rank of w_1, ends included. Otherwise farthest from the chosen ones.
    """
    chosen = np.asarray(chosen_indices, dtype=np.intp)
    if len(chosen) == 0 and points.shape[1] == 2:
        _check_available(len(points), count)
        by_rank = np.argsort(points[:, 0], kind="stable")
        return [int(i) for i in by_rank[_even_ranks(len(points), count)]]
    free = np.setdiff1d(np.arange(len(points)), chosen)
    return [int(i) for i in free[farthest_points(points[free], count, chosen=points[chosen])]]


def _even_ranks(available: int, count: int) -> IntArray:
    """``count`` distinct ranks of 0 .. available - 1, evenly spaced, ends included; one is the middle."""
    if count == 1:
        return np.array([available // 2], dtype=np.intp)
    # Whole-number rounding of i * (available - 1) / (count - 1): the same on every machine.
    steps = np.arange(count, dtype=np.intp)
    return (2 * steps * (available - 1) + count - 1) // max(1, 2 * (count - 1))


def _check_available(available: int, count: int) -> None:
    _check_count("number of points to choose", count, least=0)
    if count > available:
        raise ConfigError(f"{count} points to choose from {available}: ask for at most {available}")
