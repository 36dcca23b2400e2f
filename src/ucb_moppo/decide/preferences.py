"""What answers say of a preference: a posterior over weights, in particles, and over how steadily one answers.

A person's utility is w · z, with z the returns on the scale of the front (`Outcomes.scaled`) and w on the
simplex. An answer about two policies is likelier the more they differ in utility: a logistic model (Bradley and
Terry) with a threshold for "no difference" (Rao and Kupper, JASA 62, 1967) and, rarely, a slip of the finger. How
steep it is differs from person to person, so that is learnt too: somebody who contradicts themselves is believed
less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NUM_PARTICLES = 600
NUM_MOVES = 6
"""Metropolis steps of every particle after resampling."""
STEADINESS = (20.0, 200.0)
"""Least and most of it: at 20, a tenth of what utility can span is chosen rightly in 85 of 100 answers."""
THRESHOLD = 0.01
"""Utility below which a difference is likely to be called none."""
SLIPS = 0.02
"""Share of answers that have nothing to do with the question."""
FIRST, SECOND, SAME = 0, 1, 2
SAID = ("first", "second", "same")
"""The answers, as words."""


class Answer(NamedTuple):
    """Said about two policies, each by its row."""

    first: int
    second: int
    said: str
    """first, second or same."""


@dataclass(frozen=True, eq=False)
class Belief:
    """P particles: what the person may want, how steadily they may answer, and how credible that is."""

    weights: NDArray
    """[P, m] on the simplex."""
    steadiness: NDArray
    """[P]"""
    shares: NDArray
    """[P] their probabilities, which sum to 1."""

    @property
    def mean(self) -> NDArray:
        """[m] the expected weight."""
        return np.asarray(self.shares @ self.weights)


def answer_chances(gaps: NDArray, steadiness: NDArray) -> NDArray:
    """[3, ...] chances of first, second and same where the first has ``gaps`` [...] more utility."""
    first = _logistic(steadiness * (gaps - THRESHOLD))
    second = _logistic(steadiness * (-gaps - THRESHOLD))
    chances = np.stack([first, second, 1 - first - second])
    return np.asarray((1 - SLIPS) * chances + SLIPS / len(SAID))


def _logistic(x: NDArray) -> NDArray:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * x))


def believe(differences: NDArray, said: Sequence[int], num_objectives: int, seed: int = 0) -> Belief:
    """The posterior after q answers, ``said`` about policies whose scaled returns differ by ``differences`` [q, m].

    A pure function of the answers: to take one back is to leave it out. Particles are resampled when few of them
    are credible any more, and moved about, so that they do not run out.
    """
    rng = np.random.default_rng(seed)
    low, high = np.log(STEADINESS)
    belief = Belief(
        rng.dirichlet(np.ones(num_objectives), NUM_PARTICLES),
        np.exp(rng.uniform(low, high, NUM_PARTICLES)),
        np.full(NUM_PARTICLES, 1 / NUM_PARTICLES),
    )
    for count in range(1, len(said) + 1):
        belief = update_belief(belief, differences[count - 1], said[count - 1])
        if 1 / (belief.shares**2).sum() < NUM_PARTICLES / 2:
            belief = _renew(belief, differences[:count], said[:count], rng)
    return belief


def update_belief(belief: Belief, difference: NDArray, said: int) -> Belief:
    """Bayes' rule for one answer about policies that differ by ``difference`` [m]."""
    shares = belief.shares * answer_chances(belief.weights @ difference, belief.steadiness)[said]
    return Belief(belief.weights, belief.steadiness, shares / shares.sum())


def log_likelihood(weights: NDArray, steadiness: NDArray, differences: NDArray, said: Sequence[int]) -> NDArray:
    """[P] of all answers so far."""
    chances = answer_chances(weights @ differences.T, steadiness[:, None])
    return np.asarray(np.log(chances[said, :, np.arange(len(said))]).sum(axis=0))


def _renew(belief: Belief, differences: NDArray, said: Sequence[int], rng: np.random.Generator) -> Belief:
    """Draw particles by their shares, then move each by Metropolis steps that leave the posterior as it is."""
    count, num_objectives = belief.weights.shape
    drawn = np.searchsorted(np.cumsum(belief.shares), (np.arange(count) + rng.random()) / count).clip(0, count - 1)
    weights, steadiness = belief.weights[drawn], belief.steadiness[drawn]
    credible = log_likelihood(weights, steadiness, differences, said)
    for _ in range(NUM_MOVES):
        # Steps along the difference of two others fit the posterior's own shape, and stay on the plane of the
        # simplex.
        along = weights[rng.permutation(count)] - weights[rng.permutation(count)]
        moved = weights + rng.uniform(0.2, 2.4 / np.sqrt(2 * num_objectives), (count, 1)) * along
        steadier = steadiness * np.exp(0.3 * rng.standard_normal(count))
        inside = (moved >= 0).all(axis=1) & (steadier >= STEADINESS[0]) & (steadier <= STEADINESS[1])
        proposed = log_likelihood(moved, steadier, differences, said)
        taken = inside & (np.log(rng.random(count)) < proposed - credible)
        weights = np.where(taken[:, None], moved, weights)
        steadiness, credible = np.where(taken, steadier, steadiness), np.where(taken, proposed, credible)
    return Belief(weights, steadiness, np.full(count, 1 / count))
