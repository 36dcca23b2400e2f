"""What a preference picks, against a run whose best answers are known."""

import numpy as np
import pytest
from sample_runs import SampleRun

from ucb_moppo.report.load import load_data
from ucb_moppo.viewer.choice import choice_at, choose, describe_difference, find_neighbours, pickable_rows


@pytest.fixture
def corner(tmp_path):
    """Two policies of two weights each: returns (10, 40), (20, 30), (15, 15) dominated, (40, 10)."""
    values = np.array([[[10.0, 40.0], [20.0, 30.0]], [[15.0, 15.0], [40.0, 10.0]]])
    path = SampleRun.showing(values / 2, values).write(tmp_path / "corner")
    return load_data(path)


@pytest.mark.parametrize(
    ("preference", "row"),
    [([1.0, 0.0], 3), ([0.0, 1.0], 0), ([0.5, 0.5], 0), ([0.4, 0.6], 0), ([0.6, 0.4], 3)],
)
def test_the_highest_utility_wins(corner, preference, row):
    # At (½, ½): 25, 25, 15, 25, and the first of equals is taken.
    assert choose(corner, np.array(preference)).row == row


def test_neighbours_are_next_on_the_front(corner):
    near = find_neighbours(corner, choose(corner, np.array([0.0, 1.0])))
    # From (10, 40) only the first objective can grow; (20, 30) is nearer than (40, 10).
    assert [(n.objectives, n.choice.row, n.difference) for n in near] == [
        ((0,), 1, "100% more speed, 25% less energy")
    ]


def test_the_middle_has_a_neighbour_on_either_side(corner):
    near = find_neighbours(corner, choice_at(corner, 1))
    assert [(n.objectives, n.choice.row) for n in near] == [((0,), 3), ((1,), 0)]


def test_neighbours_are_far_enough_to_notice(tmp_path):
    # The first objective spans 100: from 50 to 51 is 1% of it, to 60 is 10%.
    values = np.array([[[0.0, 100.0], [50.0, 50.0]], [[51.0, 49.0], [60.0, 40.0]], [[99.5, 1.0], [100.0, 0.0]]])
    data = load_data(SampleRun.showing(values, values).write(tmp_path / "near"))
    near = find_neighbours(data, choice_at(data, 1))
    assert [(n.objectives, n.choice.row) for n in near] == [((0,), 3), ((1,), 0)]
    # From 99.5, only 100 has more of the first: half a hundredth.
    assert [n.objectives for n in find_neighbours(data, choice_at(data, 4))] == [(1,)]


def test_a_neighbour_with_more_of_two_objectives_stands_once(tmp_path):
    values = np.array([[[10.0, 10.0, 90.0], [60.0, 60.0, 10.0]]])
    data = load_data(SampleRun.showing(values, values).write(tmp_path / "both"))
    (near,) = find_neighbours(data, choice_at(data, 0))
    assert near.objectives == (0, 1)
    assert near.difference == "500% more speed, 500% more energy, 89% less height"


@pytest.mark.parametrize(
    ("here", "there", "words"),
    [
        ((100.0, 50.0), (98.0, 45.5), "2% less speed, 9% less energy"),
        ((100.0, 50.0), (100.0, 50.2), "the same speed, 0.4% more energy"),
        ((0.0, -8.0), (3.0, -9.0), "3 more speed, 12% worse energy"),
        ((0.001, -8.0), (5.0, -4.0), "4.999 more speed, 50% better energy"),
    ],
)
def test_differences_in_words(here, there, words):
    assert describe_difference(np.array(here), np.array(there), ["speed", "energy"]) == words


def test_pickable_rows_are_those_some_preference_picks(corner):
    # (20, 30) lies on the line from (10, 40) to (40, 10): never strictly best, so one of the two ends wins.
    assert pickable_rows(corner) == [0, 3]
