"""A few points for all of a front: its ends, then what lies farthest from those."""

from __future__ import annotations

import numpy as np
import pytest

from ucb_moppo.objectives.spread import spread_over


def test_ends_come_first_then_the_largest_gap() -> None:
    """The second objective counts a thousand times as little, as it spans a thousand times as much.

    In shares: (1, 0), (0, 1), (.9, .1), (.5, .5), (.3, .6). From the ends (.5, .5) is .71 away and (.3, .6)
    .5; once the former is chosen, (.3, .6) is .22 from it and (.9, .1) .14 from the first end.
    """
    points = np.array([[2.0, 0.0], [1.0, 1000.0], [1.9, 100.0], [1.5, 500.0], [1.3, 600.0]])
    assert [spread_over(points, count) for count in range(4)] == [[], [0], [0, 1], [0, 1, 3]]
    assert spread_over(points, 9) == [0, 1, 3, 4, 2]


def test_of_equal_ends_the_better_is_taken() -> None:
    assert spread_over([[1.0, 0.0], [1.0, 2.0], [0.0, 3.0]], 2) == [1, 2]


def test_each_of_three_objectives_has_its_end_and_one_point_may_be_two_of_them() -> None:
    assert spread_over([[0, 0, 1], [0, 1, 0], [1, 0, 0], [0.3, 0.3, 0.3]], 3) == [2, 1, 0]
    assert spread_over([[1, 1, 0], [0, 0, 1], [0.5, 0.5, 0.5]], 2) == [0, 1]


@pytest.mark.parametrize(
    "points",
    [
        np.zeros((0, 2)),
        np.ones((3, 2)),
        np.array([[np.nan, 1.0], [2.0, np.nan], [0.0, 0.0]]),
        np.array([[1.7e308, -1.7e308], [-1.7e308, 1.7e308], [5e-324, 0.0]]),
    ],
    ids=["none", "equal", "not measured", "huge"],
)
def test_no_point_comes_twice_whatever_the_points(points: np.ndarray) -> None:
    assert sorted(spread_over(points, 5)) == list(range(len(points)))


def test_less_than_nothing_is_nothing() -> None:
    assert spread_over([[1.0, 2.0]], -1) == []
