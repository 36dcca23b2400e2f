"""What is advised to somebody with certain wishes: the one logic behind the command line, the page and Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.decide.bounds import Bounds, make_bounds, nearest_miss, remaining, without_each
from ucb_moppo.decide.landmarks import find_closest, find_extremes, find_knee
from ucb_moppo.decide.outcomes import Outcomes
from ucb_moppo.decide.preferences import SAID, Answer, Belief, believe
from ucb_moppo.decide.questions import (
    MAX_QUESTIONS,
    PLANNED,
    Question,
    expected_regret,
    expected_utilities,
    next_question,
)
from ucb_moppo.decide.shortlist import make_shortlist
from ucb_moppo.decide.words import describe_outcome, in_short
from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives.names import find_objective, per_objective


@dataclass(frozen=True)
class Wishes:
    """What somebody wants, as far as they have said."""

    floors: Mapping[str, float] = field(default_factory=dict)
    """By name of an objective: at least this much."""
    ceilings: Mapping[str, float] = field(default_factory=dict)
    """By name of an objective: at most this much."""
    aspirations: Mapping[str, float] = field(default_factory=dict)
    """By name of an objective: about this much, if it can be had."""
    knee: bool = False
    """Where a little more of one objective costs most of the others."""
    most: str = ""
    """The objective to have most of."""
    answers: tuple[Answer, ...] = ()
    """What was said about pairs of policies."""

    def answer(self, first: int, second: int, said: str) -> Wishes:
        """The same with one more answer, about two rows."""
        if said not in SAID:
            raise ConfigError(f"the answer is {said!r}; choose one of {', '.join(SAID)}")
        return replace(self, answers=(*self.answers, Answer(first, second, said)))

    def undo(self) -> Wishes:
        """The same without the last answer."""
        return replace(self, answers=self.answers[:-1])


@dataclass(frozen=True, eq=False)
class Advice:
    """What follows from wishes. Policies are named by their places among the outcomes."""

    outcomes: Outcomes
    bounds: Bounds
    remaining: NDArray
    """[r] who is within the bounds."""
    chosen: int | None
    """Who serves the wishes best; None where nobody is within the bounds."""
    reason: str
    """Why, in words; or what to give up where nobody is left."""
    shortlist: list[int]
    """The chosen one and up to two others."""
    belief: Belief
    regret: float
    """What the choice is expected to lose, of what the front spans in utility, by what the answers have told."""
    num_answers: int

    @property
    def preference(self) -> NDArray:
        """[m] the expected weight on returns as they are, as `Run.policy` takes it."""
        weight = self.belief.mean / self.outcomes.span
        return np.asarray(weight / weight.sum())

    def question(self) -> Question | None:
        """What to ask next; None after ten answers, or when no answer would settle anything."""
        if self.num_answers >= MAX_QUESTIONS or len(self.remaining) < 2:
            return None
        return next_question(self.outcomes, self.belief, self.remaining, plan=self.num_answers < PLANNED)


def advise(outcomes: Outcomes, wishes: Wishes) -> Advice:
    """What to deploy: within the bounds, and by the rule that was asked for.

    Aspirations, the knee and the most of an objective exclude each other; answers count where none is asked for,
    and with nothing said at all it is the knee.
    """
    bounds = make_bounds(outcomes.objectives, wishes.floors, wishes.ceilings)
    left = remaining(outcomes, bounds)
    belief = belief_of(outcomes, wishes.answers)
    check_one_rule(wishes)
    if not len(left):
        chosen, reason, listed, regret = None, describe_nothing_left(outcomes, bounds), [], float("nan")
    else:
        chosen, reason = pick(outcomes, wishes, left, belief)
        listed = make_shortlist(outcomes, belief, left, chosen)
        regret = expected_regret(outcomes, belief, left, chosen)
    return Advice(outcomes, bounds, left, chosen, reason, listed, belief, regret, len(wishes.answers))


def check_one_rule(wishes: Wishes) -> None:
    """Refuse two ways to choose at once."""
    rules = {"aspirations": bool(wishes.aspirations), "the knee": wishes.knee, "the most of one": bool(wishes.most)}
    asked = [name for name, is_asked in rules.items() if is_asked]
    if len(asked) > 1:
        raise ConfigError(f"{' and '.join(asked)} choose differently; ask for one of them")


def belief_of(outcomes: Outcomes, answers: Sequence[Answer]) -> Belief:
    """What answers say of the preference."""
    places = [(outcomes.index_of(a.first), outcomes.index_of(a.second)) for a in answers]
    scaled = outcomes.scaled
    num_objectives = len(outcomes.objectives)
    differences = np.array([scaled[i] - scaled[j] for i, j in places]).reshape(-1, num_objectives)
    return believe(differences, [SAID.index(a.said) for a in answers], num_objectives)


def pick(outcomes: Outcomes, wishes: Wishes, among: NDArray, belief: Belief) -> tuple[int, str]:
    """Who of ``among`` serves the wishes best, and why."""
    names = outcomes.objectives
    if wishes.aspirations:
        aims = per_objective(wishes.aspirations, names, np.nan)
        asked = ", ".join(f"{n} {in_short(x)}" for n, x in zip(names, aims, strict=True) if np.isfinite(x))
        return find_closest(outcomes, among, aims), f"comes closest to what you aspire to ({asked})"
    if wishes.most:
        objective = find_objective(wishes.most, names)
        return find_extremes(outcomes, among)[objective], f"has the most {names[objective]}"
    if wishes.answers and not wishes.knee:
        best = int(among[np.argmax(expected_utilities(outcomes, belief, among))])
        return best, f"serves best what your {count_of(len(wishes.answers), 'answer')} told"
    return find_knee(
        outcomes, among
    ), "is the knee: beyond it a little more of one objective costs most of the others"


def count_of(count: int, noun: str) -> str:
    """1 answer, 2 answers."""
    return f"{count} {noun}" + "s" * (count != 1)


def describe_bound(outcomes: Outcomes, objective: int, floor: bool, value: float) -> str:
    """speed at least 2,000"""
    return f"{outcomes.objectives[objective]} at {'least' if floor else 'most'} {in_short(value)}"


def describe_nothing_left(outcomes: Outcomes, bounds: Bounds) -> str:
    """Which bounds leave nothing, what each costs, and who misses by least."""
    costs = [
        f"without {describe_bound(outcomes, objective, floor, value)}, {count} would remain"
        for objective, floor, value, count in without_each(outcomes, bounds)
    ]
    nearest = nearest_miss(outcomes, bounds)
    closest = describe_outcome(outcomes.returns[nearest], outcomes.objectives)
    return f"no policy holds all of it: {'; '.join(costs)}. Row {outcomes.rows[nearest]} misses by least: {closest}"


def describe_remaining(advice: Advice) -> str:
    """How many policies the bounds leave: 12 of 17 policies remain."""
    total, left = len(advice.outcomes), len(advice.remaining)
    return f"{left} of {total} {'policy' if total == 1 else 'policies'} {'remains' if left == 1 else 'remain'}"
