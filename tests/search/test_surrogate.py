"""Surrogates: raw units, no NaN whatever the data, what each model learns, and values between probes."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import ElasticNet

from ucb_moppo.errors import ConfigError
from ucb_moppo.search.situations import Situations
from ucb_moppo.search.surrogate import (
    BaggedElasticNet,
    BaggedRidge,
    GaussianProcessModel,
    LinearEnsemble,
    NoChangeModel,
    Prediction,
    SurrogateModel,
    UninformedSurrogate,
    even_scores,
    interpolate_values,
    summarise_draws,
)


def sub_space(num_weights: int = 30) -> np.ndarray:
    """Weights of two objectives in a sub-space 0.1 wide."""
    first = np.linspace(0.4, 0.5, num_weights)
    return np.stack([first, 1 - first], axis=1)


def noisy_changes(weights: np.ndarray) -> np.ndarray:
    return 3 * weights[:, 0] + np.random.default_rng(7).normal(0, 0.05, len(weights))


def predict(surrogate: LinearEnsemble | UninformedSurrogate, weights: np.ndarray) -> Prediction:
    """Mean and std [n] of the paper's model of one policy and objective."""
    return summarise_draws(surrogate.predict(weights))


def test_summary_is_mean_and_population_std_by_hand() -> None:
    # Members say 1 and 3: mean 2; variance ((1−2)² + (3−2)²) / 2 = 1.
    mean, std = summarise_draws(np.array([[[1.0, 5.0]], [[3.0, 5.0]]]))
    np.testing.assert_array_equal(mean, [[2, 5]])
    np.testing.assert_array_equal(std, [[1, 0]])


@pytest.mark.parametrize("count", [2, 3, 10])
def test_even_scores_are_standard_and_evenly_spaced(count: int) -> None:
    scores = even_scores(count)
    assert scores.mean() == pytest.approx(0)
    assert scores.std() == pytest.approx(1)
    np.testing.assert_allclose(np.diff(scores), scores[1] - scores[0])


# --- the paper's ------------------------------------------------------------------------------------------------


def test_ensemble_mean_and_population_std_by_hand() -> None:
    # At w = (0.25, 0.75): 4·0.25 + 0 = 1 and 0·w + 3 = 3. Mean 2; variance ((1−2)² + (3−2)²) / 2 = 1.
    ensemble = LinearEnsemble(np.array([[4.0, 0.0], [0.0, 0.0]]), np.array([0.0, 3.0]))
    mean, std = predict(ensemble, np.array([[0.25, 0.75]]))
    assert mean == pytest.approx([2.0])
    assert std == pytest.approx([1.0])


def test_a_linear_change_is_recovered_under_a_small_penalty() -> None:
    weights = sub_space()
    changes = 250 * weights[:, 0] - 40 * weights[:, 1] + 12
    mean, std = predict(BaggedElasticNet(alpha=1e-4).fit_one(weights, changes, 1.0, seed=0), weights)
    np.testing.assert_allclose(mean, changes, rtol=1e-3)
    assert std.max() < 0.01 * np.ptp(changes)


def test_the_default_penalty_keeps_the_slope_of_a_narrow_sub_space() -> None:
    # Two collinear standardised columns x, −x share the slope: minimise (1 − 2c)²/2 + 0.05·2c + 0.025·2c².
    # Zero derivative: −2(1 − 2c) + 0.1 + 0.1c = 0, c = 1.9/4.1, a slope 2c = 0.927 of the true one, give or
    # take the bootstrap. Unstandardised, x of std 0.03 would leave nothing of it.
    weights = sub_space()
    mean, _ = predict(BaggedElasticNet().fit_one(weights, 10 * weights[:, 0], 1.0, seed=0), weights)
    assert np.ptp(mean) / np.ptp(10 * weights[:, 0]) == pytest.approx(1.9 / 2.05, abs=0.02)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_scaling_the_targets_scales_mean_and_std(factor: float) -> None:
    weights = sub_space()
    changes = noisy_changes(weights)
    one = predict(BaggedElasticNet().fit_one(weights, changes, 1.0, seed=3), weights)
    scaled = predict(BaggedElasticNet().fit_one(weights, factor * changes, 1.0, seed=3), weights)
    np.testing.assert_allclose(scaled.mean, factor * one.mean, rtol=1e-9)
    np.testing.assert_allclose(scaled.std, factor * one.std, rtol=1e-6)
    assert (one.std > 0).all()


