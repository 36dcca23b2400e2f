"""Selection: pick weights of a policy's candidates by their scores. Assumes maximisation.

What a score means and how values were predicted is not known here. Worlds [B, M, m] are B ways in which the values
of M candidates may come out; a candidate is worth the mean of its scores over them, and β times their spread. Where
scores do not tell candidates apart, picks are spread over the sub-space: a tie must not pile them up at one end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
# The share of environments that go where the front grows. The others keep the policy good everywhere: half of them
# was too many, with a prediction that was wrong at first.
FOCUS = 0.25
# A pick that adds less than this share of what the first one added is not worth environments of its own.
SMALLEST_GAIN = 0.01


class Select(Protocol):
    """Picks ``count`` of M candidates; see `select_sequential`."""

    def __call__(
        self, score: Score, front: FloatArray, worlds: FloatArray, beta: float, candidates: FloatArray, count: int
    ) -> IndexArray:
        """Indices [count] into ``candidates`` [M, m_w], whose values may be any of ``worlds`` [B, M, m]."""
        ...


@dataclass(frozen=True, eq=False)
class Acquisition:
    """The upper confidence bound of the score: over worlds, its mean and β times its standard deviation."""

    score: Score
    front: FloatArray
    worlds: FloatArray
    beta: float

    def __call__(self, chosen: Sequence[int], remaining: IndexArray) -> FloatArray:
        """Values [n] of the ``remaining`` candidates once the ``chosen`` have joined the front of every world."""
        fronts = self._fronts(chosen)
        scores = np.array([self.score(f, world[remaining]) for f, world in zip(fronts, self.worlds, strict=True)])
        with np.errstate(invalid="ignore"):  # a candidate without a value has none in any world
            # What is uncertain is what a candidate adds, not what those chosen before it come to.
            gains = scores - self.before(chosen)[:, None]
            bound = np.mean(scores, axis=0) + self.beta * np.std(gains, axis=0)
        return np.where(np.isfinite(bound), bound, -np.inf)

    def before(self, chosen: Sequence[int]) -> FloatArray:
        """Value [B] of the front of every world with those that are ``chosen``, and nothing else."""
        return np.array([self.score(front, front[:1])[0] if len(front) else 0.0 for front in self._fronts(chosen)])

    def worth(self, chosen: Sequence[int]) -> float:
        """The mean of `before` over worlds."""
        return float(self.before(chosen).mean())

    def _fronts(self, chosen: Sequence[int]) -> list[FloatArray]:
        return [np.concatenate([self.front, world[list(chosen)]]) for world in self.worlds]


def select_sequential(
    score: Score, front: FloatArray, worlds: FloatArray, beta: float, candidates: FloatArray, count: int
) -> IndexArray:
    """One at a time without replacement; each choice joins the front before the next is made.

    ``front`` [f, m], ``worlds`` [B, M, m] and ``candidates`` [M, m_w] give indices [count] in the order of
    choice (the paper, section "UCB acquisition function maximisation"). Once all remaining candidates score
    the same, the rest is spread evenly; candidates that are not finite come last.
    """
    return _pick(Acquisition(score, front, worlds, beta), candidates, count)


def select_top_n(
    score: Score, front: FloatArray, worlds: FloatArray, beta: float, candidates: FloatArray, count: int
) -> IndexArray:
    """Score every candidate once against ``front`` and take the best (the paper, Algorithm 3).

    Arguments, result and the treatment of ties are those of `select_sequential`.
    """
    scores = Acquisition(score, front, worlds, beta)([], np.arange(len(candidates)))
    return _pick(lambda chosen, remaining: scores[remaining], candidates, count)


def select_focused(
    score: Score, front: FloatArray, worlds: FloatArray, beta: float, candidates: FloatArray, count: int
) -> IndexArray:
    """A quarter of the picks where the front grows, over and over again; the others spread evenly over all weights.

    As in `select_sequential` each choice joins the front before the next is made, until one adds less than a
    hundredth of what the first one added. Those that do are picked in turn; without any, all picks are spread.
    """
    acquisition, places = Acquisition(score, front, worlds, beta), math.ceil(FOCUS * count)
    growing: list[int] = []
    remaining, smallest = np.arange(len(candidates)), 0.0
    while len(growing) < places and len(remaining):
        gains = acquisition(growing, remaining) - acquisition.worth(growing)
        best = int(np.argmax(gains))
        if not gains[best] > smallest:
            break
        smallest = smallest or SMALLEST_GAIN * float(gains[best])
        growing.append(int(remaining[best]))
        remaining = np.delete(remaining, best)[np.delete(gains, best) > smallest]
    focused = [growing[i % len(growing)] for i in range(places)] if growing else []
    spread = spread_evenly(candidates, min(count - len(focused), len(candidates)), [])
    repeated = [spread[i % len(spread)] for i in range(count - len(focused))]
    return np.array(focused + repeated, dtype=np.intp)


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
