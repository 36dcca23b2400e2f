"""Selection: hand-derived choices of every way, over one world and several; ties; candidates without a value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives.pareto import hypervolume
from ucb_moppo.search.acquisition import HypervolumeScore, optimistic_worlds, ucb_beta, zero_beta
from ucb_moppo.search.selection import Acquisition, Select, select_focused, select_sequential, select_top_n

both = pytest.mark.parametrize("select", [select_sequential, select_top_n])  # the paper's two ways
ABOVE_ZERO = HypervolumeScore((0.0, 0.0))


def line(num_weights: int) -> np.ndarray:
    """Evenly spaced weights of two objectives, ascending in the first."""
    first = np.linspace(0, 1, num_weights)
    return np.stack([first, 1 - first], axis=1)


def test_sequential_avoids_an_overlap_that_top_n_does_not_see() -> None:
    # L = {(1,1)}, area 1. Joined one at a time: A=(4,2) 8, B=(3.9,2) 7.8, C=(1,6) 6. Top 2: A, B.
    # Once A is in L (area 8), B is dominated and adds nothing, while C adds 1 × (6−2) = 4: A, C.
    front, optimistic = np.array([[1.0, 1.0]]), np.array([[3.9, 2.0], [1.0, 6.0], [4.0, 2.0]])
    assert select_top_n(ABOVE_ZERO, front, optimistic[None], 0.0, line(3), 2).tolist() == [2, 0]
    assert select_sequential(ABOVE_ZERO, front, optimistic[None], 0.0, line(3), 2).tolist() == [2, 1]


@both
def test_optimism_prefers_the_uncertain_candidate(select: Select) -> None:
    # Means: A=(3,3), B=(2.5,2.5). σ: A 0, B 1. With β=0, A wins (9 > 6.25).
    # At stage 1 β = sqrt(log 2) = 0.8326: B becomes (3.33, 3.33), 11.1 > 9.
    front, values = np.array([[1.0, 1.0]]), np.array([[2.0, 2.0], [2.0, 2.0]])
    changes = np.array([[[1.0, 1.0], [1.5, 1.5]], [[1.0, 1.0], [-0.5, -0.5]]])
    for beta, expected in ((zero_beta(1), 0), (ucb_beta(1), 1)):
        worlds, left = optimistic_worlds(values, changes, beta, "objectives")
        assert select(ABOVE_ZERO, front, worlds, left, line(2), 1).tolist() == [expected]


def test_optimism_changes_the_order_of_sequential_and_top_n_alike_by_hand() -> None:
    # A=(4,2), B=(3.9,2), C=(1,6) as above, now with σ_B = (1,1), β = 0.8326: B = (4.73, 2.83), area 13.4.
    # Top 2: B then A (8). Sequential: beside B, A is dominated; C adds 1 × (6 − 2.83) = 3.17: B, C.
    front, values = np.array([[1.0, 1.0]]), np.array([[3.9, 2.0], [1.0, 6.0], [4.0, 2.0]])
    std = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    worlds, left = optimistic_worlds(values, np.stack([std, -std]), ucb_beta(1), "objectives")
    assert select_top_n(ABOVE_ZERO, front, worlds, left, line(3), 2).tolist() == [0, 2]
    assert select_sequential(ABOVE_ZERO, front, worlds, left, line(3), 2).tolist() == [0, 1]


def slow_sequential(front: np.ndarray, worlds: np.ndarray, count: int) -> list[int]:
    """The paper's process written out, in the mean over worlds; for scores without ties."""
    chosen: list[int] = []
    for _ in range(count):
        joined = [
            np.mean([hypervolume(np.vstack([front, world[[*chosen, i]]]), np.zeros(2)) for world in worlds])
            for i in range(worlds.shape[1])
        ]
        chosen.append(int(np.argmax(np.where(np.isin(range(len(joined)), chosen), -np.inf, joined))))
    return chosen


def quarter_circle(radius: np.ndarray) -> np.ndarray:
    """A candidate for each of ``radius`` [40, 1] outside `INNER`: none dominates another, so no two picks tie."""
    angles = np.sort(np.random.default_rng(0).uniform(0.1, 1.4, 40))
    return np.stack([np.sin(angles), np.cos(angles)], axis=1) * radius


INNER = np.array([[0.3, 0.9], [0.7, 0.7], [0.9, 0.2]])


