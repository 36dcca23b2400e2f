"""A decision about a run: which of its policies to deploy, why, what else there is, and what it will do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.decide.advice import Advice, Wishes, advise, describe_remaining
from ucb_moppo.decide.exchange import Neighbour, describe_rates, exchange_rates, find_neighbours
from ucb_moppo.decide.forecast import Forecast, make_forecast
from ucb_moppo.decide.outcomes import Outcomes
from ucb_moppo.decide.shortlist import compare
from ucb_moppo.decide.words import describe_outcome
from ucb_moppo.errors import ConfigError
from ucb_moppo.policy.html import numbers, to_html
from ucb_moppo.policy.policy import Policy
from ucb_moppo.store.front import front_from_columns, on_front
from ucb_moppo.store.layout import FRONT
from ucb_moppo.store.run import Run


@dataclass(frozen=True, eq=False, repr=False)
class Decision:
    """What follows from wishes about a run. Policies are named by their rows in ``run.evaluated()``."""

    run: Run
    wishes: Wishes
    advice: Advice
    row: int
    """The policy and weight that serve the wishes best."""

    @property
    def policy(self) -> Policy:
        """The one to deploy: ``save`` it, or call it."""
        return self.run.evaluated_policy(self.row)

    @property
    def reason(self) -> str:
        """Why this one; whoever took another than was advised has their reasons."""
        listed = self.shortlist
        return self.advice.reason if not listed or self.row == listed[0] else "you took it"

    @property
    def returns(self) -> dict[str, float]:
        """What it returned, by objective: a mean of the episodes that the front was measured by."""
        return self._named(self._place(self.row))

    @property
    def remaining(self) -> list[int]:
        """Rows within the bounds."""
        return [int(row) for row in self.advice.outcomes.rows[self.advice.remaining]]

    @property
    def shortlist(self) -> list[int]:
        """Rows of the chosen one and up to two others, one of which should serve you where the questions missed."""
        return [int(self.advice.outcomes.rows[place]) for place in self.advice.shortlist]

    @cached_property
    def question(self) -> tuple[int, int] | None:
        """Two rows to be asked about next; None after ten answers or when nothing is worth asking."""
        asked = self.advice.question()
        return None if asked is None else (self._row(asked.first), self._row(asked.second))

    def answer(self, said: str) -> Decision:
        """The decision after an answer to ``question``: "first", "second" or "same"."""
        if self.question is None:
            raise ConfigError("there is no question to answer: the choice is settled")
        return decide(self.run, self.wishes.answer(*self.question, said))

    def undo(self) -> Decision:
        """The decision without the last answer."""
        return decide(self.run, self.wishes.undo())

    def take(self, row: int) -> Decision:
        """The same wishes with another policy of the front, say of the short list."""
        self._place(row)
        return Decision(self.run, self.wishes, self.advice, row)

    def compare(self, row: int, other: int) -> str:
        """What one row has and gives up against another, in words."""
        return compare(self.advice.outcomes, self._place(row), self._place(other))

    def describe(self, row: int) -> str:
        """What a row returns, in words."""
        return describe_outcome(self.advice.outcomes.returns[self._place(row)], self.advice.outcomes.objectives)

    @property
    def neighbours(self) -> list[Neighbour]:
        """The next noticeably different points of the front."""
        outcomes = self.advice.outcomes
        return find_neighbours(outcomes.returns, outcomes.returns[self._place(self.row)])

    def exchange(self) -> list[str]:
        """At what rates the neighbours on the front trade, in words."""
        here = self._place(self.row)
        return [words for one in self.neighbours for words in describe_rates(self.advice.outcomes, here, one)]

    def forecast(self, episodes: int = 100, threads: int = 0) -> Forecast:
        """What the policy does in fresh episodes of its problem, whose initial states nothing was chosen by."""
        from ucb_moppo.training.forecast import run_policy  # a run is read, and decided about, without a simulator

        found = run_policy(self.run, self.row, episodes, threads)
        return make_forecast(found, self.advice.outcomes.objectives, self.advice.bounds)

    def to_json(self) -> dict[str, Any]:
        """Numbers and names alone."""
        outcomes, place = self.advice.outcomes, self._place(self.row)
        policy = self.policy
        return {
            "run": str(self.run.path),
            "row": self.row,
            "policy": policy.index,
            "weight": policy.weight.tolist(),
            "reason": self.reason,
            "returns": self.returns,
            "remaining": self.remaining,
            "policies": len(outcomes),
            "expected_regret": self.advice.regret,
            "preference": self.advice.preference.tolist(),
            "next_question": self.question,
            "shortlist": [self._json_of(row) for row in self.shortlist],
            "exchange": [rate for one in self.neighbours for rate in self._rates(place, one)],
        }

    def _json_of(self, row: int) -> dict[str, Any]:
        against = {str(other): self.compare(row, other) for other in self.shortlist if other != row}
        return {"row": row, "returns": self._named(self._place(row)), "against": against}

    def _rates(self, here: int, neighbour: Neighbour) -> list[dict[str, Any]]:
        outcomes = self.advice.outcomes
        rates = exchange_rates(outcomes.returns[here], outcomes.returns[neighbour.point], neighbour.objectives)
        names = outcomes.objectives
        return [
            {
                "row": self._row(neighbour.point),
                "more": names[rate.gained],
                "by": rate.gain,
                "less": names[rate.lost],
                "price": rate.price,
            }
            for rate in rates
        ]

    def _named(self, place: int) -> dict[str, float]:
        outcomes = self.advice.outcomes
        return dict(zip(outcomes.objectives, outcomes.returns[place].tolist(), strict=True))

    def _place(self, row: int) -> int:
        return self.advice.outcomes.index_of(row)

    def _row(self, place: int) -> int:
        return int(self.advice.outcomes.rows[place])

    def __repr__(self) -> str:
        returns = numbers(list(self.returns.values()))
        return f"Decision({str(self.run.path)!r}, row={self.row}, returns=[{returns}], reason={self.reason!r})"

    def _repr_html_(self) -> str:
        """Give what a notebook shows."""
        policy, outcomes = self.policy, self.advice.outcomes
        told = zip(outcomes.objectives, outcomes.returns[self._place(self.row)], policy.weight, strict=True)
        rows = {name: f"{value:,.4g}, weight {weight:.3g}" for name, value, weight in told}
        rows |= {"policy": str(policy.index), "within the bounds": describe_remaining(self.advice)}
        rows |= {"short list": ", ".join(f"row {row}" for row in self.shortlist)}
        rows |= {"exchange": "; ".join(self.exchange()) or "no neighbours to exchange with"}
        return to_html(f"Row {self.row} {self.reason}", rows)

    def __str__(self) -> str:
        told = [f"Row {self.row} {self.reason}.", self.describe(self.row), describe_remaining(self.advice)]
        return "\n".join(told + self.exchange())


def decide(run: Run, wishes: Wishes) -> Decision:
    """What serves wishes best; refused, with what to give up, where nothing is within the bounds."""
    advice = advise(read_outcomes(run), wishes)
    if advice.chosen is None:
        raise ConfigError(advice.reason)
    return Decision(run, wishes, advice, int(advice.outcomes.rows[advice.chosen]))


def read_outcomes(run: Run) -> Outcomes:
    """The points of a run's front, measured as well as they are."""
    table = run.table()
    everything = front_from_columns(table, run.path / FRONT)
    rows = np.flatnonzero(on_front(table) & np.isfinite(everything.returns).all(axis=1))
    return Outcomes(run.spec.objectives, everything.returns[rows], rows, _errors(table, rows))


def _errors(table: dict[str, NDArray], rows: NDArray) -> NDArray | None:
    """[n, m] standard errors of the rows' returns, where the run was measured by held-out episodes."""
    names = [name for name in table if name.startswith("error_")]
    return np.stack([table[name][rows] for name in names], axis=1) if names else None
