"""Acquisition: how good would the front be with one more objective vector? Assumes maximisation throughout.

Worlds are formed from predictions; a score values a front with each candidate joined to it. Where predictions come
from, and which candidates are then taken, is not known here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import moocore
import numpy as np
from numpy.typing import NDArray

from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives.pareto import hypervolume, pareto_front
from ucb_moppo.objectives.utility import Utility
from ucb_moppo.objectives.weights import even_weights

FloatArray = NDArray[np.float64]


def ucb_beta(stage: int) -> float:
    """β_t = sqrt(log(2t) / t), t = ``stage`` since the warm-up, from 1.

    Explores the uncertain early, trusts the mean later (the paper, "UCB acquisition function maximisation").
    """
    if stage < 1:
        raise ConfigError(f"stage is {stage}: stages are counted from 1 at the end of the warm-up")
    return math.sqrt(math.log(2 * stage) / stage)


def zero_beta(stage: int) -> float:
    """β = 0 at every ``stage``: Mean-MOPPO trusts the mean and ignores the uncertainty."""
    return 0.0


def optimistic_worlds(values: FloatArray, changes: FloatArray, beta: float, of: str) -> tuple[FloatArray, float]:
    """Ways [B, n, m] in which ``values`` [n, m] may come out after ``changes`` [B, n, m], and the β that is left.

    ``of`` says what the upper confidence bound is taken of. "objectives": V + f + β·σ of each objective is the one
    world there is (the paper). "score": every member is a world, and the bound is that of the score over them.
    """
    if of == "score":
        return values + changes, beta
    optimistic = values + changes.mean(axis=0) + beta * changes.std(axis=0)
    return optimistic[None], 0.0


class Score(Protocol):
    """Value of a front with each candidate joined to it, one at a time; higher is better.

    What ``--acquisition`` names is called with the reference point (m numbers) and returns one. Where the run's
    utility is not linear, a score that has ``for_utility`` is asked for the one of that utility.
    """

    def __call__(self, front: FloatArray, candidates: FloatArray) -> FloatArray:
        """Score ``candidates`` [n, m] against ``front`` [f, m] (need not be Pareto-optimal) -> [n].

        A candidate that is not finite scores −inf.
        """
        ...


@dataclass(frozen=True)
class HypervolumeScore:
    """HV(Pareto(L ∪ {v})) above ``reference_point`` (m numbers): the paper's acquisition (Algorithm 3)."""

    reference_point: tuple[float, ...]

    def __call__(self, front: FloatArray, candidates: FloatArray) -> FloatArray:
        """Score ``candidates`` [n, m] against ``front`` [f, m] -> [n]."""
        reference = np.asarray(self.reference_point, float)
        front, candidates = pareto_front(np.asarray(front, float)), np.asarray(candidates, float)
        front = front[(front > reference).all(axis=1)]
        scores = np.full(len(candidates), -np.inf)
        finite = np.isfinite(candidates).all(axis=1)
        base = hypervolume(front, reference)
        scores[finite] = base + hypervolume_gains(front, candidates[finite], reference)
        return scores


@dataclass(frozen=True, eq=False)
class ExpectedUtilityScore:
    """Mean over ``weights`` [n_w, m] of max_p u_w(V_p) with the candidate among the p; u_w(V) = w·V if not told."""

    weights: FloatArray
    utility: Utility | None = None

    def for_utility(self, utility: Utility) -> ExpectedUtilityScore:
        """The same score of another utility."""
        return ExpectedUtilityScore(self.weights, utility)

    def utilities(self, points: FloatArray) -> FloatArray:
        """What points [n, m] are worth for every weight: [n, n_w]."""
        if self.utility is None:
            return np.asarray(points @ self.weights.T)
        return np.asarray(self.utility(points[:, None], self.weights[None]))

    def __call__(self, front: FloatArray, candidates: FloatArray) -> FloatArray:
        """Score ``candidates`` [n, m] against ``front`` [f, m] -> [n]."""
        front, candidates = np.asarray(front, float), np.asarray(candidates, float)
        front = front[np.isfinite(front).all(axis=1)]
        scores = np.full(len(candidates), -np.inf)
        finite = np.isfinite(candidates).all(axis=1)
        best = self.utilities(front).max(axis=0, initial=-np.inf)
        scores[finite] = np.maximum(self.utilities(candidates[finite]), best).mean(axis=1)
        return scores