def test_sequential_is_greedy() -> None:
    front, optimistic = INNER, quarter_circle(np.random.default_rng(1).uniform(1.1, 1.11, (40, 1)))
    picks = select_sequential(ABOVE_ZERO, front, optimistic[None], 0.0, line(40), 6)
    assert picks.tolist() == slow_sequential(front, optimistic[None], 6)
    top = select_top_n(ABOVE_ZERO, front, optimistic[None], 0.0, line(40), 6)
    assert top.tolist() == np.argsort(-ABOVE_ZERO(front, optimistic))[:6].tolist()


@both
def test_without_any_improvement_picks_are_spread_evenly(select: Select) -> None:
    # Every candidate is dominated by (9,9): 5 of 9 evenly spaced weights, ends included, is every second one.
    optimistic = np.random.default_rng(0).uniform(1, 8, (9, 2))
    picks = select(ABOVE_ZERO, np.array([[9.0, 9.0]]), optimistic[None], 0.0, line(9), 5)
    assert sorted(picks.tolist()) == [0, 2, 4, 6, 8]


@both
def test_after_the_last_improvement_the_rest_keeps_away_from_what_is_chosen(select: Select) -> None:
    # Only candidate 0 improves on (9,9). Of the dominated rest, 8 is farthest from 0, then 4 from both.
    optimistic = np.ones((9, 2))
    optimistic[0] = [10, 10]
    picks = select(ABOVE_ZERO, np.array([[9.0, 9.0]]), optimistic[None], 0.0, line(9), 3)
    assert picks.tolist() == [0, 8, 4]


@both
def test_a_partial_tie_goes_to_the_weight_farthest_from_those_chosen(select: Select) -> None:
    # L covers 9 × 9. Candidate 0 is best (10 × 10 = 100). Candidates 1, 2 and 4 tie: 81 + 9 × 2 alone, and
    # 100 + 1 × 9 beside 0. Candidate 3 adds less. Of the tied, 4 is farthest from 0, then 2 (from 0 and 4).
    optimistic = np.array([[10, 10], [9, 11], [9, 11], [9, 9.5], [9, 11]], dtype=float)
    picks = select(ABOVE_ZERO, np.array([[9.0, 9.0]]), optimistic[None], 0.0, line(5), 2)
    assert picks.tolist() == [0, 4]


@both
def test_a_partial_tie_for_the_first_pick_goes_to_the_lowest_index(select: Select) -> None:
    optimistic = np.array([[2.0, 2.0], [5.0, 5.0], [5.0, 5.0]])
    assert select(ABOVE_ZERO, np.array([[1.0, 1.0]]), optimistic[None], 0.0, line(3), 1).tolist() == [1]


@both
def test_rounding_does_not_break_a_tie(select: Select) -> None:
    # Scores that differ in the last bit are equal: the picks are spread instead of following the noise.
    noise = 1e-15 * np.random.default_rng(0).random(9)
    picks = select(
        lambda front, points: 1e6 * (1 + noise[: len(points)]), np.zeros((0, 2)), line(9)[None], 0.0, line(9), 3
    )
    assert sorted(picks.tolist()) == [0, 4, 8]


@both
def test_candidates_without_a_value_come_last(select: Select) -> None:
    optimistic = np.array([[np.nan, 1.0], [2.0, 2.0], [np.inf, np.inf], [3.0, 3.0], [np.nan, np.nan]])
    front = np.array([[1.0, 1.0]])
    assert select(ABOVE_ZERO, front, optimistic[None], 0.0, line(5), 2).tolist() == [3, 1]
    four = select(ABOVE_ZERO, front, optimistic[None], 0.0, line(5), 4).tolist()
    assert four[:2] == [3, 1]
    # Chosen weights sit at 0.75 and 0.25; 0, 0.5 and 1 are all 0.25 away: lowest index first, then the next.
    assert four[2:] == [0, 2]


@both
def test_with_no_value_at_all_picks_are_spread_evenly(select: Select) -> None:
    picks = select(ABOVE_ZERO, np.zeros((0, 2)), np.full((1, 9, 2), np.nan), 0.0, line(9), 3)
    assert sorted(picks.tolist()) == [0, 4, 8]


@both
def test_more_picks_than_candidates_are_refused(select: Select) -> None:
    with pytest.raises(ConfigError, match=r"4 weights .* 3 candidates"):
        select(ABOVE_ZERO, np.ones((1, 2)), np.ones((1, 3, 2)), 0.0, line(3), 4)


@both
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_picks_are_distinct_and_as_many_as_asked(select: Select, data: st.DataObject) -> None:
    values = st.integers(-1, 4).map(float) | st.sampled_from([np.nan, np.inf])
    optimistic = data.draw(arrays(float, st.tuples(st.integers(1, 9), st.just(2)), elements=values))
    count = data.draw(st.integers(0, len(optimistic)))
    picks = select(ABOVE_ZERO, np.array([[1.0, 2.0]]), optimistic[None], 0.0, line(len(optimistic)), count)
    assert len(set(picks.tolist())) == len(picks) == count
    finite = np.isfinite(optimistic).all(axis=1)
    assert finite[picks].sum() == min(count, finite.sum())


