"""What a preference picks, and how that compares with its neighbours: pure functions of a run's data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.objectives.weights import even_weights
from ucb_moppo.report.data import RunData
from ucb_moppo.store.run import best_row

NOTICEABLE = 0.02
"""Of what the front spans in an objective."""


class Choice(NamedTuple):
    """One evaluated (policy, weight) pair."""

    row: int
    policy: int
    weight: NDArray  # [m]
    returns: NDArray  # [m]


class Neighbour(NamedTuple):
    """The next point of the front that has more of some objectives."""

    objectives: tuple[int, ...]
    choice: Choice
    difference: str
    """In words: 2% less speed, 9% more energy."""


def choose(data: RunData, preference: NDArray) -> Choice:
    """What serves a preference [m] best, of everything that was evaluated."""
    return choice_at(data, best_row(data.evaluated, preference))


def choice_at(data: RunData, row: int) -> Choice:
    found = data.evaluated
    return Choice(row, int(found.policy[row]), found.weights[row], found.returns[row])


def find_neighbours(data: RunData, choice: Choice) -> list[Neighbour]:
    """For each objective, the nearest point of the front that has noticeably more of it (none at its end).

    Policies answer to near weights with near returns, so a front has clusters, whose points nobody would tell
    apart. A neighbour that has more of several objectives stands once.
    """
    rows = np.flatnonzero(data.on_front)
    points = data.evaluated.returns[rows]
    span = np.ptp(points, axis=0) if len(points) else np.ones(len(choice.returns))
    scaled = (points - choice.returns) / np.where(span > 0, span, 1.0)
    found: dict[int, list[int]] = {}
    for objective in range(len(choice.returns)):
        better = np.flatnonzero(scaled[:, objective] >= NOTICEABLE)
        if len(better):
            nearest = better[np.argmin(np.linalg.norm(scaled[better], axis=1))]
            found.setdefault(int(rows[nearest]), []).append(objective)
    return [_neighbour(data, choice, row, objectives) for row, objectives in found.items()]


def _neighbour(data: RunData, choice: Choice, row: int, objectives: list[int]) -> Neighbour:
    other = choice_at(data, row)
    return Neighbour(tuple(objectives), other, describe_difference(choice.returns, other.returns, data.objectives))


def describe_difference(current: NDArray, other: NDArray, objectives: list[str]) -> str:
    """What one gets there instead: 2% less speed, 9% more energy."""
    return ", ".join(
        f"{_amount(here, there)} {name}" for here, there, name in zip(current, other, objectives, strict=True)
    )


def _amount(here: float, there: float) -> str:
    change = there - here
    if change == 0:
        return "the same"
    # Returns below zero count a cost (time, fuel): "more" of them could mean either.
    words = ("better", "worse") if here < 0 else ("more", "less")
    word = words[0] if change > 0 else words[1]
    # A share of next to nothing says nothing.
    if abs(here) < 1e-9 or abs(change / here) > 10:
        return f"{abs(change):.4g} {word}"
    share = abs(change / here) * 100
    return f"{share:.0f}% {word}" if share >= 0.95 else f"{share:.1g}% {word}"


def pickable_rows(data: RunData) -> list[int]:
    """The rows that some preference picks: those worth rendering beforehand."""
    weights = even_weights(len(data.objectives), 500)
    return sorted({best_row(data.evaluated, weight) for weight in weights})
