"""The four methods as values: how the weights of the next stage are chosen. Assumes maximisation.

UCB-MOPPO and Mean-MOPPO are one function with another β; Random- and Fixed-MOPPO look at no evaluation. This
is the one place where surrogate, acquisition and selection meet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives.pareto import pareto_front
from ucb_moppo.objectives.utility import LINEAR_GOAL, Goal
from ucb_moppo.objectives.weights import subspace_width
from ucb_moppo.registry import ACQUISITIONS, METHODS, SELECTIONS, SURROGATES
from ucb_moppo.search.acquisition import Score, optimistic_worlds, ucb_beta, zero_beta
from ucb_moppo.search.search_settings import SearchConfig
from ucb_moppo.search.selection import Select
from ucb_moppo.search.situations import UNIFORM, Situations, training_density
from ucb_moppo.search.surrogate import Surrogate, SurrogateModel, interpolate_values, summarise_draws

FloatArray = NDArray[np.float64]

FOCUSED = 2.0
"""The density that a stage is taken to train with near a weight that is chosen."""


@dataclass(frozen=True, eq=False)
class SearchContext:
    """What a method may look at when it chooses the weights of the next stage."""

    pivots: FloatArray
    """[K, m]"""
    candidates: FloatArray
    """[K, M, m]"""
    evaluated_weights: FloatArray
    """[K, P, m]: the probes, or all candidates where those are simulated."""
    values: FloatArray
    """[Z, K, P, m]: every evaluation so far, oldest first; NaN where a policy has diverged."""
    front: FloatArray
    """[f, m] what is kept, to be improved."""
    density: FloatArray
    """[Z − 1, K, P] how densely the stage after each evaluation but the last trained near the weights."""
    rates: FloatArray
    """[Z] learning rate of the stage after each evaluation, as a share of the first."""
    stage: int
    """t, stages since the warm-up, from 1."""
    num_active: int
    """N, weights to choose for each sub-space."""
    rng_seed: tuple[int, ...]
    """(seed, iteration); random streams derive from it and the sub-space's own index."""
    group: int = 1
    """Neighbouring sub-spaces that share a policy, and their environments."""

    def __post_init__(self) -> None:
        num_policies, num_objectives = self.pivots.shape
        num_candidates, num_evaluated = self.candidates.shape[1], self.evaluated_weights.shape[1]
        num_stages = max(0, len(self.values) - 1)
        for name, expected in (
            ("candidates", (num_policies, num_candidates, num_objectives)),
            ("evaluated_weights", (num_policies, num_evaluated, num_objectives)),
            ("values", (len(self.values), num_policies, num_evaluated, num_objectives)),
            ("density", (num_stages, num_policies, num_evaluated)),
            ("rates", (len(self.values),)),
        ):
            if (shape := getattr(self, name).shape) != expected:
                raise ConfigError(f"{name} has shape {shape}: the other arrays ask for {expected}")
        if num_policies % self.group:
            raise ConfigError(f"group is {self.group}: it must divide {num_policies}, the number of sub-spaces")
        if not 1 <= self.num_active <= num_candidates:
            raise ConfigError(
                f"num_active is {self.num_active}: give 1 to {num_candidates}, the number of candidates"
            )

    @property
    def last_values(self) -> FloatArray:
        """The last evaluation [K, P, m]; NaN, like a value that failed, before the first."""
        return self.values[-1] if len(self.values) else np.full(self.evaluated_weights.shape, np.nan)

    def experience(self) -> tuple[Situations, FloatArray]:
        """What stages so far have changed: situations before them, and the changes [n, m]."""
        weights, num_stages = self.evaluated_weights, len(self.density)
        nothing = self._situations(weights[:, :0], weights[:, :0], weights[:, :0, 0], 0.0, 0)
        before = [
            self._situations(weights, self.values[z], self.density[z], self.rates[z], num_stages - 1 - z)
            for z in range(num_stages)
        ]
        with np.errstate(invalid="ignore"):  # inf − inf is a missing pair, not a surprise
            changes = np.diff(self.values, axis=0)
        return Situations.join([nothing, *before]), changes.reshape(-1, changes.shape[-1])

    def ahead(self, weights: FloatArray, density: float | FloatArray) -> Situations:
        """The next stage at ``weights`` [K, n, m] of each sub-space, if it trains near them as densely as that."""
        known = zip(self.evaluated_weights, self.last_values, weights, strict=True)
        values = np.stack([interpolate_values(probes, found, wanted) for probes, found, wanted in known])
        rate = self.rates[-1] if len(self.rates) else 1.0
        return self._situations(weights, values, np.broadcast_to(density, weights.shape[:2]), rate, 0)

    def _situations(
        self, weights: FloatArray, values: FloatArray, density: FloatArray, rate: float, age: float
    ) -> Situations:
        """Rows for weights [K, n, m] of all sub-spaces before one stage."""
        num_policies, num_weights, num_objectives = weights.shape
        count = num_policies * num_weights
        return Situations(
            subspace=np.repeat(np.arange(num_policies), num_weights),
            weights=weights.reshape(count, num_objectives),
            places=(weights - self.pivots[:, None]).reshape(count, num_objectives),
            values=values.reshape(count, num_objectives),
            density=density.reshape(count),
            rate=np.full(count, rate),
            age=np.full(count, float(age)),
        )