# --- several worlds: the bound is that of the score -------------------------------------------------------------

# Above L = {(1,1)} in two worlds: A is (3,3) in both, B (2,2) or (4,4), C (2,4) or (4,2).
TWO_WORLDS = np.array([[[3, 3], [2, 2], [2, 4]], [[3, 3], [4, 4], [4, 2]]], dtype=float)
ONE = np.array([[1.0, 1.0]])


def test_the_bound_of_the_score_by_hand() -> None:
    # Areas: A 9 and 9, B 4 and 16, C 8 and 8. Means 9, 10, 8; standard deviations 0, 6, 0.
    for beta, expected in ((0.0, [9, 10, 8]), (0.5, [9, 13, 8])):
        bound = Acquisition(ABOVE_ZERO, ONE, TWO_WORLDS, beta)([], np.arange(3))
        np.testing.assert_allclose(bound, expected)
    # Asked about some, it answers about those.
    np.testing.assert_allclose(Acquisition(ABOVE_ZERO, ONE, TWO_WORLDS, 0.5)([], np.array([2, 1])), [8, 13])


def test_each_objective_by_itself_does_not_tell_a_trade_from_a_chance() -> None:
    # B and C are alike objective by objective: mean (3,3) and σ (1,1), so at β = 0.5 one optimistic (3.5, 3.5).
    # The hypervolume knows that C trades one for the other (8 for sure) where B is good or bad in both.
    values = np.zeros((3, 2))
    one_world, left = optimistic_worlds(values, TWO_WORLDS, 0.5, "objectives")
    np.testing.assert_allclose(Acquisition(ABOVE_ZERO, ONE, one_world, left)([], np.arange(3)), [9, 12.25, 12.25])
    worlds, left = optimistic_worlds(values, TWO_WORLDS, 0.5, "score")
    assert select_top_n(ABOVE_ZERO, ONE, worlds, left, line(3), 3).tolist() == [1, 0, 2]


def test_a_choice_joins_the_front_of_its_own_world_by_hand() -> None:
    # With B chosen the worlds are worth 4 and 16. A makes them 9 and 16, C 8 and 16: means 12.5 and 12.
    acquisition = Acquisition(ABOVE_ZERO, ONE, TWO_WORLDS, 0.0)
    np.testing.assert_allclose(acquisition([1], np.array([0, 2])), [12.5, 12])
    assert acquisition.worth([]) == 1
    assert acquisition.worth([1]) == 10
    assert acquisition.worth([1, 0]) == 12.5
    for beta in (0.0, 0.5):
        assert select_sequential(ABOVE_ZERO, ONE, TWO_WORLDS, beta, line(3), 3).tolist() == [1, 0, 2]


def test_sequential_over_worlds_is_greedy_in_the_mean() -> None:
    worlds = np.stack([quarter_circle(np.random.default_rng(i).uniform(1.0, 1.2, (40, 1))) for i in range(5)])
    picks = select_sequential(ABOVE_ZERO, INNER, worlds, 0.0, line(40), 6)
    assert picks.tolist() == slow_sequential(INNER, worlds, 6)


@both
def test_a_candidate_without_a_value_in_one_world_comes_last(select: Select) -> None:
    worlds = np.tile([[2.0, 2.0], [9.0, 9.0], [3.0, 3.0]], (2, 1, 1))
    worlds[1, 1, 0] = np.nan
    assert select(ABOVE_ZERO, ONE, worlds, 0.5, line(3), 3).tolist() == [2, 0, 1]


# --- focused ----------------------------------------------------------------------------------------------------


def focused(optimistic: object, count: int, front: np.ndarray = ONE) -> list[int]:
    """Picks with one world."""
    worlds = np.array([optimistic], dtype=float)
    return select_focused(ABOVE_ZERO, front, worlds, 0.0, line(worlds.shape[1]), count).tolist()


def test_focused_by_hand() -> None:
    # Above (1,1), candidate 1, (4,2), adds 7; beside it 2, (3.9,2), nothing and 3, (1,6), 4; then nothing grows.
    # A quarter of the picks, rounded up, go to 1 and 3 in turn; the others are spread evenly over all five weights,
    # ends included, and over and over again where there are more of them.
    optimistic = [[1, 1], [4, 2], [3.9, 2], [1, 6], [0, 0]]
    assert focused(optimistic, 4) == [1, 0, 2, 4]
    assert focused(optimistic, 5) == [1, 3, 0, 2, 4]
    assert focused(optimistic, 12) == [1, 3, 1, 0, 1, 2, 3, 4, 0, 1, 2, 3]
    assert focused(optimistic, 1) == [1]


