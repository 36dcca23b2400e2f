"""Selection: pick N of a policy's M candidate weights by their scores. Assumes maximisation.

What a score means and how the optimistic values were predicted is not known here. Where scores do not tell
candidates apart, picks are spread over the sub-space: a tie must not pile them up at one end of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives.weights import farthest_points, spread_evenly
from ucb_moppo.search.acquisition import Score

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

# Scores closer than this, relative to the largest, differ by rounding only.
TIE_TOLERANCE = 1e-12


class Select(Protocol):
    """Picks ``count`` of M candidates; see `select_sequential`."""

    def __call__(
        self, score: Score, front: FloatArray, optimistic: FloatArray, candidates: FloatArray, count: int
    ) -> IndexArray:
        """Indices [count] into ``candidates`` [M, m_w], whose optimistic objective vectors are [M, m]."""
        ...


def select_sequential(
    score: Score, front: FloatArray, optimistic: FloatArray, candidates: FloatArray, count: int
) -> IndexArray:
    """One at a time without replacement; each choice joins the front before the next is made.

    ``front`` [f, m], ``optimistic`` [M, m] and ``candidates`` [M, m_w] give indices [count] in the order of
    choice (the paper, section "UCB acquisition function maximisation"). Once all remaining candidates score
    the same, the rest is spread evenly; candidates that are not finite come last.
    """

    def score_remaining(chosen: list[int], remaining: IndexArray) -> FloatArray:
        return score(np.concatenate([front, optimistic[chosen]]), optimistic[remaining])

    return _pick(score_remaining, candidates, count)


def select_top_n(
    score: Score, front: FloatArray, optimistic: FloatArray, candidates: FloatArray, count: int
) -> IndexArray:
    """Score every candidate once against ``front`` and take the best (the paper, Algorithm 3).

    Arguments, result and the treatment of ties are those of `select_sequential`.
    """
    scores = score(front, optimistic)
    return _pick(lambda chosen, remaining: scores[remaining], candidates, count)


def _pick(
    score_remaining: Callable[[list[int], IndexArray], FloatArray], candidates: FloatArray, count: int
) -> IndexArray:
    """Indices [count] into ``candidates`` [M, m_w], best first by ``score_remaining(chosen, remaining)``."""
    if count > len(candidates):
        raise ConfigError(
            f"{count} weights are to be selected from {len(candidates)} candidates: "
            "lower num_active or raise num_candidates"
        )
    chosen: list[int] = []
    while len(chosen) < count:
        remaining = np.setdiff1d(np.arange(len(candidates)), chosen)
        scores = score_remaining(chosen, remaining)
        finite = np.isfinite(scores)
        if finite.any():
            remaining, scores = remaining[finite], scores[finite]
        tied = remaining[_best(scores)] if finite.any() else remaining
        if len(tied) == len(remaining):
            chosen += _spread(candidates, chosen, tied, min(count - len(chosen), len(tied)))
        else:
            chosen.append(_farthest(candidates, chosen, tied))
    return np.array(chosen, dtype=np.intp)


def _best(scores: FloatArray) -> NDArray[np.bool_]:
    """Which of the finite ``scores`` [n] equal the highest up to rounding."""
    best: NDArray[np.bool_] = scores >= scores.max() - TIE_TOLERANCE * np.abs(scores).max()
    return best


def _spread(candidates: FloatArray, chosen: list[int], pool: IndexArray, count: int) -> list[int]:
    """``count`` members of ``pool`` spread evenly over the sub-space, away from those already ``chosen``."""
    rows = [*chosen, *pool.tolist()]
    picked = spread_evenly(candidates[rows], count, list(range(len(chosen))))
    return [rows[i] for i in picked]


def _farthest(candidates: FloatArray, chosen: list[int], pool: IndexArray) -> int:
    """The member of ``pool`` farthest from its nearest ``chosen`` weight; the first if none is chosen."""
    if not chosen:
        return int(pool[0])
    return int(pool[farthest_points(candidates[pool], 1, candidates[chosen])[0]])