class Selection(NamedTuple):
    """The chosen ``weights`` [K, N, m] and JSON-ready ``diagnostics`` of how they came about.

    Of a searching method: ``beta``; ``predicted_change`` and ``beta_sigma`` [K, m], means over the chosen
    weights; ``predicted`` and ``sigma`` [K, P, m], the change foreseen at the evaluated weights and its standard
    deviation, to hold against the next evaluation.
    """

    weights: FloatArray
    diagnostics: dict[str, Any]


@dataclass(frozen=True)
class Method:
    """A way to choose the weights each policy trains on in the next stage."""

    choose: Callable[[SearchContext], Selection]
    redraws: bool = False
    """Whether it chooses again within a stage, every RF iterations."""


class Tools(NamedTuple):
    """What a searching method works with: one predicts, one scores, one picks."""

    surrogate: SurrogateModel
    score: Score
    select: Select
    confidence: str
    """What the upper confidence bound is taken of; see `optimistic_worlds`."""


def make_method(
    name: str, search: SearchConfig, reference_point: tuple[float, ...], goal: Goal = LINEAR_GOAL
) -> Method:
    """The method called ``name`` with the tools that ``search`` names; the score may ask for the utility."""
    score = ACQUISITIONS.find(search.acquisition)(reference_point)
    if not goal.is_linear and hasattr(score, "for_utility"):
        score = score.for_utility(goal.utility)
    tools = Tools(
        surrogate=SURROGATES.find(search.surrogate)(search),
        score=score,
        select=SELECTIONS.find(search.selection),
        confidence=search.confidence,
    )
    make: Callable[[Tools], Method] = METHODS.find(name)
    return make(tools)


def ucb(tools: Tools) -> Method:
    """UCB-MOPPO: the weights whose optimistic values improve the front most."""
    return Method(partial(choose_by_search, tools=tools, beta_of=ucb_beta))


def mean(tools: Tools) -> Method:
    """Mean-MOPPO: the same without the uncertainty."""
    return Method(partial(choose_by_search, tools=tools, beta_of=zero_beta))


def random(tools: Tools) -> Method:
    """Random-MOPPO: weights drawn at random, again and again."""
    return Method(choose_random, redraws=True)


def fixed(tools: Tools) -> Method:
    """Fixed-MOPPO: the pivots, always."""
    return Method(choose_pivot)


def choose_pivot(context: SearchContext) -> Selection:
    """Fixed-MOPPO: every environment of a policy carries its pivot."""
    return Selection(np.repeat(context.pivots[:, None, :], context.num_active, axis=1), {})