def test_shifting_the_targets_shifts_the_mean_only() -> None:
    weights = sub_space()
    changes = noisy_changes(weights)
    one = predict(BaggedElasticNet().fit_one(weights, changes, 1.0, seed=3), weights)
    shifted = predict(BaggedElasticNet().fit_one(weights, changes + 500, 1.0, seed=3), weights)
    np.testing.assert_allclose(shifted.mean, one.mean + 500, rtol=1e-9)
    np.testing.assert_allclose(shifted.std, one.std, rtol=1e-6)


def test_folding_the_scaling_into_the_members_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(3), size=60)
    changes = weights @ [5.0, -2.0, 1.0] + rng.normal(0, 0.3, 60)
    inputs = (weights - weights.mean(axis=0)) / weights.std(axis=0)
    targets = (changes - changes.mean()) / changes.std()
    bagging = BaggingRegressor(ElasticNet(alpha=0.1, l1_ratio=0.5), n_estimators=10, random_state=1)
    bagging.fit(inputs, targets)
    expected = np.stack([member.predict(inputs) for member in bagging.estimators_]) * changes.std()

    mean, std = predict(BaggedElasticNet().fit_one(weights, changes, 1.0, seed=1), weights)
    np.testing.assert_allclose(mean, expected.mean(axis=0) + changes.mean(), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(std, expected.std(axis=0), rtol=1e-3, atol=1e-3)


def test_a_fit_is_a_function_of_its_seed() -> None:
    weights = sub_space()
    changes = noisy_changes(weights)
    first, again, other = (
        predict(BaggedElasticNet().fit_one(weights, changes, 1.0, s), weights) for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first.std, other.std)


def test_rows_that_are_not_finite_are_as_if_absent() -> None:
    weights = sub_space()
    changes = noisy_changes(weights)
    holed_weights = np.insert(weights, [0, 9], sub_space(2), axis=0)
    holed_changes = np.insert(changes, [0, 9], [np.nan, np.inf])
    clean = predict(BaggedElasticNet().fit_one(weights, changes, 1.0, 5), weights)
    holed = predict(BaggedElasticNet().fit_one(holed_weights, holed_changes, 1.0, 5), weights)
    np.testing.assert_array_equal(clean, holed)


@pytest.mark.parametrize(
    ("changes", "prior_std", "std"),
    [
        ([], 7.0, 7.0),  # no data: the prior
        ([2.0, -9.0], 7.0, 9.0),  # too few: the largest change is wider than the prior
        ([4.0] * 5, 7.0, 7.0),  # constant
        ([0.1 + 0.2, 0.3, 0.3], 0.2, 0.3),  # constant up to rounding
        ([np.nan] * 5, 7.0, 7.0),  # nothing finite
        ([0.0] * 5, 0.0, 1.0),  # nothing to go by at all
        ([0.0] * 5, np.nan, 1.0),
    ],
)
def test_without_information_no_change_and_a_wide_std(changes: list, prior_std: float, std: float) -> None:
    surrogate = BaggedElasticNet().fit_one(sub_space(len(changes)), np.array(changes), prior_std, seed=0)
    prediction = predict(surrogate, sub_space(4))
    np.testing.assert_allclose(prediction.mean, np.zeros(4), atol=1e-12)
    np.testing.assert_allclose(prediction.std, np.full(4, std))


def test_constant_weights_leave_the_mean_change() -> None:
    # No slope can be learnt where all weights are the same: members predict the means of their samples.
    weights = np.tile([0.45, 0.55], (200, 1))
    changes = np.random.default_rng(0).normal(10, 1, 200)
    mean, std = predict(BaggedElasticNet().fit_one(weights, changes, 1.0, 0), sub_space(3))
    np.testing.assert_allclose(mean, mean[0])
    assert mean[0] == pytest.approx(10, abs=0.5)
    assert 0 < std[0] < 0.5


finite_or_not = st.floats(-1e6, 1e6, allow_subnormal=False) | st.sampled_from([np.nan, np.inf, -np.inf])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 12).flatmap(lambda n: arrays(float, n, elements=finite_or_not)), st.floats(1e-9, 1e-2))
def test_predictions_are_never_nan_and_never_warn(changes: np.ndarray, alpha: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        surrogate = BaggedElasticNet(alpha=alpha).fit_one(sub_space(len(changes)), changes, 1.0, seed=0)
        prediction = predict(surrogate, sub_space(5))
    assert np.isfinite(prediction).all()
    assert (prediction.std >= 0).all()


@pytest.mark.parametrize("setting", [{"num_members": 1}, {"alpha": 0.0}, {"alpha": np.nan}, {"l1_ratio": 1.5}])
def test_unusable_settings_are_refused_by_name(setting: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(setting))):
        BaggedElasticNet(**setting)


