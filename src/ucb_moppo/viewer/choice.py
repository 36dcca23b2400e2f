"""What a preference picks, and how that compares with its neighbours: pure functions of a run's data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.decide.exchange import find_neighbours as nearest_with_more
from ucb_moppo.decide.words import describe_difference
from ucb_moppo.objectives.weights import even_weights
from ucb_moppo.report.runs import RunData
from ucb_moppo.store.front import best_row


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
    return choice_at(data, best_row(data.values(preference)))


def choice_at(data: RunData, row: int) -> Choice:
    found = data.evaluated
    return Choice(row, int(found.policy[row]), found.weights[row], found.returns[row])


def find_neighbours(data: RunData, choice: Choice) -> list[Neighbour]:
    """For each objective, the nearest point of the front that has noticeably more of it (none at its end)."""
    rows = np.flatnonzero(data.on_front)
    near = nearest_with_more(data.evaluated.returns[rows], choice.returns)
    return [_neighbour(data, choice, int(rows[one.point]), one.objectives) for one in near]


def _neighbour(data: RunData, choice: Choice, row: int, objectives: tuple[int, ...]) -> Neighbour:
    other = choice_at(data, row)
    return Neighbour(objectives, other, describe_difference(choice.returns, other.returns, data.objectives))


def pickable_rows(data: RunData) -> list[int]:
    """The rows that some preference picks: those worth rendering beforehand."""
    weights = even_weights(len(data.objectives), 500)
    return sorted({best_row(data.values(weight)) for weight in weights})
