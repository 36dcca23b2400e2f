"""Other methods' acquisitions, which the hypervolume is compared with: values derived by hand."""

from __future__ import annotations

import numpy as np
import pytest
from acquisitions import Corners, Crowding, corner_weights

# (1, 3.2) is on the front and below its convex hull: from (0, 4) to (3, 3) the hull passes (1, 3.67).
FRONT = np.array([[0.0, 4.0], [3.0, 3.0], [4.0, 0.0], [1.0, 3.2]])
NOTHING = np.zeros((0, 2))


def test_corners_are_where_neighbours_on_the_hull_tie() -> None:
    corners = corner_weights(FRONT)
    # From (0, 4) to (3, 3) one gives 1 for 3, from (3, 3) to (4, 0) 3 for 1.
    np.testing.assert_allclose(corners, [[0, 1], [0.25, 0.75], [0.75, 0.25], [1, 0]])
    utilities = FRONT @ corners[1:-1].T
    np.testing.assert_allclose(utilities[0, 0], utilities[1, 0])
    np.testing.assert_allclose(utilities[1, 1], utilities[2, 1])


@pytest.mark.parametrize(
    ("candidate", "score"),
    [
        ((4.0, 3.5), 0.875),  # at (¾, ¼) 3.875, where 3 is the best so far
        ((2.0, 3.6), 0.2),  # at (¼, ¾) 3.2, where 3 is
        ((1.0, 3.5), 0.0),  # under the hull
        ((5.0, -1.0), 1.0),  # at (1, 0) 5, where 4 is
        ((np.nan, 1.0), -np.inf),
    ],
)
def test_a_candidate_is_worth_what_it_raises_at_a_corner(candidate: tuple[float, float], score: float) -> None:
    assert Corners([0, 0])(FRONT, np.array([candidate]))[0] == pytest.approx(score)


@pytest.mark.parametrize(
    ("candidate", "score"),
    [
        ((2.0, 3.1), 2 / 4 + 0.2 / 4),  # between (1, 3.2) and (3, 3); spans are 4 and 4
        ((3.5, 1.0), 1 / 4 + 3 / 4),  # between (3, 3) and (4, 0)
        ((2.0, 2.0), 0.0),  # dominated
        ((3.0, 3.0), 0.0),  # there already
        ((5.0, -1.0), 2 * (1 / 4 + 1 / 4)),  # beyond (4, 0)
        ((np.inf, 1.0), -np.inf),
    ],
)
def test_a_candidate_is_worth_the_gap_it_falls_into(candidate: tuple[float, float], score: float) -> None:
    assert Crowding([0, 0])(FRONT, np.array([candidate]))[0] == pytest.approx(score)


@pytest.mark.parametrize("acquisition", [Corners, Crowding])
def test_an_empty_front_takes_whatever_is_above_the_reference_point(acquisition: type) -> None:
    assert acquisition([0, 0])(NOTHING, np.array([[1.0, 2.0]]))[0] > 0
