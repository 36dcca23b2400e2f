"""A front chosen by returns that scatter: who seems to be on it is looked at again before that is believed.

The best of many noisy means is lucky more often than good, and keeps better ones off the front. What is looked at
again has as many episodes in its mean as whatever else is on the front, from the same initial states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.engine.evaluation import MakeBatch
from ucb_moppo.engine.held_out import run_members
from ucb_moppo.objectives.pareto import nondominated
from ucb_moppo.policy.networks import Network
from ucb_moppo.seeding import EVALUATION

ENOUGH = 10
"""Episodes of a member of the front after which it is believed."""


@dataclass(frozen=True, eq=False)
class SecondLook:
    """Returns [K, W, m] after it, and what it took."""

    returns: NDArray
    episodes: int
    """More of them for each that was looked at again; 0: none was."""
    steps: int


def look_again(
    tensors: Mapping[str, NDArray],
    network: Network,
    weights: NDArray,
    returns: NDArray,
    make_batch: MakeBatch,
    *,
    seen: int,
    spare: int,
    discount: float = 1.0,
    sampled: bool = False,
) -> SecondLook:
    """More episodes for everybody on the front of K policies with ``returns`` [K, W, m] under ``weights``, then for
    who has come onto it, until nobody new has or the ``spare`` episodes are used up.

    ``returns`` are means of the first ``seen`` episodes of each.
    """
    returns, known = returns.copy(), np.zeros(returns.shape[:2], bool)
    more = used = steps = 0
    while True:
        members = nondominated(returns.reshape(-1, returns.shape[-1])).reshape(known.shape) & ~known
        count = int(members.sum())
        if not known.any() and count:  # half of what is spare, for those that the first ones were in the way of
            more = max(0, min(ENOUGH - seen, spare // (2 * count)))
        if not count or not more or used + count * more > spare:
            return SecondLook(returns, more if known.any() else 0, steps)
        found = run_members(
            tensors, network, weights, members, make_batch, more, discount, sampled, starts=EVALUATION, first=seen
        )
        returns[members] = (seen * returns[members] + more * found.returns[:, 0]) / (seen + more)
        known |= members
        used, steps = used + count * more, steps + found.steps
