"""Utilities against values and slopes derived by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives.goal_settings import GoalSettings, check_goal
from ucb_moppo.objectives.indicators import expected_utility, measure
from ucb_moppo.objectives.utility import LINEAR_GOAL, Goal, Linear, OwnUtility, make_goal
from ucb_moppo.search.acquisition import ExpectedUtilityScore

EVEN = np.array([0.5, 0.5])


@dataclass(frozen=True)
class TwoObjectives:
    """A problem, as far as a utility looks at it."""

    objectives: tuple[str, ...] = ("speed", "height")
    reference_point: tuple[float, ...] = (0.0, 0.0)


def goal_of(**settings: object) -> Goal:
    chosen = GoalSettings(**settings)  # type: ignore[arg-type]
    check_goal(chosen)
    return make_goal(chosen, TwoObjectives())


def chebyshev(rho: float = 0.0, **more: object) -> Goal:
    return goal_of(utility="chebyshev", ideal=(10.0, 20.0), rho=rho, **more)


def floors(**more: object) -> Goal:
    return goal_of(utility="floors", floors=("height=4",), **more)


def test_a_linear_utility_is_the_weighted_sum_and_slopes_by_the_preference() -> None:
    returns, preference = np.array([[3.0, 4.0], [-1.0, 2.0]]), np.array([0.25, 0.75])
    np.testing.assert_allclose(Linear()(returns, preference), [0.75 + 3.0, -0.25 + 1.5])
    np.testing.assert_array_equal(Linear().gradient(returns, preference), [[0.25, 0.75]] * 2)


def test_achievement_is_the_minimum_of_the_normalised_objectives_for_an_even_preference() -> None:
    # z = (5/10, 16/20) = (.5, .8): the minimum is .5, and ρ of the mean .65 comes on top.
    assert chebyshev().utility(np.array([5.0, 16.0]), EVEN) == pytest.approx(0.5)
    assert chebyshev(rho=0.1).utility(np.array([5.0, 16.0]), EVEN) == pytest.approx(0.5 + 0.065)


def test_achievement_weighs_what_lacks_of_the_ideal_by_the_preference() -> None:
    # What lacks is (.5, .2); 2·(.2·.5, .8·.2) = (.2, .32): the second is worst off, 1 − .32.
    assert chebyshev().utility(np.array([5.0, 16.0]), np.array([0.2, 0.8])) == pytest.approx(0.68)
    # With nothing preferred of the second only the first counts, also beyond the ideal: 1 + 2·(1.5 − 1).
    assert chebyshev().utility(np.array([15.0, -99.0]), np.array([1.0, 0.0])) == pytest.approx(2.0)


def test_achievement_slopes_by_the_objective_that_is_worst_off() -> None:
    # Far apart, the first alone: 2 · ½ / 10 a unit; ρ/2 of each over its span beside it.
    slope = chebyshev(rho=0.1).utility.gradient(np.array([1.0, 18.0]), EVEN)
    np.testing.assert_allclose(slope, [0.1 + 0.05 / 10, 0.05 / 20], rtol=1e-4)
    # Where both are as far off, each has half: ½ · 2 · ½ / span.
    np.testing.assert_allclose(chebyshev().utility.gradient(np.array([5.0, 10.0]), EVEN), [0.05, 0.025])


def test_floors_cost_four_times_what_is_lacking() -> None:
    # ½·(6 + 3) − 4·(4 − 3); at 5 the floor holds.
    assert floors().utility(np.array([6.0, 3.0]), EVEN) == pytest.approx(4.5 - 4.0)
    assert floors().utility(np.array([6.0, 5.0]), EVEN) == pytest.approx(5.5)
    np.testing.assert_allclose(floors().utility.gradient(np.array([6.0, 2.0]), EVEN), [0.5, 4.5], rtol=1e-6)
    np.testing.assert_allclose(floors().utility.gradient(np.array([6.0, 6.0]), EVEN), [0.5, 0.5], rtol=1e-6)
    # It fades over 3% of 4, like 1/(1 + e^−x): 0.12 above the floor 4/(1 + e) is left.
    np.testing.assert_allclose(floors().utility.gradient(np.array([6.0, 4.12]), EVEN), [0.5, 0.5 + 1.0757657])
    # At the floor itself, half of it.
    np.testing.assert_allclose(floors().utility.gradient(np.array([6.0, 4.0]), EVEN), [0.5, 2.5])


def test_a_direction_is_a_slope_of_one_size_in_units_of_the_objectives() -> None:
    # The slope (.1, 0) over spans (10, 20) is of size 1; so is (0, .05).
    np.testing.assert_allclose(chebyshev().direction(np.array([1.0, 18.0]), EVEN), [0.1, 0.0], atol=1e-7)
    np.testing.assert_allclose(chebyshev().direction(np.array([9.0, 2.0]), EVEN), [0.0, 0.05], atol=1e-7)


def test_where_nothing_is_known_of_the_returns_the_direction_is_the_preference() -> None:
    direction = floors().direction(np.full((3, 2), np.nan), np.array([0.2, 0.8]))
    np.testing.assert_allclose(direction, [[0.2, 0.8]] * 3)


finite = st.floats(-50, 50)


@given(st.lists(finite, min_size=2, max_size=2), st.floats(0.05, 0.95))
def test_a_utility_of_ones_own_slopes_as_its_differences_say(returns: list[float], first: float) -> None:
    def product(values: NDArray, preference: NDArray) -> NDArray:
        return np.asarray((np.exp(values / 50) ** preference).prod(-1))

    point, preference = np.array(returns), np.array([first, 1 - first])
    slope = OwnUtility(product, np.ones(2)).gradient(point, preference)
    # ∂/∂v_j Π exp(v/50)^p = p_j / 50 · u
    np.testing.assert_allclose(slope, preference / 50 * product(point, preference), rtol=1e-5)


def test_a_utility_of_ones_own_may_bring_its_gradient_and_must_give_a_number_each() -> None:
    class Square:
        def __call__(self, returns: NDArray, preference: NDArray) -> NDArray:
            return np.asarray((returns**2).sum(-1))

        def gradient(self, returns: NDArray, preference: NDArray) -> NDArray:
            return np.full(returns.shape, 7.0)

    own = OwnUtility(Square(), np.ones(2))
    assert own.gradient(np.zeros((3, 2)), EVEN).tolist() == [[7.0, 7.0]] * 3
    with pytest.raises(ConfigError, match=r"made \(3, 2\) of returns \(3, 2\): it must give a number for each"):
        OwnUtility(lambda returns, preference: returns, np.ones(2))(np.zeros((3, 2)), EVEN)


def test_of_the_mean_or_of_each_episode() -> None:
    # Two episodes, one all speed and one all height: each has a minimum of 0, their mean (5, 10) has ½.
    episodes = np.array([[10.0, 0.0], [0.0, 20.0]])
    of_mean, of_each = chebyshev(), chebyshev(criterion="esr")
    assert of_mean.values(of_mean.outcomes(episodes), EVEN) == pytest.approx(0.5)
    assert of_each.values(of_each.outcomes(episodes), EVEN) == pytest.approx(0.0)


def test_expected_utility_is_that_of_the_best_for_each_preference() -> None:
    goal = chebyshev()
    points = np.array([[[10.0, 0.0]], [[0.0, 20.0]], [[5.0, 10.0]], [[np.nan, 1.0]]])
    # Preferences (0, 1), (½, ½), (1, 0): the second point is ideal for the first, the first for the last, and ½
    # between.
    assert expected_utility(points, (0, 0), divisions=2, goal=goal) == pytest.approx((1 + 0.5 + 1) / 3)
    found = measure(points[:, 0].reshape(2, 2, 2), (0, 0), 2, goal)
    assert found["expected_utility"] == pytest.approx(2.5 / 3)
    assert found["hypervolume"] == pytest.approx(50.0)  # the box of (5, 10): hypervolume knows no preference


def test_the_acquisition_scores_by_the_utility() -> None:
    score = ExpectedUtilityScore(np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])).for_utility(chebyshev().utility)
    front = np.array([[10.0, 0.0], [0.0, 20.0]])
    # The ends leave 0 to the even preference; the point between them, which no weighted sum wants, gives .4.
    scores = score(front, np.array([[4.0, 8.0], [np.inf, 0.0]]))
    assert scores[0] == pytest.approx((1 + 0.4 + 1) / 3)
    assert scores[1] == -np.inf
    assert score(np.empty((0, 2)), np.array([[4.0, 8.0]])).shape == (1,)


def test_a_linear_goal_measures_as_ever() -> None:
    returns = np.random.default_rng(0).uniform(size=(3, 4, 2))
    assert measure(returns, (0, 0)) == measure(returns, (0, 0), None, LINEAR_GOAL)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"utility": "chebyshef"}, "did you mean chebyshev"),
        ({"utility": "chebyshev"}, "give what would be ideal"),
        ({"utility": "floors"}, "give at least one, e.g. --floors speed=2000"),
        ({"criterion": "esr"}, "no difference to a linear utility"),
        ({"utility": "chebyshev", "ideal": (1.0, 2.0), "criterion": "sre"}, "unknown criterion 'sre'"),
        ({"utility": "chebyshev", "ideal": (1.0, np.inf)}, "finite number per objective"),
        ({"utility": "chebyshev", "ideal": (1.0, 2.0), "rho": -0.1}, "rho is -0.1"),
        ({"ideal": (1.0, 2.0)}, "did you mean --utility chebyshev"),
        ({"floors": ("speed=1",)}, "did you mean --utility floors"),
        ({"utility": "floors", "floors": ("speed=1",), "floor_penalty": 0.0}, "floor_penalty is 0.0"),
        (
            {"utility": "chebyshev", "ideal": (1.0, 2.0, 3.0)},
            r"give 2 numbers, one per objective \(speed, height\)",
        ),
        ({"utility": "chebyshev", "ideal": (1.0, -2.0)}, "the first must be above the second"),
        ({"utility": "floors", "floors": ("depth=1",)}, "there is no objective 'depth'"),
        ({"utility": "floors", "floors": ("speed",)}, "give NAME=VALUE"),
        ({"utility": "floors", "floors": ("speed=fast",)}, "give a number"),
        ({"utility": "floors", "floors": ("speed=1", "SPEED=2")}, "more than once"),
        ({"utility": "no_such_lab:product"}, "no_such_lab, which is not installed"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        goal_of(**settings)
