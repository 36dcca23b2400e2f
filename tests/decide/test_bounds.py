"""Floors and ceilings: who remains, which of them costs most, and how objectives are named."""

import numpy as np
import pytest

from ucb_moppo.decide.bounds import make_bounds, nearest_miss, remaining, without_each
from ucb_moppo.decide.outcomes import Outcomes
from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives.names import find_objective

NAMES = ("forward speed", "energy efficiency")
OUTCOMES = Outcomes(NAMES, np.array([[10.0, 40.0], [20.0, 30.0], [40.0, 10.0]]), np.array([7, 8, 9]))


@pytest.mark.parametrize(
    ("floors", "ceilings", "left"),
    [
        ({}, {}, [0, 1, 2]),
        ({"speed": 20}, {}, [1, 2]),  # what is just at the floor holds
        ({"speed": 20}, {"speed": 30}, [1]),
        ({"speed": 15, "energy": 15}, {}, [1]),
        ({"speed": 21, "energy": 21}, {}, []),
    ],
)
def test_who_remains(floors, ceilings, left):
    assert remaining(OUTCOMES, make_bounds(NAMES, floors, ceilings)).tolist() == left


def test_what_each_bound_costs():
    bounds = make_bounds(NAMES, {"speed": 21, "energy": 21}, {"energy": 35})
    # Without the first, (20, 30) is left; without the second, (40, 10); the ceiling is not what costs.
    assert without_each(OUTCOMES, bounds) == [(0, True, 21.0, 1), (1, True, 21.0, 1), (1, False, 35.0, 0)]
    # Both objectives span 30: (10, 40) lacks 11 and has 5 too much, (20, 30) lacks 1, (40, 10) lacks 11.
    assert nearest_miss(OUTCOMES, bounds) == 1


def test_a_floor_above_its_ceiling_is_refused():
    with pytest.raises(ConfigError, match="floor 5 is above the ceiling 4"):
        make_bounds(NAMES, {"speed": 5}, {"speed": 4})


@pytest.mark.parametrize(
    ("name", "objective"), [("forward speed", 0), ("Energy", 1), ("speed", 0), ("1", 0), (" 2 ", 1)]
)
def test_objectives_by_name_part_or_number(name, objective):
    assert find_objective(name, NAMES) == objective


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("height", "there is no objective 'height'"),
        ("e", "'e' may mean forward speed or energy efficiency"),
        ("3", "there is no objective '3'"),
        ("", "there is no objective ''"),
    ],
)
def test_other_names_are_refused(name, words):
    with pytest.raises(ConfigError, match=words):
        find_objective(name, NAMES)


@pytest.mark.parametrize("value", ["fast", None, "nan", float("inf")])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ConfigError, match="give a"):
        make_bounds(NAMES, {"speed": value}, {})


def test_failed_policies_are_no_choice():
    with pytest.raises(ConfigError, match="no policy with finite returns"):
        Outcomes(NAMES, np.zeros((0, 2)), np.zeros(0, int))