def some_situations(num_rows: int = 200, num_subspaces: int = 2, seed: int = 0) -> Situations:
    """Two objectives; everything that a feature may be, at random."""
    rng = np.random.default_rng(seed)
    first = rng.random(num_rows)
    weights = np.stack([first, 1 - first], axis=1)
    subspace = np.minimum((first * num_subspaces).astype(np.intp), num_subspaces - 1)
    pivots = (subspace + 0.5) / num_subspaces
    return Situations(
        subspace=subspace,
        weights=weights,
        places=weights - np.stack([pivots, 1 - pivots], axis=1),
        values=rng.normal(1000, 200, (num_rows, 2)),
        density=rng.uniform(0.2, 2.0, num_rows),
        rate=rng.uniform(0.1, 1.0, num_rows),
        age=rng.integers(0, 4, num_rows).astype(float),
    )


def only_density(num_rows: int, seed: int = 0) -> Situations:
    """Situations that differ in nothing but the density."""
    constant = {name: np.ones((num_rows, 2)) for name in ("weights", "places", "values")}
    rows = replace(some_situations(num_rows, seed=seed), **constant)
    return replace(rows, rate=np.ones(num_rows), age=np.zeros(num_rows))


def test_every_policy_and_objective_has_its_own_elastic_nets() -> None:
    # What a policy is told does not hang on who else there is, nor on what an objective's neighbour did.
    situations = some_situations(num_subspaces=3)
    changes = np.random.default_rng(1).normal(situations.weights * [[10, -3]], 1.0)
    together = BaggedElasticNet().fit(situations, changes, np.ones(2), seed=4)
    for k in range(3):
        rows = situations.subspace == k
        own = situations.where(rows)
        alone = BaggedElasticNet().fit(own, changes[rows], np.ones(2), seed=4)
        np.testing.assert_array_equal(alone.draw(own), together.draw(own))
        np.testing.assert_array_equal(together.draw(situations)[:, rows], together.draw(own))
        other = BaggedElasticNet().fit(own, changes[rows] * [1, 99], np.ones(2), seed=4)
        np.testing.assert_array_equal(other.draw(own)[..., 0], alone.draw(own)[..., 0])


def test_elastic_nets_go_by_the_weight_alone() -> None:
    situations = some_situations()
    changes = np.random.default_rng(1).normal(situations.weights * [[10, -3]], 1.0)
    surrogate = BaggedElasticNet().fit(situations, changes, np.ones(2), seed=4)
    elsewhere = replace(situations, values=0 * situations.values, density=0 * situations.density)
    np.testing.assert_array_equal(surrogate.draw(elsewhere), surrogate.draw(situations))


def test_a_policy_without_experience_has_the_prior_of_each_objective() -> None:
    situations = some_situations(num_subspaces=3)
    seen = situations.where(situations.subspace != 1)
    surrogate = BaggedElasticNet().fit(seen, np.ones((len(seen), 2)), np.array([4.0, 9.0]), seed=0)
    mean, std = summarise_draws(surrogate.draw(situations.where(situations.subspace == 1)))
    np.testing.assert_allclose(mean, 0, atol=1e-12)
    np.testing.assert_allclose(std, np.broadcast_to([4.0, 9.0], std.shape))


# --- of all policies together -----------------------------------------------------------------------------------

