"""What a run keeps: of each sub-space the best policy so far, so that what was found is not lost again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.algos.stacked import arrays_under
from ucb_moppo.objectives import indicators
from ucb_moppo.objectives.utility import LINEAR_GOAL, Goal

MAX_EXACT_OBJECTIVES = 4
"""Above it a front is judged by its expected utility: the exact hypervolume takes too long to ask for it often."""


class Archive:
    """The values [K, P, m] and tensors [K, …] of the policies that are kept, one a sub-space.

    Where the utility is not linear, what it is taken of is kept too: outcomes [K, P, E, m].
    """

    def __init__(self, reference_point: Sequence[float], goal: Goal = LINEAR_GOAL) -> None:
        self._reference_point, self._goal = tuple(reference_point), goal
        self.returns: NDArray | None = None
        self.outcomes: NDArray | None = None
        self.tensors: dict[str, NDArray] = {}

    def take(self, returns: NDArray, tensors: Mapping[str, NDArray], outcomes: NDArray | None = None) -> NDArray:
        """Keep what is better of what was and what is now; says which of the sub-spaces [K] have changed."""
        if self.returns is None:
            taken = np.ones(len(returns), bool)
            self.returns, self.tensors = returns.copy(), {name: array.copy() for name, array in tensors.items()}
            self.outcomes = None if outcomes is None else outcomes.copy()
            return taken
        if self.outcomes is None or outcomes is None:
            taken = choose_rows(self.returns, returns, self._reference_point)
        else:
            taken = choose_useful_rows(self.outcomes, outcomes, self._reference_point, self._goal)
            self.outcomes[taken] = outcomes[taken]
        self.returns[taken] = returns[taken]
        for name, array in self.tensors.items():
            array[taken] = tensors[name][taken]
        return taken

    def get_state(self) -> dict[str, NDArray]:
        """Everything it holds, as named arrays."""
        if self.returns is None:
            return {}
        # Copies: what is written to disk later must not change meanwhile.
        taken_of = {} if self.outcomes is None else {"outcomes": self.outcomes.copy()}
        tensors = {f"tensors.{n}": a.copy() for n, a in self.tensors.items()}
        return {"returns": self.returns.copy()} | taken_of | tensors

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned."""
        self.returns = state["returns"].copy() if state else None
        self.outcomes = state["outcomes"].copy() if "outcomes" in state else None
        self.tensors = {name: array.copy() for name, array in arrays_under("tensors.", state).items()}


def choose_rows(old: NDArray, new: NDArray, reference_point: Sequence[float]) -> NDArray:
    """Sub-spaces [K] to take from ``new`` [K, P, m], the rest from ``old``: the front is never worse for it.

    From the better of the two whole sets on, one sub-space after the other is exchanged where that makes the front
    better and costs no expected utility.
    """
    worth: Callable[..., float] = (
        indicators.hypervolume if old.shape[-1] <= MAX_EXACT_OBJECTIVES else indicators.expected_utility
    )

    def value(taken: NDArray) -> tuple[float, float]:
        points = np.where(taken[:, None, None], new, old).reshape(-1, old.shape[-1])
        finite = points[np.isfinite(points).all(-1)]
        if not len(finite):
            return -np.inf, -np.inf
        return worth(finite, reference_point), indicators.expected_utility(finite, reference_point)

    return exchange_rows(~np.isfinite(new).all((1, 2)), value)


def choose_useful_rows(old: NDArray, new: NDArray, reference_point: Sequence[float], goal: Goal) -> NDArray:
    """Sub-spaces [K] to take from ``new`` [K, P, E, m], the rest from ``old``, by the goal's expected utility."""

    def value(taken: NDArray) -> tuple[float, float]:
        chosen = np.where(taken[:, None, None, None], new, old)
        points = chosen.reshape(-1, *chosen.shape[-2:])
        found = indicators.expected_utility(points, reference_point, goal=goal)
        return (found, found) if np.isfinite(found) else (-np.inf, -np.inf)

    return exchange_rows(~np.isfinite(new).all((1, 2, 3)), value)


def exchange_rows(lost: NDArray, value: Callable[[NDArray], tuple[float, float]]) -> NDArray:
    """Rows [K] to take but for those that are ``lost`` [K], by worth and expected utility of what is taken."""
    everything, nothing = ~lost, np.zeros(len(lost), bool)
    best = everything if value(everything) >= value(nothing) else nothing
    for k in np.flatnonzero(~lost):
        exchanged = best.copy()
        exchanged[k] = not best[k]
        (new_worth, new_utility), (old_worth, old_utility) = value(exchanged), value(best)
        if new_worth > old_worth and new_utility >= old_utility:
            best = exchanged
    return best
