"""Statistics over seeds against numbers derived by hand."""

import math

import numpy as np
import pytest

from ucb_moppo.report.statistics import (
    aggregate,
    estimate,
    first_reached,
    interquartile_mean,
    make_band,
    probability_of_improvement,
    stratified_interval,
)


def test_interquartile_mean_drops_the_outer_quarters():
    # Sorted: 0 1 2 3 4 5 6 100; two of eight go at each end, (2 + 3 + 4 + 5) / 4 is left.
    assert interquartile_mean([100, 3, 1, 2, 6, 5, 4, 0]) == 3.5


def test_interquartile_mean_of_three_is_their_mean():
    assert interquartile_mean([1, 2, 9]) == 4.0


def test_estimate_of_known_values():
    found = estimate([2.0, 4.0, 6.0])
    # Mean 4; squared deviations 4 + 0 + 4 over n − 1 = 2 give a variance of 4.
    assert (found.mean, found.std, found.iqm, found.num) == (4.0, 2.0, 4.0, 3)
    assert 2.0 <= found.low < 4.0 < found.high <= 6.0


def test_one_seed_has_neither_spread_nor_interval():
    found = estimate([5.0])
    assert (found.mean, found.iqm, found.num) == (5.0, 5.0, 1)
    assert np.isnan([found.std, found.low, found.high]).all()


def test_values_that_are_not_finite_do_not_count():
    assert estimate([1.0, np.nan, 3.0])[:2] == (2.0, pytest.approx(np.sqrt(2)))
    assert estimate([np.nan]).num == 0


def test_equal_values_have_an_interval_of_no_width():
    assert estimate([3.0, 3.0, 3.0])[3:5] == (3.0, 3.0)


def test_strata_resample_themselves():
    # Each stratum is constant, so no resample within strata can change anything; pooled resampling would.
    low, high = stratified_interval([np.array([0.0, 0.0]), np.array([1.0, 1.0])])
    assert low == high == 0.5


def test_a_stratum_of_one_seed_stays_in():
    # 8 always belongs to the sample: the mean of (0 or 4, 0 or 4, 8) is never below 8 / 3.
    low, high = stratified_interval([np.array([0.0, 4.0]), np.array([8.0])])
    assert low == pytest.approx(8 / 3)
    assert high == pytest.approx(16 / 3)


def test_the_same_values_give_the_same_interval():
    values = np.random.default_rng(1).normal(size=7)
    assert estimate(values) == estimate(values)


def test_aggregate_pools_problems():
    found = aggregate([np.array([1.0, 0.8]), np.array([0.6, 0.4])])
    assert found.num == 4
    assert found.mean == pytest.approx(0.7)
    assert found.iqm == pytest.approx(0.7)  # one of four goes at each end: (0.8 + 0.6) / 2


def test_band_interpolates_and_ends_with_the_shortest():
    band = make_band(
        [(np.array([0.0, 2.0]), np.array([0.0, 4.0])), (np.array([0.0, 1.0, 3.0]), np.array([2.0, 4.0, 4.0]))]
    )
    assert band.steps.tolist() == [0.0, 1.0, 2.0]
    assert band.mean.tolist() == [1.0, 3.0, 4.0]  # (0+2)/2, (2+4)/2, (4+4)/2
    assert band.std.tolist() == pytest.approx([np.sqrt(2), np.sqrt(2), 0.0])


def test_probability_of_improvement_by_hand():
    """Pairs that 10, 20, 30, 60 win against 20, 20, 40, 5, ties half: 1 + 2 + 3 + 4 = 10 of 16.

    100, 90, 80 against 50, 100, 60: 2.5 + 2 + 2 = 6.5 of 9.
    """
    swimmer = np.array([10.0, 20.0, 30.0, 60.0]), np.array([20.0, 20.0, 40.0, 5.0])
    hopper = np.array([100.0, 90.0, 80.0]), np.array([50.0, 100.0, 60.0])
    found = probability_of_improvement([swimmer])
    assert found.value == 10 / 16
    assert found.low < 10 / 16 < found.high
    np.testing.assert_allclose(probability_of_improvement([swimmer[::-1]]).value, 6 / 16)
    np.testing.assert_allclose(probability_of_improvement([hopper]).value, 6.5 / 9)
    np.testing.assert_allclose(probability_of_improvement([swimmer, hopper]).value, (10 / 16 + 6.5 / 9) / 2)


def test_probability_at_its_limits():
    low, high = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0])
    assert probability_of_improvement([(high, low)]) == (1, 1, 1)
    assert probability_of_improvement([(low, high)]) == (0, 0, 0)
    assert probability_of_improvement([(low[:1], low[:1])])[0] == 0.5
    assert all(map(math.isnan, probability_of_improvement([(low[:1], high[:1])])[1:]))


def test_the_interval_of_a_probability_by_enumeration():
    """Against the single value 0 a resample of (−1, 1) wins 0, ½ or 1 with probability ¼, ½, ¼: all of [0, 1]."""
    assert probability_of_improvement([(np.array([-1.0, 1.0]), np.array([0.0]))]) == (0.5, 0.0, 1.0)


def test_first_reached_is_the_first_evaluation_at_or_above():
    costs, values = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 5.0, 4.0, 6.0])
    assert first_reached(costs, values, 5.0) == 2
    assert first_reached(costs, values, 4.5) == 2  # where it stood at 2; between 1 and 2 nobody looked
    assert first_reached(costs, values, 5.5) == 4
    assert first_reached(costs, values, 6.5) == math.inf
    assert first_reached(costs, np.array([np.nan, 7.0, np.nan, 7.0]), 7.0) == 2