MODELS = [BaggedElasticNet(), BaggedRidge(), GaussianProcessModel(), NoChangeModel(10)]
any_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
SHARED = pytest.mark.parametrize("model", MODELS[1:3], ids=lambda model: type(model).__name__)


def linear_law(situations: Situations) -> np.ndarray:
    """Changes [n, 2] that follow weight, place, value, density and rate."""
    first = 40 * situations.weights[:, 0] + 8 * situations.density - 0.02 * situations.values[:, 1]
    second = -15 * situations.places[:, 1] + 20 * situations.rate + 3
    return np.stack([first, second], axis=1)


def test_ridge_recovers_a_linear_law_that_two_policies_share() -> None:
    situations = some_situations(num_subspaces=2)
    surrogate = BaggedRidge(strength=1e-6).fit(situations, linear_law(situations), np.ones(2), seed=0)
    unseen = some_situations(50, num_subspaces=2, seed=9)
    mean, std = summarise_draws(surrogate.draw(unseen))
    np.testing.assert_allclose(mean, linear_law(unseen), atol=1e-4)
    assert std.max() < 1e-4


def test_ridge_lets_a_policy_learn_from_another() -> None:
    # All experience is that of sub-space 0; the law goes on in sub-space 1, and so does what is foreseen there.
    # (Place and weight differ by the pivot, so only what does not go by both of them can be carried over.)
    situations = some_situations(400, num_subspaces=2)
    first, second = (situations.where(situations.subspace == k) for k in range(2))

    def law(rows: Situations) -> np.ndarray:
        return np.stack([8 * rows.density, 20 * rows.rate - 0.02 * rows.values[:, 0]], axis=1)

    mean, _ = summarise_draws(BaggedRidge(strength=1e-6).fit(first, law(first), np.ones(2), 0).draw(second))
    np.testing.assert_allclose(mean, law(second), atol=1e-4)


def test_ridge_shrinks_a_slope_by_its_strength_by_hand() -> None:
    # One column differs, with standard deviation 1 after scaling: a slope of n / (n + strength) remains; with
    # strength n half of it, give or take the bootstrap (whose samples of 400 vary by some 5%).
    count = 400
    situations = only_density(count)
    changes = 10 * np.stack([situations.density, -situations.density], axis=1)
    members = BaggedRidge(strength=float(count)).fit_members(situations, changes, seed=0, skill=1.0)
    mean = members.predict(situations.features()).mean(axis=0)
    np.testing.assert_allclose(np.ptp(mean, axis=0) / np.ptp(changes, axis=0), 0.5, atol=0.02)


def test_a_member_errs_in_all_objectives_together() -> None:
    situations = some_situations()
    noise = np.random.default_rng(2).normal(0, 5, len(situations))
    # The same twice, and the opposite: a member that is wrong about one is as wrong about the others.
    changes = np.stack([noise, noise, -2 * noise], axis=1)
    situations = replace(situations, values=np.zeros((len(situations), 3)))
    draws = BaggedRidge().fit(situations, changes, np.ones(3), seed=0).draw(situations)
    assert draws.std(axis=0).min() > 1
    np.testing.assert_allclose(draws[..., 1], draws[..., 0], rtol=1e-9)
    np.testing.assert_allclose(draws[..., 2], -2 * draws[..., 0], rtol=1e-9)


def test_what_rounding_leaves_is_no_prediction() -> None:
    """Luck that cancels out over members leaves some 1e-15 of itself, which would be ranked like a prediction."""
    luck = 1000 * even_scores(10)[:, None, None] + np.zeros((10, 3, 2))
    assert np.abs(luck.mean(axis=0)).max() > 0
    mean, std = summarise_draws(luck)
    assert not mean.any()
    np.testing.assert_allclose(std, 1000)
    np.testing.assert_allclose(summarise_draws(luck + 1e-6).mean, 1e-6, rtol=1e-4)