def expected_utility_score(reference_point: tuple[float, ...]) -> ExpectedUtilityScore:
    """Expected utility over evenly spaced weights of as many objectives as ``reference_point`` has numbers."""
    return ExpectedUtilityScore(even_weights(len(reference_point)))


def hypervolume_gains(front: FloatArray, candidates: FloatArray, reference: FloatArray) -> FloatArray:
    """What each of ``candidates`` [n, m] alone adds to the hypervolume of a Pareto ``front`` [f, m] -> [n].

    ``front`` must lie strictly above ``reference`` [m]. Candidates that cannot add anything (dominated by or
    equal to a member, or not above the reference point) get exactly 0, so that their ties are exact.
    """
    gains = np.zeros(len(candidates))
    useful = np.flatnonzero(~_covered(front, candidates) & (candidates > reference).all(axis=1))
    if len(useful) == 0:
        return gains
    # A candidate only sees what lies inside its box, and all boxes lie below one corner. Candidates of a
    # sub-space are close together, so that cut down to the corner few points of the front remain.
    front = pareto_front(np.minimum(front, candidates[useful].max(axis=0)))
    if len(reference) == 2:
        gains[useful] = _gains_in_two_dimensions(front, candidates[useful], reference)
    else:
        gains[useful] = [_gain(front, candidates[i], reference) for i in useful]
    return gains


def _covered(front: FloatArray, candidates: FloatArray) -> NDArray[np.bool_]:
    """Which of ``candidates`` [n, m] are dominated by or equal to a member of ``front`` [f, m] -> [n]."""
    # One [n, f] comparison per objective: reducing over an axis of 2 to 4 costs several times as much.
    by_member = np.ones((len(candidates), len(front)), dtype=bool)
    for members, values in zip(front.T, candidates.T, strict=True):
        by_member &= members >= values[:, None]
    return np.any(by_member, axis=1)


def _gain(front: FloatArray, candidate: FloatArray, reference: FloatArray) -> float:
    """The box between ``reference`` and ``candidate`` [m], less the part of it that ``front`` [f, m] covers.

    Cut down to the box, the front keeps few points that matter, so this is cheaper than a joint hypervolume.
    All of them are finite and above the reference, so moocore can be called without the checks of
    `hypervolume`, which would take longer than the computation.
    """
    box = float(np.prod(candidate - reference))
    if len(front) == 0:
        return box
    covered = float(moocore.hypervolume(np.minimum(front, candidate), ref=reference, maximise=True))
    return max(box - covered, 0.0)


def _gains_in_two_dimensions(front: FloatArray, candidates: FloatArray, reference: FloatArray) -> FloatArray:
    """Gains [n] of ``candidates`` [n, 2]: the area of each above the staircase of ``front`` [f, 2].

    With the front sorted by its first objective x, the staircase over (x_{i−1}, x_i] is as high as point i,
    and beyond the last point as high as the reference; every term is an area ≥ 0, so nothing cancels.
    """
    stairs = front[np.argsort(front[:, 0])]
    left = np.concatenate([reference[:1], stairs[:, 0]])
    right = np.concatenate([stairs[:, 0], [np.inf]])
    height = np.concatenate([stairs[:, 1], reference[1:]])
    width = np.maximum(np.minimum(candidates[:, :1], right) - left, 0.0)
    above = np.maximum(candidates[:, 1:] - height, 0.0)
    areas: FloatArray = (width * above).sum(axis=1)
    return areas
