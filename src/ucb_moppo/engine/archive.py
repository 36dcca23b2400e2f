"""What a run keeps: of each sub-space the best policy so far, so that what was found is not lost again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.algos.stacked import arrays_under
from ucb_moppo.objectives import indicators

MAX_EXACT_OBJECTIVES = 4
"""Above it a front is judged by its expected utility: the exact hypervolume takes too long to ask for it often."""


class Archive:
    """The values [K, P, m] and tensors [K, …] of the policies that are kept, one a sub-space."""

    def __init__(self, reference_point: Sequence[float]) -> None:
        self._reference_point = tuple(reference_point)
        self.returns: NDArray | None = None
        self.tensors: dict[str, NDArray] = {}

    def take(self, returns: NDArray, tensors: Mapping[str, NDArray]) -> NDArray:
        """Keep what is better of what was and what is now; says which of the sub-spaces [K] have changed."""
        if self.returns is None:
            taken = np.ones(len(returns), bool)
            self.returns, self.tensors = returns.copy(), {name: array.copy() for name, array in tensors.items()}
            return taken
        taken = choose_rows(self.returns, returns, self._reference_point)
        self.returns[taken] = returns[taken]
        for name, array in self.tensors.items():
            array[taken] = tensors[name][taken]
        return taken

    def get_state(self) -> dict[str, NDArray]:
        """Everything it holds, as named arrays."""
        if self.returns is None:
            return {}
        # Copies: what is written to disk later must not change meanwhile.
        return {"returns": self.returns.copy()} | {f"tensors.{n}": a.copy() for n, a in self.tensors.items()}

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned."""
        self.returns = state["returns"].copy() if state else None
        self.tensors = {name: array.copy() for name, array in arrays_under("tensors.", state).items()}


def choose_rows(old: NDArray, new: NDArray, reference_point: Sequence[float]) -> NDArray:
    """Sub-spaces [K] to take from ``new`` [K, P, m], the rest from ``old``: the front is never worse for it.

    From the better of the two whole sets on, one sub-space after the other is exchanged where that makes the front
    better and costs no expected utility.
    """
    worth = indicators.hypervolume if old.shape[-1] <= MAX_EXACT_OBJECTIVES else indicators.expected_utility

    def value(taken: NDArray) -> tuple[float, float]:
        points = np.where(taken[:, None, None], new, old).reshape(-1, old.shape[-1])
        finite = points[np.isfinite(points).all(-1)]
        if not len(finite):
            return -np.inf, -np.inf
        return worth(finite, reference_point), indicators.expected_utility(finite, reference_point)

    lost = ~np.isfinite(new).all((1, 2))
    everything, nothing = ~lost, np.zeros(len(new), bool)
    best = everything if value(everything) >= value(nothing) else nothing
    for k in np.flatnonzero(~lost):
        exchanged = best.copy()
        exchanged[k] = not best[k]
        (new_worth, new_utility), (old_worth, old_utility) = value(exchanged), value(best)
        if new_worth > old_worth and new_utility >= old_utility:
            best = exchanged
    return best