@pytest.mark.parametrize(("memory", "expected"), [(1.0, 0.0), (0.7, -7.12), (0.01, -10.0)])
def test_old_stages_count_less_by_hand(memory: float, expected: float) -> None:
    # 100 situations brought +10 five stages ago and −10 just now. With 0.7⁵ = 0.168 the old stage has that part
    # of a vote: (0.168·10 − 10) / 1.168 = −7.12. A member's mean of 200 rows has a standard error of 0.7.
    once = some_situations(100)
    both = Situations.join([replace(once, age=np.full(100, 5.0)), replace(once, age=np.zeros(100))])
    changes = np.repeat([[10.0, 10.0], [-10.0, -10.0]], 100, axis=0)
    members = BaggedRidge(num_members=40, memory=memory).fit_members(both, changes, seed=0, skill=1.0)
    assert members.predict(once.features()).mean() == pytest.approx(expected, abs=0.5)


def test_a_surrogate_is_believed_as_far_as_it_foresaw_the_last_stage() -> None:
    # Stages that go on as before are foreseen: skill near 1. Stages that turn round are not: no change is expected.
    once = some_situations(100)
    both = Situations.join([replace(once, age=np.ones(100)), replace(once, age=np.zeros(100))])
    steady = np.full((200, 2), 10.0) + np.random.default_rng(0).normal(0, 0.1, (200, 2))
    on = summarise_draws(BaggedRidge().fit(both, steady, np.ones(2), seed=0).draw(once))
    np.testing.assert_allclose(on.mean, 10, atol=0.2)
    turned = steady * np.repeat([[1.0], [-1.0]], 100, axis=0)
    off = summarise_draws(BaggedRidge().fit(both, turned, np.ones(2), seed=0).draw(once))
    np.testing.assert_allclose(off.mean, 0, atol=1e-9)
    np.testing.assert_allclose(off.std, 10, rtol=0.01)  # what a stage has changed, either way


def test_luck_is_part_of_the_uncertainty() -> None:
    # Nothing but noise, of standard deviations 3 and 50: members that agree on the mean still expect it.
    # 50 draws of a residual estimate a standard deviation to 10%.
    situations = some_situations()
    for seed in range(5):
        changes = np.random.default_rng(seed).normal(0, [3, 50], (len(situations), 2))
        _, std = summarise_draws(
            BaggedRidge(num_members=50).fit(situations, changes, np.ones(2), seed).draw(situations)
        )
        np.testing.assert_array_less(std / [3, 50], 1.5)
        np.testing.assert_array_less(1 / 1.5, std / [3, 50])


@SHARED
def test_intervals_cover_what_comes(model: SurrogateModel) -> None:
    # A law with noise as large as it. Of the ten members' own spread σ is a rough estimate: with nine degrees of
    # freedom 1.96σ covers 0.90 instead of 0.95 on average. The members of bagging alone would cover a fifth.
    covered, ratio = [], []
    for seed in range(12):
        seen, ahead = some_situations(120, seed=2 * seed), some_situations(120, seed=2 * seed + 1)
        noise = np.random.default_rng(seed).normal(0, 10, (2, 120, 2))
        surrogate = model.fit(seen, linear_law(seen) + noise[0], np.ones(2), seed)
        mean, std = summarise_draws(surrogate.draw(ahead))
        covered.append(np.abs(linear_law(ahead) + noise[1] - mean) <= 1.96 * std)
        ratio.append(std / 10)
    assert 0.85 < np.mean(covered) < 0.98
    assert 0.8 < np.mean(ratio) < 1.25


@SHARED
def test_a_shared_model_beats_no_change_where_there_is_something_to_learn(model: SurrogateModel) -> None:
    seen, ahead = some_situations(150), some_situations(150, seed=1)
    noise = np.random.default_rng(0).normal(0, 5, (150, 2))
    mean, _ = summarise_draws(model.fit(seen, linear_law(seen) + noise, np.ones(2), 0).draw(ahead))
    wrong = np.abs(mean - linear_law(ahead)).mean(axis=0)
    assert (wrong < 0.3 * np.abs(linear_law(ahead)).mean(axis=0)).all()


