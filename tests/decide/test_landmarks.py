"""Extremes, knee and achievement on fronts whose answers follow by hand."""

import numpy as np
import pytest

from ucb_moppo.decide.landmarks import achievement, find_closest, find_extremes, find_knee, plane_normal
from ucb_moppo.decide.outcomes import Outcomes


def outcomes(*returns):
    return Outcomes(tuple("abc"[: len(returns[0])]), np.array(returns, float), np.arange(len(returns)))


def everyone(front):
    return np.arange(len(front))


def test_extremes_and_of_equals_who_has_more_of_the_rest():
    front = outcomes((9, 1), (9, 2), (5, 5), (1, 9))
    assert find_extremes(front, everyone(front)) == [1, 3]
    assert find_extremes(front, np.array([2, 3])) == [2, 3]


def test_the_knee_of_a_bent_line():
    # Scaled: (0, 1), (.2, .95), (.8, .8), (.9, .3), (1, 0). Beyond the line x + y = 1 by 0, .15, .6, .2, 0.
    front = outcomes((0, 200), (20, 190), (80, 160), (90, 60), (100, 0))
    assert find_knee(front, everyone(front)) == 2


def test_the_knee_of_what_remains_is_measured_there():
    # Without the first two, scaled among themselves: (0, 1), (.5, .375), (1, 0): the sums are 1, .875, 1.
    front = outcomes((0, 200), (20, 190), (80, 160), (90, 60), (100, 0))
    assert find_knee(front, np.array([2, 3, 4])) == 2


def test_a_convex_bulge_against_a_leaning_plane():
    # The plane through (1, 0, 0), (0, 1, 0) and (.5, .5, 1): x + y + 0·z = 1 has no positive normal in z, so all
    # count alike.
    normal = plane_normal(np.array([[1.0, 0, 0], [0, 1, 0], [0.5, 0.5, 1]]))
    np.testing.assert_allclose(normal, [1 / 3] * 3)
    # Through (1, .2), (.2, 1): both weigh the same; through (1, 0), (.5, 1): x + y / 2 = 1.
    np.testing.assert_allclose(plane_normal(np.array([[1, 0.2], [0.2, 1]])), [0.5, 0.5])
    np.testing.assert_allclose(plane_normal(np.array([[1, 0], [0.5, 1]])), [2 / 3, 1 / 3])


def test_one_extreme_of_two_objectives_is_no_plane():
    np.testing.assert_allclose(plane_normal(np.ones((2, 2))), [0.5, 0.5])
    front = outcomes((3, 3), (1, 2))
    assert find_knee(front, everyone(front)) == 0


def test_achievement_is_the_least_excess_and_a_little_of_the_mean():
    front = outcomes((0, 10), (4, 6), (10, 0))
    # Aspired to (5, 5), spans 10: excesses (−.5, .5), (−.1, .1), (.5, −.5); their means are 0.
    np.testing.assert_allclose(achievement(front, np.array([5.0, 5.0])), [-0.5, -0.1, -0.5])
    # To (4, nothing): excesses of the first −.4, 0, .6; of the second, from its worst, 1, .6, 0.
    expected = [-0.4 + 0.1 * 0.3, 0.1 * 0.3, 0.6 + 0.1 * 0.3]
    np.testing.assert_allclose(achievement(front, np.array([4.0, np.nan]), rho=0.1), expected)


@pytest.mark.parametrize(("aims", "closest"), [((5, 5), 1), ((9, 1), 2), ((0, 10), 0), ((1, 9), 0)])
def test_who_comes_closest(aims, closest):
    front = outcomes((0, 10), (4, 6), (10, 0))
    assert find_closest(front, everyone(front), np.array(aims, float)) == closest


def test_the_mean_decides_between_those_equally_badly_off():
    front = outcomes((2, 8, 0), (2, 5, 1), (10, 0, 5))
    # Aspired to (4, …): the first two lack as much; the first has 8 more of 8 span and 0 of 5, the second 5 and 1.
    assert find_closest(front, np.array([0, 1]), np.array([4, np.nan, np.nan])) == 0
