"""The methods: what each chooses on data small enough to work out by hand, and whose randomness it uses."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from ucb_moppo.errors import ConfigError
from ucb_moppo.registry import METHODS, SELECTIONS
from ucb_moppo.search.acquisition import HypervolumeScore
from ucb_moppo.search.methods import Method, SearchContext, Tools
from ucb_moppo.search.surrogate import BaggedElasticNet, Prediction


def method(name: str, surrogate: object = None, selection: str = "sequential", num_objectives: int = 2) -> Method:
    tools = Tools(
        surrogate=surrogate or BaggedElasticNet(),
        score=HypervolumeScore((0.0,) * num_objectives),
        select=SELECTIONS.find(selection),
    )
    return METHODS.find(name)(tools)


def make_context(num_policies: int = 3, num_evaluations: int = 4, num_active: int = 4) -> SearchContext:
    """K intervals of two objectives, 21 candidates and 5 probes each, values on a growing quarter circle."""
    edges = np.linspace(0, 1, num_policies + 1)
    first = np.stack([np.linspace(a, b, 21) for a, b in itertools.pairwise(edges)])
    candidates = np.stack([first, 1 - first], axis=-1)
    probes = candidates[:, ::5]
    growth = 100 * (1 + np.arange(num_evaluations))[:, None, None, None]
    values = growth * probes / np.linalg.norm(probes, axis=-1, keepdims=True)
    values = values + np.random.default_rng(0).normal(0, 1, values.shape)
    return SearchContext(
        pivots=candidates[:, 10],
        candidates=candidates,
        evaluated_weights=probes,
        values=values,
        stage=2,
        num_active=num_active,
        rng_seed=(11, 120),
        policy_ids=tuple(range(num_policies)),
    )


def only(context: SearchContext, policy: int) -> SearchContext:
    """The context with one of its policies alone."""
    return replace(
        context,
        pivots=context.pivots[[policy]],
        candidates=context.candidates[[policy]],
        evaluated_weights=context.evaluated_weights[[policy]],
        values=context.values[:, [policy]],
        policy_ids=(context.policy_ids[policy],),
    )


def as_set(weights: np.ndarray) -> set[tuple[float, ...]]:
    return {tuple(weight) for weight in weights.tolist()}


@dataclass(frozen=True)
class UncertainToTheRight:
    """A surrogate of known answers: no change anywhere, std = 2·w_1."""

    def fit(self, weights: np.ndarray, changes: np.ndarray, prior_std: float, seed: int) -> UncertainToTheRight:
        return self

    def predict(self, weights: np.ndarray) -> Prediction:
        return Prediction(np.zeros(len(weights)), 2 * weights[:, 0])


@pytest.mark.parametrize("selection", ["sequential", "top_n"])
def test_ucb_and_mean_by_hand(selection: str) -> None:
    # One policy, every candidate evaluated: w_1 = 0, 0.5, 1 have values (3,3), (2,2), (2.5,2.5) and
    # σ = 0, 1, 2. UCB at stage 1, β = sqrt(log 2) = 0.8326: (3,3), (2.83,2.83), (4.17,4.17): the last.
    weights = np.array([[[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]])
    context = SearchContext(
        pivots=weights[:, 1],
        candidates=weights,
        evaluated_weights=weights,
        values=np.array([[[[3.0, 3.0], [2.0, 2.0], [2.5, 2.5]]]]),
        stage=1,
        num_active=1,
        rng_seed=(0, 0),
        policy_ids=(0,),
    )
    beta = np.sqrt(np.log(2))
    ucb = method("ucb", UncertainToTheRight(), selection).choose(context)
    np.testing.assert_array_equal(ucb.weights, [[[1.0, 0.0]]])
    assert ucb.diagnostics["beta"] == pytest.approx(beta)
    assert ucb.diagnostics["predicted_change"] == [[0.0, 0.0]]
    np.testing.assert_allclose(ucb.diagnostics["beta_sigma"], [[2 * beta, 2 * beta]])
    # Under the mean, (3,3) adds nothing to an L that holds it, and neither does any other candidate: all tie,
    # and one pick spread evenly is the middle one.
    mean = method("mean", UncertainToTheRight(), selection).choose(context)
    np.testing.assert_array_equal(mean.weights, [[[0.5, 0.5]]])
    assert mean.diagnostics["beta"] == 0
    assert mean.diagnostics["beta_sigma"] == [[0.0, 0.0]]


@dataclass(frozen=True)
class GrowsToTheLeft(UncertainToTheRight):
    """As above, with a mean change of w_2."""

    def predict(self, weights: np.ndarray) -> Prediction:
        return Prediction(weights[:, 1], 2 * weights[:, 0])


def test_mean_follows_the_predicted_change_and_ucb_the_uncertainty() -> None:
    # All values (1,1). Mean: w_1 = 0 grows most, to (2,2). UCB, in both objectives: 1 + 1 + 0 = 2,
    # 1 + 0.5 + 0.83 = 2.33, 1 + 0 + 1.67 = 2.67: w_1 = 1.
    weights = np.array([[[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]])
    context = replace(
        make_context(num_policies=1, num_active=1),
        pivots=weights[:, 1],
        candidates=weights,
        evaluated_weights=weights,
        values=np.ones((1, 1, 3, 2)),
        stage=1,
    )
    np.testing.assert_array_equal(method("mean", GrowsToTheLeft()).choose(context).weights, [[[0, 1]]])
    np.testing.assert_array_equal(method("ucb", GrowsToTheLeft()).choose(context).weights, [[[1, 0]]])


def test_every_policy_starts_from_the_front_of_all() -> None:
    weights = np.array([[[0.0, 1.0], [0.1, 0.9], [0.2, 0.8]], [[0.8, 0.2], [0.9, 0.1], [1.0, 0.0]]])
    context = SearchContext(
        pivots=weights[:, 1],
        candidates=weights,
        evaluated_weights=weights,
        values=np.array([[[[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], [[9.0, 9.0], [1.0, 1.0], [1.0, 1.0]]]]),
        stage=1,
        num_active=2,
        rng_seed=(0, 0),
        policy_ids=(0, 1),
    )

    @dataclass(frozen=True)
    class Grows:
        def fit(self, weights: np.ndarray, changes: np.ndarray, prior_std: float, seed: int) -> Grows:
            return self

        def predict(self, weights: np.ndarray) -> Prediction:
            return Prediction(np.ones(len(weights)), np.zeros(len(weights)))

    # Growing by (1,1), policy 0 reaches (4,4) at most, which policy 1's (9,9) dominates: its picks are
    # spread, in the order of w_1. Alone, the last, (4,4), is its best and comes first, then the rest ties.
    together = method("mean", Grows()).choose(context).weights[0]
    np.testing.assert_array_equal(together, weights[0, [0, 2]])
    alone = method("mean", Grows()).choose(only(context, 0)).weights[0]
    np.testing.assert_array_equal(alone, weights[0, [2, 0]])


def test_prior_std_is_the_range_of_each_objective_over_the_last_evaluation() -> None:
    seen: list[tuple[float, int]] = []

    @dataclass(frozen=True)
    class Recorder(UncertainToTheRight):
        def fit(self, weights: np.ndarray, changes: np.ndarray, prior_std: float, seed: int) -> Recorder:
            seen.append((prior_std, seed))
            return self

    context = make_context(num_policies=2)
    values = np.zeros((2, 2, 5, 2))
    values[1, 0, 0] = [10, 0]
    values[1, 1, 0] = [-5, 0]
    values[1, 1, 1] = [np.nan, 1e9]
    method("ucb", Recorder()).choose(replace(context, values=values))
    assert [prior for prior, _ in seen] == [15, 1, 15, 1]  # the second objective has no range
    assert len({seed for _, seed in seen}) == 4  # a seed for every policy and objective


def test_a_simulated_candidate_keeps_its_own_value() -> None:
    # All candidates evaluated, one far better than its neighbours: it is chosen first, not smoothed away.
    context = make_context(num_policies=1, num_active=1)
    values = np.ones((1, 1, 21, 2))
    values[0, 0, 13] = [8, 8]
    context = replace(context, evaluated_weights=context.candidates, values=values)
    chosen = method("mean", GrowsToTheLeft()).choose(context).weights
    np.testing.assert_array_equal(chosen[0, 0], context.candidates[0, 13])


@pytest.mark.parametrize("name", ["ucb", "mean", "random", "fixed"])
@pytest.mark.parametrize("selection", ["sequential", "top_n"])
def test_shapes_diagnostics_and_determinism(name: str, selection: str) -> None:
    context = make_context()
    chosen = method(name, selection=selection).choose(context)
    again = method(name, selection=selection).choose(context)
    assert chosen.weights.shape == (3, 4, 2)
    np.testing.assert_array_equal(chosen.weights, again.weights)
    assert json.loads(json.dumps(chosen.diagnostics, allow_nan=False)) == again.diagnostics
    if name in ("ucb", "mean"):
        assert np.shape(chosen.diagnostics["predicted"]) == (3, 5, 2)
        assert np.shape(chosen.diagnostics["predicted_change"]) == (3, 2)
        assert np.shape(chosen.diagnostics["beta_sigma"]) == (3, 2)


@pytest.mark.parametrize("name", ["ucb", "mean", "random"])
def test_choices_are_distinct_candidates_of_the_own_sub_space(name: str) -> None:
    context = make_context()
    for chosen, candidates in zip(method(name).choose(context).weights, context.candidates, strict=True):
        assert len(as_set(chosen)) == 4
        assert as_set(chosen) <= as_set(candidates)


def test_fixed_repeats_the_pivot() -> None:
    context = make_context()
    chosen = method("fixed").choose(context).weights
    for n in range(4):
        np.testing.assert_array_equal(chosen[:, n], context.pivots)


def test_random_streams_belong_to_policies() -> None:
    context = make_context()
    random = method("random")
    together = random.choose(context).weights
    for policy in range(3):
        np.testing.assert_array_equal(random.choose(only(context, policy)).weights[0], together[policy])
    later = random.choose(replace(context, rng_seed=(11, 140))).weights
    assert as_set(later[0]) != as_set(together[0])


def test_random_is_uniform_over_the_candidates() -> None:
    # 600 draws of 4 from 21: each is expected 600·4/21 = 114 times, with a standard deviation of about 10.
    context = make_context(num_policies=1)
    counts = dict.fromkeys(as_set(context.candidates[0]), 0)
    for iteration in range(600):
        for weight in as_set(method("random").choose(replace(context, rng_seed=(0, iteration))).weights[0]):
            counts[weight] += 1
    assert all(60 < count < 170 for count in counts.values())


def test_surrogate_fits_do_not_depend_on_the_company() -> None:
    context = make_context()
    together = method("ucb").choose(context).diagnostics["predicted"]
    for policy in range(3):
        alone = method("ucb").choose(only(context, policy)).diagnostics["predicted"]
        np.testing.assert_array_equal(alone[0], together[policy])


@pytest.mark.parametrize("name", ["ucb", "mean"])
def test_a_diverged_policy_is_spread_evenly_and_disturbs_nobody(name: str) -> None:
    context = make_context(num_active=3)
    values = context.values.copy()
    values[-1, 1] = np.nan
    diverged = method(name).choose(replace(context, values=values))
    np.testing.assert_array_equal(
        np.sort(diverged.weights[1, :, 0]), np.sort(context.candidates[1, [0, 10, 20], 0])
    )
    json.dumps(diverged.diagnostics, allow_nan=False)
    # The others choose as if the diverged policy had only worthless values.
    values[-1, 1] = -1.0
    worthless = method(name).choose(replace(context, values=values))
    np.testing.assert_array_equal(diverged.weights[[0, 2]], worthless.weights[[0, 2]])


@pytest.mark.parametrize("values", [np.zeros((0, 3, 5, 2)), np.full((3, 3, 5, 2), np.nan), np.ones((1, 3, 5, 2))])
def test_missing_evaluations_never_yield_nan(values: np.ndarray) -> None:
    chosen = method("ucb").choose(replace(make_context(), values=values))
    assert np.isfinite(chosen.weights).all()
    json.dumps(chosen.diagnostics, allow_nan=False)


def test_the_surrogate_foresees_steady_growth() -> None:
    # Values grow by 100 w/|w| a stage with noise of 1: a linear model comes near it inside a sub-space.
    context = make_context(num_evaluations=8)
    expected = 100 * context.evaluated_weights / np.linalg.norm(context.evaluated_weights, axis=-1, keepdims=True)
    predicted = np.array(method("ucb").choose(context).diagnostics["predicted"])
    assert np.abs(predicted - expected).mean() < 5


def test_three_objectives() -> None:
    rng = np.random.default_rng(0)
    candidates = rng.dirichlet(np.ones(3), (4, 12))
    context = SearchContext(
        pivots=candidates[:, 0],
        candidates=candidates,
        evaluated_weights=candidates[:, :5],
        values=rng.uniform(10, 100, (3, 4, 5, 3)),
        stage=3,
        num_active=4,
        rng_seed=(0, 60),
        policy_ids=(4, 5, 6, 7),
    )
    chosen = method("ucb", num_objectives=3).choose(context).weights
    assert chosen.shape == (4, 4, 3)
    assert all(len(as_set(policy)) == 4 for policy in chosen)


def test_unknown_names_are_met_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'randm'.*random"):
        method("randm")
    with pytest.raises(ConfigError, match=r"'top'.*top_n"):
        method("ucb", selection="top")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_active": 22}, "num_active is 22.*21"),
        ({"num_active": 0}, "num_active is 0"),
        ({"policy_ids": (0, 1)}, "2 policy_ids for 3"),
        ({"values": np.zeros((2, 3, 4, 2))}, r"values has shape \(2, 3, 4, 2\)"),
        ({"candidates": np.zeros((2, 21, 2))}, r"candidates has shape \(2, 21, 2\)"),
    ],
)
def test_a_context_that_does_not_fit_together_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(make_context(), **changes)
