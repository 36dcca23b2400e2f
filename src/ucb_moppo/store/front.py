"""The points of a front, and what a table of them says: columns with a row per evaluated (policy, weight) pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.errors import RunFormatError
from ucb_moppo.policy.html import numbers, to_html

MAX_INDEX = 2**31
"""No run has so many policies."""
MAX_SHOWN = 20
"""Points that a notebook shows of a front."""


@dataclass(frozen=True, eq=False, repr=False)
class Front:
    """Evaluated (policy, weight) pairs, a row each. All objectives are maximised.

    Like a table it is as long as it has rows, and consists of its columns: ``len(front)`` is the number of points,
    and ``policy, weights, returns = front`` takes it apart.
    """

    policy: NDArray
    """[n] index of the policy."""
    weights: NDArray
    """[n, m] what it was conditioned on."""
    returns: NDArray
    """[n, m] mean return, where it was measured at held-out initial states, there."""

    def __len__(self) -> int:
        return len(self.policy)

    def __repr__(self) -> str:
        return f"Front({self._size()}, {self.returns.shape[1]} objectives)"

    def _size(self) -> str:
        return "1 point" if len(self) == 1 else f"{len(self)} points"

    def _repr_html_(self) -> str:
        """Give what a notebook shows: rows spread over the whole front."""
        shown = np.unique(np.linspace(0, len(self) - 1, min(len(self), MAX_SHOWN)).round().astype(int))
        rows = {
            f"{row}": f"policy {policy}, weight [{numbers(weight.tolist(), 3)}]: {numbers(returns.tolist(), 5)}"
            for row, policy, weight, returns in zip(shown.tolist(), *self.take(shown), strict=True)
        }
        return to_html(self._size() + (f", {len(rows)} of them shown" if len(rows) < len(self) else ""), rows)

    def __iter__(self) -> Iterator[NDArray]:
        return iter((self.policy, self.weights, self.returns))

    def take(self, rows: NDArray) -> Front:
        """Only some of the points: by their numbers, or by a truth value for each."""
        return Front(*(column[rows] for column in self))


def best_row(values: NDArray) -> int:
    """The evaluated pair with the highest of ``values`` [n]; failed evaluations never win."""
    finite = np.isfinite(values)
    if not finite.any():
        raise RunFormatError("no policy of the run has a finite return: nothing can be chosen")
    return int(np.argmax(np.where(finite, values, -np.inf)))


def outcomes_from_columns(columns: Mapping[str, NDArray], returns: NDArray) -> NDArray:
    """[n, E, m] the episodes in a front's table, or [n, 1, m] the mean returns where it has none."""
    num_objectives = returns.shape[1]
    count = sum(name.startswith("episode") and name.endswith("_1") for name in columns)
    names = [f"episode{e}_{j}" for e in range(1, count + 1) for j in range(1, num_objectives + 1)]
    if not names or not set(names) <= set(columns):
        return returns[:, None]
    return np.stack([columns[name] for name in names], axis=1).reshape(len(returns), count, num_objectives)


def measured_rows(columns: Mapping[str, NDArray]) -> NDArray:
    """[n] which rows of a front's table show held-out episodes; all of them before any were."""
    everything = np.ones(len(columns.get("policy", ())), bool)
    errors = [array for name, array in columns.items() if name.startswith("error_")]
    found = np.array([np.isfinite(row).all() for row in zip(*errors, strict=True)], bool)
    return found if found.any() else everything


def measured_values(returns: NDArray, measured: NDArray, preference: NDArray) -> NDArray:
    """[n] the weighted sums of returns [n, m], −inf for those that were not ``measured`` [n]."""
    return np.where(measured, returns @ preference, -np.inf)


def on_front(columns: Mapping[str, NDArray]) -> NDArray:
    """Which rows of a front's table are on the front."""
    return columns["on_front"] == 1 if "on_front" in columns else np.zeros(len(columns.get("policy", ())), bool)


def front_from_columns(columns: Mapping[str, NDArray], path: Path) -> Front:
    """The table of a front or of evaluations, out of ``path``, as a front."""
    num_objectives = sum(name.startswith("weight_") for name in columns) or 2

    def side_by_side(prefix: str) -> NDArray:
        return np.stack([columns[f"{prefix}_{j}"] for j in range(1, num_objectives + 1)], axis=1)

    try:
        policy, weights, returns = columns["policy"], side_by_side("weight"), side_by_side("return")
    except KeyError as missing:
        raise RunFormatError(f"{path} has no column {missing}") from missing
    if not (np.isfinite(weights).all() and (np.abs(policy) < MAX_INDEX).all() and (policy % 1 == 0).all()):
        raise RunFormatError(f"{path} has weights that are not finite, or policies that are not whole numbers")
    if np.isinf(returns).any():  # a run writes NaN for a policy that diverged
        raise RunFormatError(f"{path} has infinite returns")
    return Front(policy.astype(int), weights, returns)
