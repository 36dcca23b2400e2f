"""Which two policies to ask about next: those whose answer is expected to save most regret."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.decide.outcomes import Outcomes
from ucb_moppo.decide.preferences import Belief, answer_chances

MAX_QUESTIONS = 10
MAX_CANDIDATES = 14
"""Policies that pairs are made of: those most likely to be somebody's best."""
SETTLED = 0.002
"""Expected regret, of what the front spans in utility, that is not worth a question."""


class Question(NamedTuple):
    """Two policies, by their places among the outcomes."""

    first: int
    second: int


def expected_utilities(outcomes: Outcomes, belief: Belief, among: NDArray) -> NDArray:
    """[a] of each of ``among`` [a]."""
    return np.asarray(outcomes.scaled[among] @ belief.mean)


def expected_regret(outcomes: Outcomes, belief: Belief, among: NDArray, chosen: int) -> float:
    """What choosing one of ``among`` is expected to lose against what the person likes best of them."""
    utilities = belief.weights @ outcomes.scaled[among].T
    return float(belief.shares @ (utilities.max(axis=1) - belief.weights @ outcomes.scaled[chosen]))


def next_question(outcomes: Outcomes, belief: Belief, among: NDArray) -> Question | None:
    """The pair of ``among`` whose answer is expected to reduce the expected regret most; None if none is worth it.

    Asked about are policies that trade something noticeable for something noticeable: who is better in everything
    needs no question.
    """
    chosen = int(among[np.argmax(expected_utilities(outcomes, belief, among))])
    if expected_regret(outcomes, belief, among, chosen) < SETTLED:
        return None
    candidates = _likely_best(outcomes, belief, among, chosen)
    first, second = np.triu_indices(len(candidates), 1)
    trade = _trades(outcomes, candidates[first], candidates[second])
    first, second = candidates[first[trade]], candidates[second[trade]]
    if not len(first):
        return None
    best = int(np.argmax(answered_utility(outcomes, belief, candidates, first, second)))
    return Question(int(first[best]), int(second[best]))


def answered_utility(
    outcomes: Outcomes, belief: Belief, candidates: NDArray, first: NDArray, second: NDArray
) -> NDArray:
    """[Q] expected utility of what is best after an answer about each pair ``first`` [Q], ``second`` [Q].

    What the person likes best does not depend on the question, so most of this is least expected regret.
    """
    utilities = belief.weights @ outcomes.scaled[candidates].T  # [P, a]
    gaps = belief.weights @ (outcomes.scaled[first] - outcomes.scaled[second]).T  # [P, Q]
    chances = answer_chances(gaps, belief.steadiness[:, None])
    joint = chances * belief.shares[:, None]  # [3, P, Q]
    return np.asarray(sum((said.T @ utilities).max(axis=1) for said in joint))


def _likely_best(outcomes: Outcomes, belief: Belief, among: NDArray, chosen: int) -> NDArray:
    """Of ``among``, whoever is best for most of the belief; the chosen one always."""
    winners = np.argmax(belief.weights @ outcomes.scaled[among].T, axis=1)
    chance = np.bincount(winners, weights=belief.shares, minlength=len(among))
    chance[np.flatnonzero(among == chosen)] += 1
    order = np.argsort(-chance, kind="stable")[:MAX_CANDIDATES]
    return np.asarray(among[order[chance[order] > 0]])


def _trades(outcomes: Outcomes, first: NDArray, second: NDArray) -> NDArray:
    """[Q] whether each pair differs in both directions."""
    more = outcomes.returns[first] > outcomes.returns[second]
    differ = outcomes.differ(first, second)
    return np.asarray((differ & more).any(axis=1) & (differ & ~more).any(axis=1))