@pytest.mark.parametrize(
    ("changes", "std"),
    [
        (np.zeros((0, 2)), [7, 1]),  # no data: the prior
        ([[2.0, 0.1], [-9.0, 0.2]], [9, 1]),  # too few: the largest change where it is wider than the prior
        (np.full((5, 2), [4.0, -30.0]), [7, 30]),  # constant
        (np.full((5, 2), np.nan), [7, 1]),
        ([[1.0, np.nan]] * 5, [7, 1]),  # a change is known in all objectives or not at all
    ],
)
def test_ridge_without_information_expects_no_change_and_a_wide_std(changes: object, std: list[float]) -> None:
    changes = np.array(changes)
    surrogate = BaggedRidge().fit(some_situations(len(changes)), changes, np.array([7.0, 1.0]), seed=0)
    prediction = summarise_draws(surrogate.draw(some_situations(4)))
    np.testing.assert_allclose(prediction.mean, np.zeros((4, 2)), atol=1e-12)
    np.testing.assert_allclose(prediction.std, [std] * 4)


def test_no_change_expects_none_and_the_root_mean_square_by_hand() -> None:
    # Changes 3 and 4 (the row with a hole does not count): √((9 + 16)/2) = 3.54; 1 and −1: 1.
    changes = np.array([[3.0, 1.0], [np.nan, 50.0], [4.0, -1.0]])
    draws = NoChangeModel(10).fit(some_situations(3), changes, np.array([7.0, 7.0]), 0).draw(some_situations(6))
    assert draws.shape == (10, 6, 2)
    mean, std = summarise_draws(draws)
    np.testing.assert_allclose(mean, 0, atol=1e-12)
    np.testing.assert_allclose(std, [[np.sqrt(12.5), 1]] * 6)
    unknown = NoChangeModel(10).fit(some_situations(0), np.zeros((0, 2)), np.array([7.0, 8.0]), 0)
    np.testing.assert_allclose(summarise_draws(unknown.draw(some_situations(6))).std, [[7, 8]] * 6)


def test_a_process_bends_where_a_line_cannot() -> None:
    seen, ahead = only_density(60), only_density(60, seed=1)

    def law(rows: Situations) -> np.ndarray:
        bump = 30 * np.exp(-(((rows.density - 1.1) / 0.4) ** 2))
        return np.stack([bump, -bump], axis=1)

    noise = np.random.default_rng(0).normal(0, 1, (60, 2))
    errors = {}
    for model in (GaussianProcessModel(), BaggedRidge()):
        mean, _ = summarise_draws(model.fit(seen, law(seen) + noise, np.ones(2), 0).draw(ahead))
        errors[type(model)] = np.abs(mean - law(ahead)).mean()
    assert errors[GaussianProcessModel] < 1 < 5 < errors[BaggedRidge]


def test_a_process_is_less_sure_far_from_what_it_has_seen() -> None:
    seen = some_situations(60)
    noise = np.random.default_rng(0).normal(0, 0.1, (60, 2))
    surrogate = GaussianProcessModel().fit(seen, linear_law(seen) + noise, np.ones(2), 0)
    far = replace(seen, values=seen.values + 5000)
    near_std, far_std = (summarise_draws(surrogate.draw(rows)).std.mean(axis=0) for rows in (seen, far))
    assert (far_std > 2 * near_std).all()


def test_a_process_keeps_the_newest_rows() -> None:
    # Of 60 old rows that say +50 and 30 new ones that say −50, it is fitted to the 30 newest alone.
    old, new = (replace(some_situations(n, seed=n), age=np.full(n, age)) for n, age in ((60, 3.0), (30, 0.0)))
    changes = np.repeat([[50.0, 50.0], [-50.0, -50.0]], [60, 30], axis=0)
    changes += np.random.default_rng(0).normal(0, 1, changes.shape)
    surrogate = GaussianProcessModel(max_rows=30).fit(Situations.join([old, new]), changes, np.ones(2), 0)
    np.testing.assert_allclose(summarise_draws(surrogate.draw(new)).mean, -50, atol=3)


@any_model
def test_draws_are_of_raw_units_and_of_their_seed(model: SurrogateModel) -> None:
    situations = some_situations(60)
    changes = linear_law(situations) + np.random.default_rng(0).normal(0, 5, (60, 2))
    draws, again = (model.fit(situations, changes, np.ones(2), 3).draw(situations) for _ in range(2))
    assert draws.shape == (10, 60, 2)
    np.testing.assert_array_equal(draws, again)
    scaled = model.fit(situations, changes * [1000, 0.001], np.ones(2), 3).draw(situations)
    np.testing.assert_allclose(scaled / [1000, 0.001], draws, rtol=1e-4, atol=1e-3)


