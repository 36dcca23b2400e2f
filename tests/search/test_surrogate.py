"""The surrogate: raw units, no NaN whatever the data, and the interpolation of values between probes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import ElasticNet

from ucb_moppo.errors import ConfigError
from ucb_moppo.search.surrogate import (
    BaggedElasticNet,
    LinearEnsemble,
    interpolate_values,
    surrogate_data,
)


def sub_space(num_weights: int = 30) -> np.ndarray:
    """Weights of two objectives in a sub-space 0.1 wide."""
    first = np.linspace(0.4, 0.5, num_weights)
    return np.stack([first, 1 - first], axis=1)


def noisy_changes(weights: np.ndarray) -> np.ndarray:
    return 3 * weights[:, 0] + np.random.default_rng(7).normal(0, 0.05, len(weights))


def test_ensemble_mean_and_population_std_by_hand() -> None:
    # At w = (0.25, 0.75): 4·0.25 + 0 = 1 and 0·w + 3 = 3. Mean 2; variance ((1−2)² + (3−2)²) / 2 = 1.
    ensemble = LinearEnsemble(np.array([[4.0, 0.0], [0.0, 0.0]]), np.array([0.0, 3.0]))
    mean, std = ensemble.predict(np.array([[0.25, 0.75]]))
    assert mean == pytest.approx([2.0])
    assert std == pytest.approx([1.0])


def test_a_linear_change_is_recovered_under_a_small_penalty() -> None:
    weights = sub_space()
    changes = 250 * weights[:, 0] - 40 * weights[:, 1] + 12
    mean, std = BaggedElasticNet(alpha=1e-4).fit(weights, changes, 1.0, seed=0).predict(weights)
    np.testing.assert_allclose(mean, changes, rtol=1e-3)
    assert std.max() < 0.01 * np.ptp(changes)


def test_the_default_penalty_keeps_the_slope_of_a_narrow_sub_space() -> None:
    # Two collinear standardised columns x, −x share the slope: minimise (1 − 2c)²/2 + 0.05·2c + 0.025·2c².
    # Zero derivative: −2(1 − 2c) + 0.1 + 0.1c = 0, c = 1.9/4.1, a slope 2c = 0.927 of the true one, give or
    # take the bootstrap. Unstandardised, x of std 0.03 would leave nothing of it.
    weights = sub_space()
    mean, _ = BaggedElasticNet().fit(weights, 10 * weights[:, 0], 1.0, seed=0).predict(weights)
    assert np.ptp(mean) / np.ptp(10 * weights[:, 0]) == pytest.approx(1.9 / 2.05, abs=0.02)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_scaling_the_targets_scales_mean_and_std(factor: float) -> None:
    weights = sub_space()
    changes = noisy_changes(weights)
    one = BaggedElasticNet().fit(weights, changes, 1.0, seed=3).predict(weights)
    scaled = BaggedElasticNet().fit(weights, factor * changes, 1.0, seed=3).predict(weights)
    np.testing.assert_allclose(scaled.mean, factor * one.mean, rtol=1e-9)
    np.testing.assert_allclose(scaled.std, factor * one.std, rtol=1e-6)
    assert (one.std > 0).all()


def test_shifting_the_targets_shifts_the_mean_only() -> None:
    weights = sub_space()
    changes = noisy_changes(weights)
    one = BaggedElasticNet().fit(weights, changes, 1.0, seed=3).predict(weights)
    shifted = BaggedElasticNet().fit(weights, changes + 500, 1.0, seed=3).predict(weights)
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

    mean, std = BaggedElasticNet().fit(weights, changes, 1.0, seed=1).predict(weights)
    np.testing.assert_allclose(mean, expected.mean(axis=0) + changes.mean(), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(std, expected.std(axis=0), rtol=1e-3, atol=1e-3)


def test_a_fit_is_a_function_of_its_seed() -> None:
    weights = sub_space()
    changes = noisy_changes(weights)
    first, again, other = (BaggedElasticNet().fit(weights, changes, 1.0, s).predict(weights) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first.std, other.std)


def test_rows_that_are_not_finite_are_as_if_absent() -> None:
    weights = sub_space()
    changes = noisy_changes(weights)
    holed_weights = np.insert(weights, [0, 9], sub_space(2), axis=0)
    holed_changes = np.insert(changes, [0, 9], [np.nan, np.inf])
    clean = BaggedElasticNet().fit(weights, changes, 1.0, 5).predict(weights)
    holed = BaggedElasticNet().fit(holed_weights, holed_changes, 1.0, 5).predict(weights)
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
    surrogate = BaggedElasticNet().fit(sub_space(len(changes)), np.array(changes), prior_std, seed=0)
    prediction = surrogate.predict(sub_space(4))
    np.testing.assert_array_equal(prediction.mean, np.zeros(4))
    np.testing.assert_allclose(prediction.std, np.full(4, std))


def test_constant_weights_leave_the_mean_change() -> None:
    # No slope can be learnt where all weights are the same: members predict the means of their samples.
    weights = np.tile([0.45, 0.55], (200, 1))
    changes = np.random.default_rng(0).normal(10, 1, 200)
    mean, std = BaggedElasticNet().fit(weights, changes, 1.0, 0).predict(sub_space(3))
    np.testing.assert_allclose(mean, mean[0])
    assert mean[0] == pytest.approx(10, abs=0.5)
    assert 0 < std[0] < 0.5


finite_or_not = st.floats(-1e6, 1e6, allow_subnormal=False) | st.sampled_from([np.nan, np.inf, -np.inf])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 12).flatmap(lambda n: arrays(float, n, elements=finite_or_not)), st.floats(1e-9, 1e-2))
def test_predictions_are_never_nan_and_never_warn(changes: np.ndarray, alpha: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        surrogate = BaggedElasticNet(alpha=alpha).fit(sub_space(len(changes)), changes, 1.0, seed=0)
        prediction = surrogate.predict(sub_space(5))
    assert np.isfinite(prediction).all()
    assert (prediction.std >= 0).all()


@pytest.mark.parametrize("setting", [{"num_members": 1}, {"alpha": 0.0}, {"alpha": np.nan}, {"l1_ratio": 1.5}])
def test_unusable_settings_are_refused_by_name(setting: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(setting))):
        BaggedElasticNet(**setting)


def test_data_are_the_changes_between_consecutive_evaluations() -> None:
    # K=1, P=2, m=2, Z=3. Probe 0 goes (0,0) → (1,2) → (4,2); probe 1 goes (5,5) → NaN → (6,6).
    probes = np.array([[[0.2, 0.8], [0.7, 0.3]]])
    values = np.array([[[[0, 0], [5, 5]]], [[[1, 2], [np.nan, np.nan]]], [[[4, 2], [6, 6]]]], dtype=float)
    weights, changes = surrogate_data(probes, values)
    np.testing.assert_array_equal(weights, [[[0.2, 0.8], [0.7, 0.3], [0.2, 0.8], [0.7, 0.3]]])
    np.testing.assert_array_equal(changes, [[[1, 2], [np.nan, np.nan], [3, 0], [np.nan, np.nan]]])


def test_data_of_several_policies_keep_apart() -> None:
    rng = np.random.default_rng(0)
    probes, values = rng.random((3, 4, 2)), rng.random((5, 3, 4, 2))
    weights, changes = surrogate_data(probes, values)
    for k in range(3):
        for z in range(4):
            rows = slice(4 * z, 4 * z + 4)
            np.testing.assert_array_equal(weights[k, rows], probes[k])
            np.testing.assert_array_equal(changes[k, rows], values[z + 1, k] - values[z, k])


@pytest.mark.parametrize("num_evaluations", [0, 1])
def test_before_two_evaluations_there_are_no_data(num_evaluations: int) -> None:
    weights, changes = surrogate_data(np.ones((3, 4, 2)), np.ones((num_evaluations, 3, 4, 2)))
    assert weights.shape == changes.shape == (3, 0, 2)


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
