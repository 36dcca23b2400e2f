"""The methods: what each chooses on data small enough to work out by hand, and whose randomness it uses."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives.weights import subspace_width
from ucb_moppo.registry import METHODS, SELECTIONS
from ucb_moppo.search.acquisition import HypervolumeScore
from ucb_moppo.search.methods import Method, SearchContext, Tools, choose_by_search
from ucb_moppo.search.situations import UNIFORM, Situations, relative_density
from ucb_moppo.search.surrogate import (
    BaggedElasticNet,
    BaggedRidge,
    GaussianProcessModel,
    NoChangeModel,
    interpolate_values,
)


def paper(name: str, surrogate: object = None, selection: str = "sequential", num_objectives: int = 2) -> Method:
    """The method as the paper has it."""
    tools = Tools(
        surrogate=surrogate or BaggedElasticNet(),
        score=HypervolumeScore((0.0,) * num_objectives),
        select=SELECTIONS.find(selection),
        confidence="objectives",
    )
    return METHODS.find(name)(tools)


def default(name: str, surrogate: object = None) -> Method:
    """The method as we have it."""
    return METHODS.find(name)(default_tools(surrogate or BaggedRidge()))


def default_tools(surrogate: object) -> Tools:
    return Tools(surrogate, HypervolumeScore((0.0, 0.0)), SELECTIONS.find("focused"), "score")


def context_of(weights: np.ndarray, values: object, num_active: int = 1, **changes: object) -> SearchContext:
    """Every candidate evaluated: ``weights`` [K, M, m] with ``values`` [Z, K, M, m], the last of which is L."""
    values = np.array(values, dtype=float)
    context = SearchContext(
        pivots=weights[:, weights.shape[1] // 2],
        candidates=weights,
        evaluated_weights=weights,
        values=values,
        front=values[-1].reshape(-1, values.shape[-1]),
        density=np.ones((len(values) - 1, *weights.shape[:2])),
        rates=np.ones(len(values)),
        stage=1,
        num_active=num_active,
        rng_seed=(0, 0),
    )
    return replace(context, **changes)


def make_context(num_policies: int = 3, num_evaluations: int = 4, num_active: int = 4) -> SearchContext:
    """K intervals of two objectives, 21 candidates and 5 probes each, values on a growing quarter circle."""
    edges = np.linspace(0, 1, num_policies + 1)
    first = np.stack([np.linspace(a, b, 21) for a, b in itertools.pairwise(edges)])
    candidates = np.stack([first, 1 - first], axis=-1)
    probes = candidates[:, ::5]
    growth = 100 * (1 + np.arange(num_evaluations))[:, None, None, None]
    values = growth * probes / np.linalg.norm(probes, axis=-1, keepdims=True)
    values = values + np.random.default_rng(0).normal(0, 1, values.shape)
    return with_values(
        SearchContext(
            pivots=candidates[:, 10],
            candidates=candidates,
            evaluated_weights=probes,
            values=np.zeros((1, *probes.shape)),
            front=np.zeros((0, 2)),
            density=np.zeros((0, num_policies, 5)),
            rates=np.ones(1),
            stage=2,
            num_active=num_active,
            rng_seed=(11, 120),
        ),
        values,
    )


def with_values(context: SearchContext, values: np.ndarray) -> SearchContext:
    """The context with other evaluations [Z, K, P, m], their stages all alike; the last is what L holds."""
    return replace(
        context,
        values=values,
        front=values[-1:].reshape(-1, values.shape[-1]),
        density=np.ones((max(0, len(values) - 1), *values.shape[1:3])),
        rates=np.ones(len(values)),
    )


def only(context: SearchContext, *policies: int) -> SearchContext:
    """The context with some of its policies, and L still that of all."""
    rows = list(policies)
    return replace(
        context,
        pivots=context.pivots[rows],
        candidates=context.candidates[rows],
        evaluated_weights=context.evaluated_weights[rows],
        values=context.values[:, rows],
        density=context.density[:, rows],
    )


def as_set(weights: np.ndarray) -> set[tuple[float, ...]]:
    return {tuple(weight) for weight in weights.tolist()}


class Draws:
    """A surrogate of known answers that no data change."""

    def fit(self, situations: Situations, changes: np.ndarray, prior_std: np.ndarray, seed: int) -> Draws:
        return self

    def draw(self, situations: Situations) -> np.ndarray:
        """Two members at ``mean`` ± ``std`` [n], alike in both objectives."""
        mean, std = self.mean(situations), self.std(situations)
        return np.repeat(np.stack([mean - std, mean + std])[..., None], 2, axis=-1)

    def mean(self, situations: Situations) -> np.ndarray:
        return np.zeros(len(situations))

    def std(self, situations: Situations) -> np.ndarray:
        return np.zeros(len(situations))


class UncertainToTheRight(Draws):
    """No change anywhere, std = 2·w_1."""

    def std(self, situations: Situations) -> np.ndarray:
        return 2 * situations.weights[:, 0]


class GrowsToTheLeft(UncertainToTheRight):
    """As above, with a mean change of w_2."""

    def mean(self, situations: Situations) -> np.ndarray:
        return situations.weights[:, 1]


class Grows(Draws):
    """By 1 everywhere."""

    def mean(self, situations: Situations) -> np.ndarray:
        return np.ones(len(situations))


THREE = np.array([[[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]])


@pytest.mark.parametrize("selection", ["sequential", "top_n"])
def test_ucb_and_mean_by_hand(selection: str) -> None:
    # One policy, every candidate evaluated: w_1 = 0, 0.5, 1 have values (3,3), (2,2), (2.5,2.5) and
    # σ = 0, 1, 2. UCB at stage 1, β = sqrt(log 2) = 0.8326: (3,3), (2.83,2.83), (4.17,4.17): the last.
    context = context_of(THREE, [[[[3, 3], [2, 2], [2.5, 2.5]]]])
    beta = np.sqrt(np.log(2))
    ucb = paper("ucb", UncertainToTheRight(), selection).choose(context)
    np.testing.assert_array_equal(ucb.weights, [[[1.0, 0.0]]])
    assert ucb.diagnostics["beta"] == pytest.approx(beta)
    assert ucb.diagnostics["predicted_change"] == [[0.0, 0.0]]
    np.testing.assert_allclose(ucb.diagnostics["beta_sigma"], [[2 * beta, 2 * beta]])
    assert ucb.diagnostics["predicted"] == [[[0, 0]] * 3]
    np.testing.assert_allclose(ucb.diagnostics["sigma"], [[[0, 0], [1, 1], [2, 2]]])
    # Under the mean, (3,3) adds nothing to an L that holds it, and neither does any other candidate: all tie,
    # and one pick spread evenly is the middle one.
    mean = paper("mean", UncertainToTheRight(), selection).choose(context)
    np.testing.assert_array_equal(mean.weights, [[[0.5, 0.5]]])
    assert mean.diagnostics["beta"] == 0
    assert mean.diagnostics["beta_sigma"] == [[0.0, 0.0]]


def test_mean_follows_the_predicted_change_and_ucb_the_uncertainty() -> None:
    # All values (1,1). Mean: w_1 = 0 grows most, to (2,2). UCB, in both objectives: 1 + 1 + 0 = 2,
    # 1 + 0.5 + 0.83 = 2.33, 1 + 0 + 1.67 = 2.67: w_1 = 1.
    context = context_of(THREE, np.ones((1, 1, 3, 2)))
    np.testing.assert_array_equal(paper("mean", GrowsToTheLeft()).choose(context).weights, [[[0, 1]]])
    np.testing.assert_array_equal(paper("ucb", GrowsToTheLeft()).choose(context).weights, [[[1, 0]]])


def test_the_bound_of_the_score_by_hand() -> None:
    # All values (3,3), L = {(3,3)}: 9. w_1 = 0 becomes (4,4) for sure: 16. w_1 = 0.5 (2.5,2.5) or (4.5,4.5): 9 or
    # 20.25, mean 14.625, std 5.625. w_1 = 1 (1,1) or (5,5): 9 or 25, mean 17, std 8. The last wins at any β: with
    # L as it is, nothing is lost by what may be worse. Objective by objective β = 0 has 16, 12.25 and 9.
    context = context_of(THREE, np.full((1, 1, 3, 2), 3.0), num_active=2)
    for name in ("mean", "ucb"):
        chosen = default(name, GrowsToTheLeft()).choose(context).weights
        np.testing.assert_array_equal(chosen[0, 0], [1, 0])
    np.testing.assert_array_equal(paper("mean", GrowsToTheLeft()).choose(context).weights[0, 0], [0, 1])


TWO_POLICIES = np.array([[[0.0, 1.0], [0.1, 0.9], [0.2, 0.8]], [[0.8, 0.2], [0.9, 0.1], [1.0, 0.0]]])


def test_every_policy_starts_from_the_front_of_all() -> None:
    values = np.array([[[[1, 1], [2, 2], [3, 3]], [[9, 9], [1, 1], [1, 1]]]], dtype=float)
    context = context_of(TWO_POLICIES, values, num_active=2)
    # Growing by (1,1), policy 0 reaches (4,4) at most, which policy 1's (9,9) dominates: its picks are
    # spread, in the order of w_1. Alone, the last, (4,4), is its best and comes first, then the rest ties.
    together = paper("mean", Grows()).choose(context).weights[0]
    np.testing.assert_array_equal(together, TWO_POLICIES[0, [0, 2]])
    alone = replace(only(context, 0), front=values[0, 0])
    np.testing.assert_array_equal(paper("mean", Grows()).choose(alone).weights[0], TWO_POLICIES[0, [2, 0]])


def test_the_front_to_improve_is_what_is_kept_not_what_was_last_found() -> None:
    # The last evaluation found (3,3) at best. What is kept from earlier, (5,5), no growth by (1,1) reaches.
    context = context_of(THREE, [[[[1, 1], [1, 1], [3, 3]]]])
    np.testing.assert_array_equal(paper("mean", Grows()).choose(context).weights, [[[1, 0]]])
    kept = replace(context, front=np.array([[0.0, 9.0], [5.0, 5.0]]))
    np.testing.assert_array_equal(paper("mean", Grows()).choose(kept).weights, [[[0.5, 0.5]]])  # spread


# --- sub-spaces that share a policy -----------------------------------------------------------------------------


def one_grows(num_active: int) -> SearchContext:
    """Growing by (1,1), sub-space 0 reaches (2,1), beneath (9,1); sub-space 1 (2,8), (3,7) and (4,6).

    Above L = {(1,7), (2,6), (3,5), (9,1)} these add 1 + 2 = 3, 1 + 2 = 3 and 1 + 5 = 6. Beside (4,6) it is 3 and
    1 + 1 = 2; beside (2,8) too, (3,7) adds 1.
    """
    values = [[[[1, 0], [1, 0], [1, 0]], [[1, 7], [2, 6], [3, 5]]]]
    front = np.array([[9.0, 1.0], [3.0, 5.0], [2.0, 6.0], [1.0, 7.0]])
    return context_of(TWO_POLICIES, values, num_active, front=front)


@pytest.mark.parametrize("selection", ["sequential", "top_n"])
def test_sub_spaces_that_share_a_policy_give_their_environments_to_where_the_front_grows(selection: str) -> None:
    # Apart, each sub-space has two environments; together, the one that grows has three of four.
    context = one_grows(num_active=2)
    apart = paper("mean", Grows(), selection).choose(context).weights
    assert as_set(apart[0]) <= as_set(TWO_POLICIES[0])
    assert as_set(apart[1]) <= as_set(TWO_POLICIES[1])
    together = paper("mean", Grows(), selection).choose(replace(context, group=2)).weights
    assert together.shape == (2, 2, 2)
    assert as_set(TWO_POLICIES[1]) < as_set(together.reshape(-1, 2))


def test_all_weights_may_go_to_one_sub_space() -> None:
    context = replace(one_grows(num_active=1), group=2)
    together = paper("mean", Grows()).choose(context).weights
    np.testing.assert_array_equal(together, [[[1.0, 0.0]], [[0.8, 0.2]]])
    # Focused, two of six: in the order of what they add. The others are spread over the ranks of all six weights.
    chosen = default("mean", Grows()).choose(replace(context, num_active=3)).weights
    np.testing.assert_array_equal(chosen[0, :, 0], [1.0, 0.8, 0.0])
    np.testing.assert_array_equal(chosen[1, :, 0], [0.2, 0.8, 1.0])


def test_groups_choose_each_for_themselves() -> None:
    # Four sub-spaces in two groups choose as each pair does alone.
    context = make_context(num_policies=4)
    grouped = paper("ucb", GrowsToTheLeft()).choose(replace(context, group=2)).weights
    for pair in ((0, 1), (2, 3)):
        alone = paper("ucb", GrowsToTheLeft()).choose(replace(only(context, *pair), group=2)).weights
        np.testing.assert_array_equal(grouped[list(pair)], alone)
        assert as_set(alone.reshape(-1, 2)) <= as_set(context.candidates[list(pair)].reshape(-1, 2))


# --- what the surrogate is told and asked -----------------------------------------------------------------------


@dataclass
class Recorder(Draws):
    """Remembers what it was fitted to and asked about."""

    fits: list[tuple] = field(default_factory=list)
    asked: list[Situations] = field(default_factory=list)

    def fit(self, *data: object) -> Recorder:
        self.fits.append(data)
        return self

    def draw(self, situations: Situations) -> np.ndarray:
        self.asked.append(situations)
        return super().draw(situations)


def test_prior_std_is_the_range_of_each_objective_over_the_last_evaluation() -> None:
    values = np.zeros((2, 2, 5, 2))
    values[1, 0, 0] = [10, 0]
    values[1, 1, 0] = [-5, 0]
    values[1, 1, 1] = [np.nan, 1e9]
    recorder = Recorder()
    paper("ucb", recorder).choose(with_values(make_context(num_policies=2), values))
    ((_, _, prior_std, _),) = recorder.fits  # one model for all policies and objectives
    np.testing.assert_array_equal(prior_std, [15, 1])  # the second objective has no range


def test_the_seed_of_a_fit_follows_that_of_the_choice() -> None:
    recorder = Recorder()
    for rng_seed in ((11, 120), (11, 120), (11, 140)):
        paper("ucb", recorder).choose(replace(make_context(), rng_seed=rng_seed))
    first, again, later = (seed for *_, seed in recorder.fits)
    assert first == again != later


def two_stages() -> SearchContext:
    """K=2, P=2, m=2, Z=3; the second probe of policy 0 has no value in between."""
    weights = np.array([[[0.2, 0.8], [0.4, 0.6]], [[0.6, 0.4], [0.8, 0.2]]])
    values = [
        [[[0, 0], [5, 5]], [[10, 0], [20, 0]]],
        [[[1, 2], [np.nan, np.nan]], [[11, 1], [22, 2]]],
        [[[4, 2], [6, 6]], [[13, 3], [26, 6]]],
    ]
    return context_of(
        weights,
        values,
        pivots=np.array([[0.3, 0.7], [0.7, 0.3]]),
        density=np.array([[[1.0, 1.1], [1.2, 1.3]], [[2.0, 2.1], [2.2, 2.3]]]),
        rates=np.array([1.0, 0.6, 0.3]),
    )


def test_experience_is_what_each_stage_changed_by_hand() -> None:
    situations, changes = two_stages().experience()
    nan = np.nan
    np.testing.assert_array_equal(changes, [[1, 2], [nan, nan], [1, 1], [2, 2], [3, 0], [nan, nan], [2, 2], [4, 4]])
    np.testing.assert_array_equal(situations.subspace, [0, 0, 1, 1, 0, 0, 1, 1])
    np.testing.assert_array_equal(situations.weights[:, 0], [0.2, 0.4, 0.6, 0.8] * 2)
    np.testing.assert_allclose(situations.places[:, 0], [-0.1, 0.1, -0.1, 0.1] * 2)
    # The values before the stage, its density and rate; the first of two stages is one older than the last.
    np.testing.assert_array_equal(situations.values[:, 0], [0, 5, 10, 20, 1, nan, 11, 22])
    np.testing.assert_array_equal(situations.density, [1.0, 1.1, 1.2, 1.3, 2.0, 2.1, 2.2, 2.3])
    np.testing.assert_array_equal(situations.rate, [1.0] * 4 + [0.6] * 4)
    np.testing.assert_array_equal(situations.age, [1.0] * 4 + [0.0] * 4)


def test_experience_lists_stages_policies_and_probes_in_that_order() -> None:
    context = make_context(num_evaluations=5)
    situations, changes = context.experience()
    rows = itertools.product(range(4), range(3), range(5))
    for row, (z, k, p) in enumerate(rows):
        assert situations.subspace[row] == k
        np.testing.assert_array_equal(situations.weights[row], context.evaluated_weights[k, p])
        np.testing.assert_array_equal(situations.values[row], context.values[z, k, p])
        np.testing.assert_array_equal(changes[row], context.values[z + 1, k, p] - context.values[z, k, p])
    assert len(situations) == len(changes) == 4 * 3 * 5


@pytest.mark.parametrize("num_evaluations", [0, 1])
def test_before_two_evaluations_there_is_no_experience(num_evaluations: int) -> None:
    context = with_values(make_context(), np.ones((num_evaluations, 3, 5, 2)))
    situations, changes = context.experience()
    assert len(situations) == 0
    assert situations.features().shape == (0, 8)
    assert changes.shape == (0, 2)


def test_ahead_is_now_at_any_weight() -> None:
    # Sub-space 0 has (4,2) at w_1 = 0.2 and (6,6) at 0.4: halfway between them (5,4).
    weights = np.array([[[0.3, 0.7]], [[0.8, 0.2]]])
    ahead = two_stages().ahead(weights, 1.7)
    np.testing.assert_allclose(ahead.values, [[5, 4], [26, 6]])
    np.testing.assert_array_equal(ahead.subspace, [0, 1])
    np.testing.assert_array_equal(ahead.weights, weights[:, 0])
    np.testing.assert_allclose(ahead.places, [[0, 0], [0.1, -0.1]], atol=1e-12)
    np.testing.assert_array_equal(ahead.density, [1.7, 1.7])
    np.testing.assert_array_equal(ahead.rate, [0.3, 0.3])  # of the stage that comes
    np.testing.assert_array_equal(ahead.age, [0, 0])


def test_candidates_are_asked_about_as_if_chosen_and_probes_as_they_will_be_trained() -> None:
    context, recorder = make_context(), Recorder()
    chosen = paper("ucb", recorder).choose(context).weights
    candidates, probes = recorder.asked
    np.testing.assert_array_equal(candidates.weights, context.candidates.reshape(-1, 2))
    np.testing.assert_array_equal(probes.weights, context.evaluated_weights.reshape(-1, 2))
    # No stage has trained more densely than evenly yet: nothing is known beyond.
    assert set(candidates.density) == {UNIFORM}
    width = subspace_width(context.pivots) / 2
    expected = [relative_density(chosen[k], context.evaluated_weights[k], width) for k in range(3)]
    np.testing.assert_allclose(probes.density, np.concatenate(expected))
    np.testing.assert_array_equal(probes.values, context.values[-1].reshape(-1, 2))
    for k in range(3):
        expected = interpolate_values(context.evaluated_weights[k], context.values[-1, k], context.candidates[k])
        np.testing.assert_array_equal(candidates.values[candidates.subspace == k], expected)


def test_diagnostics_say_what_was_foreseen_at_the_chosen_and_at_the_evaluated_weights() -> None:
    context = replace(make_context(num_policies=2), group=2)
    chosen = choose_by_search(context, tools=default_tools(GrowsToTheLeft()), beta_of=lambda stage: 0.5)
    probes = context.evaluated_weights
    np.testing.assert_allclose(chosen.diagnostics["predicted"], np.repeat(probes[..., 1:], 2, axis=-1), atol=1e-12)
    np.testing.assert_allclose(chosen.diagnostics["sigma"], np.repeat(2 * probes[..., :1], 2, axis=-1))
    # The two choose together: what a row of the weights holds is no sub-space's own.
    means = np.repeat(chosen.weights.mean(axis=(0, 1))[None], 2, axis=0)
    np.testing.assert_allclose(chosen.diagnostics["predicted_change"], np.repeat(means[:, 1:], 2, axis=-1))
    np.testing.assert_allclose(chosen.diagnostics["beta_sigma"], np.repeat(means[:, :1], 2, axis=-1))


def test_a_simulated_candidate_keeps_its_own_value() -> None:
    # All candidates evaluated, one far better than its neighbours: it is chosen first, not smoothed away.
    context = make_context(num_policies=1, num_active=1)
    values = np.ones((1, 1, 21, 2))
    values[0, 0, 13] = [8, 8]
    context = with_values(replace(context, **simulated(context)), values)
    chosen = paper("mean", GrowsToTheLeft()).choose(context).weights
    np.testing.assert_array_equal(chosen[0, 0], context.candidates[0, 13])


def simulated(context: SearchContext) -> dict[str, np.ndarray]:
    """Nothing evaluated yet, and all candidates to be."""
    shape = context.candidates.shape[:2]
    return {
        "evaluated_weights": context.candidates,
        "values": np.zeros((1, *context.candidates.shape)),
        "density": np.zeros((0, *shape)),
        "rates": np.ones(1),
    }


# --- all methods ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ucb", "mean", "random", "fixed"])
@pytest.mark.parametrize("selection", ["sequential", "top_n", "focused"])
@pytest.mark.parametrize("group", [1, 3])
def test_shapes_diagnostics_and_determinism(name: str, selection: str, group: int) -> None:
    context = replace(make_context(), group=group)
    chosen = paper(name, selection=selection).choose(context)
    again = paper(name, selection=selection).choose(context)
    assert chosen.weights.shape == (3, 4, 2)
    np.testing.assert_array_equal(chosen.weights, again.weights)
    assert json.loads(json.dumps(chosen.diagnostics, allow_nan=False)) == again.diagnostics
    if name in ("ucb", "mean"):
        assert np.shape(chosen.diagnostics["predicted"]) == (3, 5, 2)
        assert np.shape(chosen.diagnostics["sigma"]) == (3, 5, 2)
        assert np.shape(chosen.diagnostics["predicted_change"]) == (3, 2)
        assert np.shape(chosen.diagnostics["beta_sigma"]) == (3, 2)


MODELS = [BaggedElasticNet(), BaggedRidge(), GaussianProcessModel(), NoChangeModel(10)]
any_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)


@any_model
@pytest.mark.parametrize("name", ["ucb", "mean"])
def test_any_surrogate_serves_the_default_method(name: str, model: object) -> None:
    context = make_context()
    chosen, again = (default(name, model).choose(context) for _ in range(2))
    np.testing.assert_array_equal(chosen.weights, again.weights)
    assert json.loads(json.dumps(chosen.diagnostics, allow_nan=False)) == again.diagnostics
    assert np.shape(chosen.diagnostics["predicted"]) == np.shape(chosen.diagnostics["sigma"]) == (3, 5, 2)
    assert (np.array(chosen.diagnostics["sigma"]) > 0).all()
    for own, candidates in zip(chosen.weights, context.candidates, strict=True):
        assert as_set(own) <= as_set(candidates)


@pytest.mark.parametrize("name", ["ucb", "mean", "random"])
def test_choices_are_distinct_candidates_of_the_own_sub_space(name: str) -> None:
    context = make_context()
    for chosen, candidates in zip(paper(name).choose(context).weights, context.candidates, strict=True):
        assert len(as_set(chosen)) == 4
        assert as_set(chosen) <= as_set(candidates)


def test_fixed_repeats_the_pivot() -> None:
    context = make_context()
    chosen = paper("fixed").choose(context).weights
    for n in range(4):
        np.testing.assert_array_equal(chosen[:, n], context.pivots)


def test_random_streams_belong_to_sub_spaces() -> None:
    context = make_context()
    random = paper("random")
    together = random.choose(context).weights
    for count in (1, 2):
        first = range(count)
        np.testing.assert_array_equal(random.choose(only(context, *first)).weights, together[list(first)])
    np.testing.assert_array_equal(random.choose(replace(context, group=3)).weights, together)
    later = random.choose(replace(context, rng_seed=(11, 140))).weights
    assert as_set(later[0]) != as_set(together[0])
    ranks = [
        np.searchsorted(own[:, 0], chosen[:, 0]) for own, chosen in zip(context.candidates, together, strict=True)
    ]
    assert len({tuple(sorted(rank)) for rank in ranks}) == 3


def test_random_is_uniform_over_the_candidates() -> None:
    # 600 draws of 4 from 21: each is expected 600·4/21 = 114 times, with a standard deviation of about 10.
    context = make_context(num_policies=1)
    counts = dict.fromkeys(as_set(context.candidates[0]), 0)
    for iteration in range(600):
        for weight in as_set(paper("random").choose(replace(context, rng_seed=(0, iteration))).weights[0]):
            counts[weight] += 1
    assert all(60 < count < 170 for count in counts.values())


def test_elastic_nets_do_not_depend_on_the_company() -> None:
    context = make_context()
    together = paper("ucb").choose(context).diagnostics["predicted"]
    for count in (1, 2):
        alone = paper("ucb").choose(only(context, *range(count))).diagnostics["predicted"]
        np.testing.assert_array_equal(alone, together[:count])


def diverged_and_worthless(num_active: int) -> tuple[SearchContext, SearchContext]:
    """Policy 1 without any value in the last evaluation, and with values that are worth nothing."""
    context = make_context(num_active=num_active)
    values = np.stack([context.values] * 2)
    values[0, -1, 1], values[1, -1, 1] = np.nan, -1.0
    lost, worthless = (with_values(context, v) for v in values)
    return lost, worthless


@pytest.mark.parametrize("name", ["ucb", "mean"])
def test_a_diverged_policy_is_spread_evenly_and_disturbs_nobody(name: str) -> None:
    lost, worthless = diverged_and_worthless(num_active=3)
    diverged = paper(name).choose(lost)
    np.testing.assert_array_equal(np.sort(diverged.weights[1, :, 0]), np.sort(lost.candidates[1, [0, 10, 20], 0]))
    json.dumps(diverged.diagnostics, allow_nan=False)
    # The others choose as if the diverged policy had only worthless values.
    np.testing.assert_array_equal(diverged.weights[[0, 2]], paper(name).choose(worthless).weights[[0, 2]])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["ucb", "mean"])
def test_by_default_too_a_diverged_policy_is_spread_evenly(name: str, model: object) -> None:
    lost, _ = diverged_and_worthless(num_active=3)
    diverged = default(name, model).choose(lost)
    np.testing.assert_array_equal(np.sort(diverged.weights[1, :, 0]), np.sort(lost.candidates[1, [0, 10, 20], 0]))
    json.dumps(diverged.diagnostics, allow_nan=False)


@any_model
@pytest.mark.parametrize("method", [paper, default])
def test_the_first_evaluation_is_enough_to_choose(method: Callable, model: object) -> None:
    chosen = method("ucb", model).choose(with_values(make_context(), np.ones((1, 3, 5, 2))))
    assert np.isfinite(chosen.weights).all()
    json.dumps(chosen.diagnostics, allow_nan=False)


@any_model
@pytest.mark.parametrize("method", [paper, default])
def test_where_all_are_lost_choices_are_spread(method: Callable, model: object) -> None:
    context = with_values(make_context(num_active=3), np.full((3, 3, 5, 2), np.nan))
    chosen = method("ucb", model).choose(context)
    np.testing.assert_array_equal(np.sort(chosen.weights[..., 0]), np.sort(context.candidates[:, [0, 10, 20], 0]))
    json.dumps(chosen.diagnostics, allow_nan=False)


def test_without_any_evaluation_choices_are_spread() -> None:
    context = with_values(make_context(num_active=3), np.zeros((0, 3, 5, 2)))
    chosen = paper("ucb").choose(context)
    np.testing.assert_array_equal(chosen.weights, context.candidates[:, [0, 10, 20]])


@pytest.mark.parametrize(("method", "within"), [(paper, 5), (default, 8)])
def test_the_surrogate_foresees_steady_growth(method: Callable, within: float) -> None:
    # Values grow by 100 w/|w| a stage with noise of 1: a linear model comes near it inside a sub-space, and one
    # for all of them, less near, along the whole quarter circle.
    context = make_context(num_evaluations=8)
    expected = 100 * context.evaluated_weights / np.linalg.norm(context.evaluated_weights, axis=-1, keepdims=True)
    predicted = np.array(method("ucb").choose(context).diagnostics["predicted"])
    assert np.abs(predicted - expected).mean() < within


def test_three_objectives() -> None:
    rng = np.random.default_rng(0)
    candidates = rng.dirichlet(np.ones(3), (4, 12))
    values = rng.uniform(10, 100, (3, 4, 12, 3))
    context = context_of(candidates, values, num_active=4, stage=3, rng_seed=(0, 60))
    chosen = paper("ucb", num_objectives=3).choose(context).weights
    assert chosen.shape == (4, 4, 3)
    assert all(len(as_set(policy)) == 4 for policy in chosen)
    ours = paper("ucb", BaggedRidge(), "focused", num_objectives=3).choose(replace(context, group=4))
    assert ours.weights.shape == (4, 4, 3)
    assert as_set(ours.weights.reshape(-1, 3)) <= as_set(candidates.reshape(-1, 3))


def test_unknown_names_are_met_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'randm'.*random"):
        paper("randm")
    with pytest.raises(ConfigError, match=r"'top'.*top_n"):
        paper("ucb", selection="top")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_active": 22}, "num_active is 22.*21"),
        ({"num_active": 0}, "num_active is 0"),
        ({"group": 2}, "group is 2.*divide 3"),
        ({"values": np.zeros((2, 3, 4, 2))}, r"values has shape \(2, 3, 4, 2\)"),
        ({"density": np.zeros((4, 3, 5))}, r"density has shape \(4, 3, 5\).*\(3, 3, 5\)"),
        ({"rates": np.zeros(3)}, r"rates has shape \(3,\).*\(4,\)"),
        ({"candidates": np.zeros((2, 21, 2))}, r"candidates has shape \(2, 21, 2\)"),
    ],
)
def test_a_context_that_does_not_fit_together_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(make_context(), **changes)
