"""What a little more of an objective costs: a policy's neighbours on the front, and the rates they trade at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.decide.outcomes import NOTICEABLE, Outcomes
from ucb_moppo.decide.words import in_short


class Neighbour(NamedTuple):
    """The nearest point of a front that has more of some objectives."""

    objectives: tuple[int, ...]
    """Those of which it has noticeably more, and is the nearest that has."""
    point: int
    """Its place among the points."""


class Rate(NamedTuple):
    """What moving to a neighbour gains in one objective and costs in another."""

    gained: int
    lost: int
    gain: float
    loss: float

    @property
    def price(self) -> float:
        """Of the one, for one more of the other."""
        return self.loss / self.gain


def find_neighbours(points: NDArray, here: NDArray) -> list[Neighbour]:
    """For each objective, the nearest of ``points`` [n, m] with noticeably more of it than ``here`` [m], if any.

    Policies answer to near weights with near returns, so a front has clusters, whose points nobody would tell
    apart. A neighbour that has more of several objectives stands once.
    """
    span = np.ptp(points, axis=0) if len(points) else np.ones(len(here))
    scaled = (points - here) / np.where(span > 0, span, 1.0)
    found: dict[int, list[int]] = {}
    for objective in range(len(here)):
        better = np.flatnonzero(scaled[:, objective] >= NOTICEABLE)
        if len(better):
            nearest = better[np.argmin(np.linalg.norm(scaled[better], axis=1))]
            found.setdefault(int(nearest), []).append(objective)
    return [Neighbour(tuple(objectives), point) for point, objectives in found.items()]


def exchange_rates(here: NDArray, there: NDArray, gained: tuple[int, ...]) -> list[Rate]:
    """The rates at which ``there`` [m] trades what it has less of for the objectives ``gained``."""
    change = there - here
    return [
        Rate(more, int(less), float(change[more]), float(-change[less]))
        for more in gained
        for less in np.flatnonzero(change < 0)
    ]


def describe_rate(rate: Rate, objectives: tuple[str, ...]) -> str:
    """10 more speed costs 2.5 energy: by the power of ten of what is gained, so that no price is tiny."""
    unit = 10.0 ** np.clip(np.floor(np.log10(rate.gain)), -6, 9)
    cost = in_short(unit * rate.price)
    return f"{in_short(unit)} more {objectives[rate.gained]} costs {cost} {objectives[rate.lost]}"


def describe_rates(outcomes: Outcomes, here: int, neighbour: Neighbour) -> list[str]:
    """All rates with one neighbour, in words."""
    rates = exchange_rates(outcomes.returns[here], outcomes.returns[neighbour.point], neighbour.objectives)
    return [describe_rate(rate, outcomes.objectives) for rate in rates]