@any_model
def test_rows_that_are_not_finite_teach_nothing(model: SurrogateModel) -> None:
    situations = some_situations(40)
    changes = linear_law(situations) + np.random.default_rng(0).normal(0, 5, (40, 2))
    holes = some_situations(2, seed=5)
    clean = model.fit(situations, changes, np.ones(2), 3).draw(situations)
    holed = model.fit(
        Situations.join([situations, holes]), np.vstack([changes, np.full((2, 2), np.nan)]), np.ones(2), 3
    )
    np.testing.assert_array_equal(holed.draw(situations), clean)


@any_model
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 8).flatmap(lambda n: arrays(float, (n, 2), elements=finite_or_not)))
def test_draws_are_never_nan_and_never_warn(model: SurrogateModel, changes: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draws = model.fit(some_situations(len(changes)), changes, np.ones(2), 0).draw(some_situations(5))
    assert draws.shape == (10, 5, 2)
    assert np.isfinite(draws).all()


@pytest.mark.parametrize("model", MODELS)
def test_a_policy_without_a_value_can_be_asked_about(model: SurrogateModel) -> None:
    # It has diverged since. Something finite is said of it, and of the others the same as without it.
    situations = some_situations(40)
    changes = linear_law(situations) + np.random.default_rng(0).normal(0, 5, (40, 2))
    surrogate = model.fit(situations, changes, np.ones(2), 3)
    lost = np.where(situations.subspace[:, None] == 1, np.nan, situations.values)
    draws = surrogate.draw(replace(situations, values=lost))
    assert np.isfinite(draws).all()
    others = situations.subspace == 0
    np.testing.assert_allclose(draws[:, others], surrogate.draw(situations.where(others)), rtol=1e-9)


# --- values between probes --------------------------------------------------------------------------------------


def test_between_two_objectives_interpolation_is_piecewise_linear() -> None:
    probes, weights = sub_space(7), sub_space(101)
    weights = np.concatenate([[[0.3, 0.7]], weights, [[0.6, 0.4]]])  # beyond both ends
    values = np.random.default_rng(1).normal(1000, 300, (7, 2))
    expected = np.stack([np.interp(weights[:, 0], probes[:, 0], column) for column in values.T], axis=1)
    np.testing.assert_allclose(interpolate_values(probes, values, weights), expected, rtol=1e-9)


def test_a_probe_has_exactly_its_value() -> None:
    rng = np.random.default_rng(2)
    probes, values = rng.dirichlet(np.ones(3), 20), rng.normal(size=(20, 3))
    np.testing.assert_array_equal(interpolate_values(probes, values, probes), values)


def test_interpolation_stays_between_the_values_it_joins_for_three_objectives() -> None:
    # Halfway between two probes far from the others lies a value between theirs.
    probes = np.array([[0.5, 0.3, 0.2], [0.3, 0.5, 0.2], [0.3, 0.2, 0.5]])
    values = np.array([[1.0], [3.0], [2.0]])
    (value,) = interpolate_values(probes, values, probes[:2].mean(axis=0)[None])
    assert 1.0 < value[0] < 3.0


def test_one_probe_gives_a_constant_and_none_gives_nan() -> None:
    weights = sub_space(3)
    np.testing.assert_array_equal(interpolate_values(weights[:1], np.array([[4.0, 5.0]]), weights), [[4, 5]] * 3)
    assert np.isnan(interpolate_values(weights, np.full((3, 2), np.nan), weights)).all()


def test_interpolation_skips_probes_without_a_value_and_repeated_ones() -> None:
    # The middle probe has no value: the line joins its neighbours, 0 and 2, so the middle is 1.
    weights = sub_space(3)
    values = np.array([[0.0, 0.0], [np.nan, 7.0], [2.0, 4.0]])
    np.testing.assert_allclose(interpolate_values(weights, values, weights), [[0, 0], [1, 2], [2, 4]])
    twice = interpolate_values(weights[[0, 0, 2]], values[[0, 0, 2]], weights)
    np.testing.assert_allclose(twice, [[0, 0], [1, 2], [2, 4]])
