"""Neighbours and the rates they trade at, and numbers in words."""

import numpy as np
import pytest

from ucb_moppo.decide.exchange import (
    Neighbour,
    Rate,
    describe_rate,
    describe_rates,
    exchange_rates,
    find_neighbours,
)
from ucb_moppo.decide.outcomes import Outcomes
from ucb_moppo.decide.words import describe_outcome, in_short

POINTS = np.array([[10.0, 40.0], [20.0, 30.0], [40.0, 10.0]])
FRONT = Outcomes(("speed", "energy"), POINTS, np.arange(3))


def test_a_neighbour_on_either_side():
    assert find_neighbours(POINTS, POINTS[1]) == [Neighbour((0,), 2), Neighbour((1,), 0)]
    assert find_neighbours(POINTS, POINTS[0]) == [Neighbour((0,), 1)]


def test_rates_by_hand():
    # From (20, 30) to (40, 10): 20 more speed for 20 energy; to (10, 40): 10 more energy for 10 speed.
    assert exchange_rates(POINTS[1], POINTS[2], (0,)) == [Rate(0, 1, 20.0, 20.0)]
    (rate,) = exchange_rates(np.array([100.0, 8.0, 3.0]), np.array([150.0, 6.0, 3.0]), (0,))
    assert rate.price == pytest.approx(2 / 50)
    assert describe_rate(rate, ("speed", "energy", "height")) == "10 more speed costs 0.4 energy"
    assert describe_rates(FRONT, 1, Neighbour((1,), 0)) == ["10 more energy costs 10 speed"]


def test_who_is_better_in_everything_costs_nothing():
    assert exchange_rates(np.array([1.0, 1.0]), np.array([2.0, 1.0]), (0,)) == []


def test_two_gains_for_one_loss_are_two_rates():
    rates = exchange_rates(np.array([1.0, 1.0, 9.0]), np.array([2.0, 5.0, 7.0]), (0, 1))
    assert [(r.gained, r.lost, r.price) for r in rates] == [(0, 2, 2.0), (1, 2, 0.5)]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (0.12349, "0.1235"),
        (12.345, "12.35"),
        (2653.4, "2,653"),
        (123456.7, "123,457"),
        (-0.5, "-0.5"),
        (100, "100"),
        (3e10, "3.000e+10"),
        (2e-6, "2.000e-06"),
    ],
)
def test_numbers_in_short(value, words):
    assert in_short(value) == words


def test_an_outcome_in_words():
    assert describe_outcome(np.array([2653.4, -0.25]), ["speed", "energy"]) == "speed 2,653, energy -0.25"
