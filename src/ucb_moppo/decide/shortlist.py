"""A few policies to end with, one of which is nearly as good as any whatever the person wants in the end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.decide.outcomes import Outcomes
from ucb_moppo.decide.preferences import Belief
from ucb_moppo.decide.words import describe_difference

LENGTH = 3


def make_shortlist(outcomes: Outcomes, belief: Belief, among: NDArray, chosen: int) -> list[int]:
    """Up to three of ``among``: the chosen one, then whoever adds most to the expected utility of the list's best.

    Each differs noticeably from those before it. (Adding the best next one is within 1 − 1/e of the best list, as
    the gain of each is less the longer the list is.)
    """
    utilities = belief.weights @ outcomes.scaled.T  # [P, n]
    listed, reached, others = [chosen], utilities[:, chosen], among
    while len(listed) < LENGTH:
        others = others[outcomes.differ(others, listed[-1]).any(axis=1)]
        if not len(others):
            break
        gains = belief.shares @ np.maximum(utilities[:, others] - reached[:, None], 0)
        listed.append(int(others[np.argmax(gains)]))
        reached = np.maximum(reached, utilities[:, listed[-1]])
    return listed


def compare(outcomes: Outcomes, one: int, other: int) -> str:
    """What ``one`` has and gives up against ``other``: 54% more speed, 8% less energy."""
    return describe_difference(outcomes.returns[other], outcomes.returns[one], outcomes.objectives)
