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
from ucb_moppo.registry import ACQUISITIONS, METHODS, SELECTIONS, SURROGATES
from ucb_moppo.search.acquisition import Score, optimistic_values, ucb_beta, zero_beta
from ucb_moppo.search.search_settings import SearchConfig
from ucb_moppo.search.selection import Select
from ucb_moppo.search.surrogate import (
    Prediction,
    Surrogate,
    SurrogateModel,
    interpolate_values,
    surrogate_data,
)

FloatArray = NDArray[np.float64]


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
    stage: int
    """t, stages since the warm-up, from 1."""
    num_active: int
    """N, weights to choose per policy."""
    rng_seed: tuple[int, ...]
    """(seed, iteration); random streams derive from it and the policy's own index."""
    policy_ids: tuple[int, ...]
    """K global policy indices, so that a policy's stream does not depend on its company."""

    def __post_init__(self) -> None:
        num_policies, num_objectives = self.pivots.shape
        num_candidates, num_evaluated = self.candidates.shape[1], self.evaluated_weights.shape[1]
        for name, expected in (
            ("candidates", (num_policies, num_candidates, num_objectives)),
            ("evaluated_weights", (num_policies, num_evaluated, num_objectives)),
            ("values", (len(self.values), num_policies, num_evaluated, num_objectives)),
        ):
            if (shape := getattr(self, name).shape) != expected:
                raise ConfigError(f"{name} has shape {shape}: the other arrays ask for {expected}")
        if len(self.policy_ids) != num_policies:
            raise ConfigError(f"{len(self.policy_ids)} policy_ids for {num_policies} policies: give one each")
        if not 1 <= self.num_active <= num_candidates:
            raise ConfigError(
                f"num_active is {self.num_active}: give 1 to {num_candidates}, the number of candidates"
            )

    @property
    def last_values(self) -> FloatArray:
        """The last evaluation [K, P, m]; NaN, like a value that failed, before the first."""
        return self.values[-1] if len(self.values) else np.full(self.evaluated_weights.shape, np.nan)


class Selection(NamedTuple):
    """The chosen ``weights`` [K, N, m] and JSON-ready ``diagnostics`` of how they came about.

    Of a searching method: ``beta``; ``predicted_change`` and ``beta_sigma`` [K, m], means over the chosen
    weights; ``predicted`` [K, P, m], the change foreseen at the evaluated weights, to hold against the next
    evaluation.
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


def make_method(name: str, search: SearchConfig, reference_point: tuple[float, ...]) -> Method:
    """The method called ``name`` with the tools that ``search`` names."""
    tools = Tools(
        surrogate=SURROGATES.find(search.surrogate)(search),
        score=ACQUISITIONS.find(search.acquisition)(reference_point),
        select=SELECTIONS.find(search.selection),
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
    """Random-MOPPO: N of the M candidates, uniformly and without replacement."""

    def draw(policy_id: int, candidates: FloatArray) -> FloatArray:
        rng = np.random.default_rng((*context.rng_seed, policy_id))
        return rng.choice(candidates, context.num_active, replace=False)

    drawn = [draw(*policy) for policy in zip(context.policy_ids, context.candidates, strict=True)]
    return Selection(np.stack(drawn), {})


def choose_by_search(context: SearchContext, *, tools: Tools, beta_of: Callable[[int], float]) -> Selection:
    """UCB-MOPPO, and with β = 0 Mean-MOPPO: the weights expected to improve the front most (Algorithm 3).

    Every policy's choice starts from the same L, the last evaluations of all policies; only its Pareto front
    counts. A diverged policy (no finite value) has no finite candidate: its weights come out evenly spread.
    """
    beta = beta_of(context.stage)
    last = context.last_values
    front = pareto_front(last.reshape(-1, last.shape[-1]))
    chosen, at_chosen, at_evaluated = [], [], []
    for k, surrogates in enumerate(fit_surrogates(context, tools.surrogate)):
        candidates, evaluated = context.candidates[k], context.evaluated_weights[k]
        prediction = predict_changes(surrogates, candidates)
        values = interpolate_values(evaluated, last[k], candidates)
        optimistic = optimistic_values(values, prediction.mean, prediction.std, beta)
        picks = tools.select(tools.score, front, optimistic, candidates, context.num_active)
        chosen.append(candidates[picks])
        at_chosen.append([prediction.mean[picks].mean(axis=0), beta * prediction.std[picks].mean(axis=0)])
        at_evaluated.append(predict_changes(surrogates, evaluated).mean)
    return Selection(np.stack(chosen), _diagnostics(beta, np.array(at_chosen), np.array(at_evaluated)))


def fit_surrogates(context: SearchContext, model: SurrogateModel) -> list[list[Surrogate]]:
    """The surrogates f^{k,j}: one list of m for each of the K policies."""
    weights, changes = surrogate_data(context.evaluated_weights, context.values)
    prior = _value_ranges(context.last_values)
    return [
        [
            model.fit(weights[k], changes[k, :, j], prior[j], _fit_seed(context, policy_id, j))
            for j in range(len(prior))
        ]
        for k, policy_id in enumerate(context.policy_ids)
    ]


def predict_changes(surrogates: list[Surrogate], weights: FloatArray) -> Prediction:
    """Mean and std [n, m] of all m objectives at ``weights`` [n, m], from one surrogate each."""
    predictions = [surrogate.predict(weights) for surrogate in surrogates]
    return Prediction(
        np.stack([prediction.mean for prediction in predictions], axis=1),
        np.stack([prediction.std for prediction in predictions], axis=1),
    )


def _fit_seed(context: SearchContext, policy_id: int, objective: int) -> int:
    """A seed of its own for every (policy, objective).

    Counting objectives from 1 keeps these streams apart from the policy's own: seeds are padded with 0.
    """
    sequence = np.random.SeedSequence((*context.rng_seed, policy_id, objective + 1))
    return int(sequence.generate_state(1)[0])


def _value_ranges(last: FloatArray) -> list[float]:
    """Max − min of each objective over the finite rows of the last evaluation [K, P, m]; 1 if that is 0."""
    rows = last.reshape(-1, last.shape[-1])
    rows = rows[np.isfinite(rows).all(axis=1)]
    if len(rows) == 0:
        return [1.0] * last.shape[-1]
    return [float(spread) or 1.0 for spread in np.ptp(rows, axis=0)]


def _diagnostics(beta: float, at_chosen: FloatArray, at_evaluated: FloatArray) -> dict[str, Any]:
    """Plain lists from ``at_chosen`` [K, 2, m] (mean change, β·σ) and ``at_evaluated`` [K, P, m]."""
    return {
        "beta": beta,
        "predicted_change": at_chosen[:, 0].tolist(),
        "beta_sigma": at_chosen[:, 1].tolist(),
        "predicted": at_evaluated.tolist(),
    }