@pytest.mark.parametrize(("extra", "growing"), [(0.06, [1, 1]), (0.08, [1, 2])])
def test_focused_stops_under_a_hundredth_of_the_first_gain(extra: float, growing: list[int]) -> None:
    # The first, (4,2), adds 7. The second, (1, 2 + extra), sticks out by 1 × extra: 0.07 is a hundredth of 7.
    assert focused([[1, 1], [4, 2], [1, 2 + extra]], 5) == [*growing, 0, 1, 2]


def test_focused_spreads_all_picks_when_nothing_grows() -> None:
    dominated = np.random.default_rng(0).uniform(1, 8, (9, 2))
    assert focused(dominated, 5, front=np.array([[9.0, 9.0]])) == [0, 2, 4, 6, 8]


def test_focused_comes_back_to_where_the_front_grows_as_often_as_it_is_asked() -> None:
    # More picks than candidates: sub-spaces that share a policy may all train on the same weights.
    assert focused([[1, 1], [5, 5], [1, 1]], 8) == [1, 1, 0, 1, 2, 0, 1, 2]


def test_focused_never_takes_a_candidate_without_a_value_for_one_that_grows() -> None:
    without = [[np.nan, 99], [2, 2], [np.inf, np.inf], [3, 3], [np.nan, np.nan]]
    assert focused(without, 5) == [3, 3, 0, 2, 4]  # beside (3,3), (2,2) adds nothing
    assert focused(np.full((9, 2), np.nan), 5) == [0, 2, 4, 6, 8]
    one_world_only = np.tile([[9.0, 9.0], [1.0, 1.0], [2.0, 2.0]], (2, 1, 1))
    one_world_only[1, 0] = np.nan
    picks = select_focused(ABOVE_ZERO, ONE, one_world_only, 0.5, line(3), 4)
    assert picks.tolist() == [2, 0, 1, 2]


def slow_growing(front: np.ndarray, worlds: np.ndarray, most: int) -> list[int]:
    """Greedy in the mean hypervolume over worlds while a pick adds a hundredth of what the first did."""
    growing: list[int] = []
    worth = [np.mean([hypervolume(front, np.zeros(2)) for _ in worlds])]
    while len(growing) < most:
        nxt = slow_sequential(front, worlds, len(growing) + 1)
        worth.append(np.mean([hypervolume(np.vstack([front, w[nxt]]), np.zeros(2)) for w in worlds]))
        if worth[-1] - worth[-2] < 0.01 * (worth[1] - worth[0]):
            break
        growing = nxt
    return growing


@pytest.mark.parametrize("num_worlds", [1, 4])
def test_focused_grows_as_the_slow_version_does(num_worlds: int) -> None:
    radii = [np.random.default_rng(i).uniform(1.0, 1.2, (40, 1)) for i in range(num_worlds)]
    worlds = np.stack([quarter_circle(radius) for radius in radii])
    growing = slow_growing(INNER, worlds, 30)
    assert 3 < len(growing) < 30  # it stops by itself
    picks = select_focused(ABOVE_ZERO, INNER, worlds, 0.0, line(40), 120).tolist()
    assert picks[:30] == [growing[i % len(growing)] for i in range(30)]
    assert picks[30:] == [*range(40), *range(40), *range(10)]


def test_focused_weighs_the_uncertain_by_beta() -> None:
    # A covers 9 for sure; B, now (2,2) or (√13.8, √13.8), 4 or 13.8: mean 8.9, standard deviation 4.9.
    worlds = TWO_WORLDS.copy()
    worlds[1, 1] = np.sqrt(13.8)
    for beta, first in ((0.0, 0), (0.5, 1)):
        assert select_focused(ABOVE_ZERO, ONE, worlds, beta, line(3), 2)[0] == first


def test_focused_stops_by_what_a_pick_adds_not_by_how_uncertain_those_before_it_are() -> None:
    # Candidate 1 is (2,2) or (4,4): 4 or 16. No other adds anything to it in any world.
    worlds = np.ones((2, 3, 2))
    worlds[0, 1], worlds[1, 1] = 2, 4
    picks = select_focused(ABOVE_ZERO, ONE, worlds, 0.5, line(3), 8)
    assert picks.tolist() == [1, 1, 0, 1, 2, 0, 1, 2]
