"""Questions until a choice is good: simulated people, truthful and noisy, answer about fronts that are made up.

    python benchmarks/deciding.py [--people 200] [--steadiness 20]

Every person has a weight of their own, uniform on the simplex, and a front of their own: points spread over a
sphere, of which each is the best for somebody. Truthful ones always name what has more utility; noisy ones do so
with the logistic probability of ``steadiness`` times the difference, in shares of what the front spans. Regret is
what the chosen policy lacks of the best one's utility, as a share of it. Nobody says "no difference".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ucb_moppo.decide.advice import Advice, Wishes, advise
from ucb_moppo.decide.outcomes import Outcomes

GOOD = 0.02
"""Regret that nobody would mind."""
SIZES = {(2, 10): 3, (3, 10): 3, (3, 100): 5, (4, 100): 8, (6, 64): 10, (6, 200): 10}
"""Questions to ask, by objectives and points of the front."""


@dataclass(frozen=True, eq=False)
class Person:
    """Somebody who answers by a weight [m] on scaled returns; ``steadiness`` inf is truthful."""

    weight: NDArray
    steadiness: float
    rng: np.random.Generator

    def answer(self, first: NDArray, second: NDArray) -> str:
        """What they say of two policies with scaled returns [m]."""
        gap = float(self.weight @ (first - second))
        if np.isinf(self.steadiness):
            return "first" if gap > 0 else "second"
        return "first" if self.rng.random() < 1 / (1 + np.exp(-self.steadiness * gap)) else "second"

    def regret(self, outcomes: Outcomes, chosen: int) -> float:
        """Share of the best utility that the chosen policy lacks."""
        utilities = outcomes.scaled @ self.weight
        return float(1 - utilities[chosen] / utilities.max())


def make_front(num_objectives: int, num_points: int, rng: np.random.Generator) -> Outcomes:
    """Points on the positive part of a sphere, in units that differ by objective."""
    points = np.abs(rng.standard_normal((num_points, num_objectives)))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    units = 10.0 ** np.arange(num_objectives)
    names = tuple(f"objective {j + 1}" for j in range(num_objectives))
    return Outcomes(names, points * units, np.arange(num_points))


def interview(outcomes: Outcomes, person: Person, num_questions: int) -> list[Advice]:
    """What is advised before the first question and after each; fewer where nothing is worth asking any more."""
    wishes, advices = Wishes(), [advise(outcomes, Wishes())]
    while len(advices) <= num_questions:
        question = advices[-1].question()
        if question is None:
            break
        first, second = question
        said = person.answer(outcomes.scaled[first], outcomes.scaled[second])
        wishes = wishes.answer(int(outcomes.rows[first]), int(outcomes.rows[second]), said)
        advices.append(advise(outcomes, wishes))
    return advices


@dataclass(frozen=True, eq=False)
class Interviews:
    """Regrets of n people after 0 … q questions [n, q + 1]: of what is chosen, and of the short list's best."""

    chosen: NDArray
    listed: NDArray
    asked: NDArray
    """[n] questions until the end."""


def interview_people(
    size: tuple[int, int], num_questions: int, num_people: int, steadiness: float, seed: int = 0
) -> Interviews:
    """Interview people, each with a front of ``size`` (objectives, points); whoever is done keeps their choice."""
    chosen, listed = np.zeros((2, num_people, num_questions + 1))
    asked = np.zeros(num_people, int)
    for i in range(num_people):
        rng = np.random.default_rng((seed, *size, i))
        outcomes = make_front(*size, rng)
        person = Person(rng.dirichlet(np.ones(size[0])), steadiness, rng)
        advices = interview(outcomes, person, num_questions)
        asked[i] = len(advices) - 1
        for q in range(num_questions + 1):
            advice = advices[min(q, len(advices) - 1)]
            assert advice.chosen is not None
            chosen[i, q] = person.regret(outcomes, advice.chosen)
            listed[i, q] = min(person.regret(outcomes, one) for one in advice.shortlist)
    return Interviews(chosen, listed, asked)


def main(people: int = 200, steadiness: float = 20.0) -> None:
    table = Table(
        "objectives, points",
        "people",
        "questions",
        "regret: median",
        "90% of people below",
        f"below {GOOD:.0%}",
        f"one of the short list below {GOOD:.0%}",
    )
    for size, questions in SIZES.items():
        for kind, steady in (("truthful", np.inf), (f"noisy ({steadiness:g})", steadiness)):
            found = interview_people(size, questions, people, steady)
            last, listed = found.chosen[:, -1], found.listed[:, -1]
            cells = [f"{np.median(last):.1%}", f"{np.quantile(last, 0.9):.1%}", f"{(last < GOOD).mean():.0%}"]
            table.add_row(f"{size[0]}, {size[1]}", kind, str(questions), *cells, f"{(listed < GOOD).mean():.0%}")
    Console(width=130).print(table)


if __name__ == "__main__":
    tyro.cli(main)
