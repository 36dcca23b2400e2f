"""Which two policies to ask about next: those whose answer is expected to save most regret.

Early on the next answer matters as well: after the first ones another question follows, so a pair is judged by what
is known after both answers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.decide.outcomes import Outcomes
from ucb_moppo.decide.preferences import Belief, answer_chances

MAX_QUESTIONS = 10
PLANNED = 2
"""Questions that are chosen for the sake of the one after them as well."""
MAX_PLANS = 12
"""Pairs that are planned with, the best of them by their own answer alone."""
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


def next_question(outcomes: Outcomes, belief: Belief, among: NDArray, plan: bool = False) -> Question | None:
    """The pair of ``among`` whose answer is expected to reduce the expected regret most; None if none is worth it.

    With ``plan``, whose answer and the next one together are.

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
    utility = answered_utility(outcomes, belief, candidates, first, second)
    if plan:
        utility = planned_utility(outcomes, belief, candidates, first, second, utility)
    best = int(np.argmax(utility))
    return Question(int(first[best]), int(second[best]))


def answered_utility(
    outcomes: Outcomes, belief: Belief, candidates: NDArray, first: NDArray, second: NDArray
) -> NDArray:
    """[Q] expected utility of what is best after an answer about each pair ``first`` [Q], ``second`` [Q].

    What the person likes best does not depend on the question, so most of this is least expected regret.
    """
    utilities = belief.weights @ outcomes.scaled[candidates].T  # [P, a]
    return _expected_best(pair_chances(outcomes, belief, first, second), belief.shares, utilities)


def planned_utility(
    outcomes: Outcomes, belief: Belief, candidates: NDArray, first: NDArray, second: NDArray, answered: NDArray
) -> NDArray:
    """[Q] the same after the best second question about these pairs; −inf for all but the most ``answered`` [Q]."""
    utilities = belief.weights @ outcomes.scaled[candidates].T
    chances = pair_chances(outcomes, belief, first, second)
    planned = np.full(len(first), -np.inf)
    for pair in np.argsort(-answered, kind="stable")[:MAX_PLANS]:
        planned[pair] = sum(
            _expected_best(chances, belief.shares * said, utilities).max() for said in chances[:, :, pair]
        )
    return planned


def pair_chances(outcomes: Outcomes, belief: Belief, first: NDArray, second: NDArray) -> NDArray:
    """[3, P, Q] of each answer about each pair, by each particle."""
    gaps = belief.weights @ (outcomes.scaled[first] - outcomes.scaled[second]).T
    return answer_chances(gaps, belief.steadiness[:, None])


def _expected_best(chances: NDArray, shares: NDArray, utilities: NDArray) -> NDArray:
    """[Q] sum over answers of the most expected utility, where ``shares`` [P] need not sum to 1."""
    joint = shares[:, None] * utilities  # [P, a]
    return np.asarray(sum((said.T @ joint).max(axis=1) for said in chances))


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