def choose_random(context: SearchContext) -> Selection:
    """Random-MOPPO: N of the M candidates of every sub-space, uniformly and without replacement."""

    def draw(subspace: int, candidates: FloatArray) -> FloatArray:
        rng = np.random.default_rng((*context.rng_seed, subspace))
        return rng.choice(candidates, context.num_active, replace=False)

    return Selection(np.stack([draw(*policy) for policy in enumerate(context.candidates)]), {})


def choose_by_search(context: SearchContext, *, tools: Tools, beta_of: Callable[[int], float]) -> Selection:
    """UCB-MOPPO, and with β = 0 Mean-MOPPO: the weights expected to improve the front most (Algorithm 3).

    Every policy's choice starts from the same L, the front that is kept. Sub-spaces that share a policy share their
    environments too: weights are chosen for all of them together. A diverged policy (no finite value) has no finite
    candidate: its weights come out evenly spread.
    """
    beta, surrogate = beta_of(context.stage), fit_surrogate(context, tools.surrogate)
    # How a density changes anything is known where stages have had it: not beyond.
    focused = min(FOCUSED, float(context.density.max(initial=UNIFORM)))
    front, ahead = pareto_front(context.front), context.ahead(context.candidates, focused)
    changes = surrogate.draw(ahead)
    worlds, left = optimistic_worlds(ahead.values, changes, beta, tools.confidence)
    num_policies, num_candidates, num_objectives = context.candidates.shape
    members = context.group * num_candidates
    picks = []
    for start in range(0, num_policies * num_candidates, members):
        rows = slice(start, start + members)
        count = context.group * context.num_active
        picks.append(start + tools.select(tools.score, front, worlds[:, rows], left, ahead.weights[rows], count))
    chosen = np.concatenate(picks)
    shape = (num_policies, context.num_active, num_objectives)
    trained = ahead.weights[chosen].reshape(shape)
    density = training_density(
        trained, context.evaluated_weights, subspace_width(context.pivots) / 2, context.group
    )
    foreseen = summarise_draws(surrogate.draw(context.ahead(context.evaluated_weights, density)))
    at_chosen = summarise_draws(changes[:, chosen])
    return Selection(
        trained,
        {
            "beta": beta,
            "predicted_change": mean_of_groups(at_chosen.mean.reshape(shape), context.group).tolist(),
            "beta_sigma": mean_of_groups(beta * at_chosen.std.reshape(shape), context.group).tolist(),
            "predicted": foreseen.mean.reshape(context.evaluated_weights.shape).tolist(),
            "sigma": foreseen.std.reshape(context.evaluated_weights.shape).tolist(),
        },
    )


def mean_of_groups(chosen: FloatArray, group: int) -> FloatArray:
    """What was chosen [K, N, m] on average [K, m]; sub-spaces that choose together have one mean."""
    num_policies, _, num_objectives = chosen.shape
    means = chosen.reshape(num_policies // group, -1, num_objectives).mean(axis=1)
    return np.repeat(means, group, axis=0)


def fit_surrogate(context: SearchContext, model: SurrogateModel) -> Surrogate:
    """What predicts the next stage, from all that stages have changed so far."""
    situations, changes = context.experience()
    seed = int(np.random.SeedSequence(context.rng_seed).generate_state(1)[0])
    return model.fit(situations, changes, _value_ranges(context.last_values), seed)


def _value_ranges(last: FloatArray) -> FloatArray:
    """Max − min [m] of each objective over the finite rows of the last evaluation [K, P, m]; 1 if that is 0."""
    rows = last.reshape(-1, last.shape[-1])
    rows = rows[np.isfinite(rows).all(axis=1)]
    if len(rows) == 0:
        return np.ones(last.shape[-1])
    spread = np.ptp(rows, axis=0)
    return np.where(spread > 0, spread, 1.0)
