"""Selection: hand-derived choices of the two ways, ties, and candidates without a value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ucb_moppo.errors import ConfigError
from ucb_moppo.registry import SELECTIONS
from ucb_moppo.search.acquisition import HypervolumeScore, optimistic_values, ucb_beta, zero_beta
from ucb_moppo.search.selection import Select, select_sequential, select_top_n

both = pytest.mark.parametrize("select", [SELECTIONS.find(name) for name in SELECTIONS], ids=list(SELECTIONS))
ABOVE_ZERO = HypervolumeScore((0.0, 0.0))


def line(num_weights: int) -> np.ndarray:
    """Evenly spaced weights of two objectives, ascending in the first."""
    first = np.linspace(0, 1, num_weights)
    return np.stack([first, 1 - first], axis=1)


def test_sequential_avoids_an_overlap_that_top_n_does_not_see() -> None:
    # L = {(1,1)}, area 1. Joined one at a time: A=(4,2) 8, B=(3.9,2) 7.8, C=(1,6) 6. Top 2: A, B.
    # Once A is in L (area 8), B is dominated and adds nothing, while C adds 1 × (6−2) = 4: A, C.
    front, optimistic = np.array([[1.0, 1.0]]), np.array([[3.9, 2.0], [1.0, 6.0], [4.0, 2.0]])
    assert select_top_n(ABOVE_ZERO, front, optimistic, line(3), 2).tolist() == [2, 0]
    assert select_sequential(ABOVE_ZERO, front, optimistic, line(3), 2).tolist() == [2, 1]


@both
def test_optimism_prefers_the_uncertain_candidate(select: Select) -> None:
    # Means: A=(3,3), B=(2.5,2.5). σ: A 0, B 1. With β=0, A wins (9 > 6.25).
    # At stage 1 β = sqrt(log 2) = 0.8326: B becomes (3.33, 3.33), 11.1 > 9.
    front, values = np.array([[1.0, 1.0]]), np.array([[2.0, 2.0], [2.0, 2.0]])
    mean, std = np.array([[1.0, 1.0], [0.5, 0.5]]), np.array([[0.0, 0.0], [1.0, 1.0]])
    for beta, expected in ((zero_beta(1), 0), (ucb_beta(1), 1)):
        optimistic = optimistic_values(values, mean, std, beta)
        assert select(ABOVE_ZERO, front, optimistic, line(2), 1).tolist() == [expected]


def test_optimism_changes_the_order_of_sequential_and_top_n_alike_by_hand() -> None:
    # A=(4,2), B=(3.9,2), C=(1,6) as above, now with σ_B = (1,1), β = 0.8326: B = (4.73, 2.83), area 13.4.
    # Top 2: B then A (8). Sequential: beside B, A is dominated; C adds 1 × (6 − 2.83) = 3.17: B, C.
    front, values = np.array([[1.0, 1.0]]), np.array([[3.9, 2.0], [1.0, 6.0], [4.0, 2.0]])
    std = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    optimistic = optimistic_values(values, np.zeros_like(values), std, ucb_beta(1))
    assert select_top_n(ABOVE_ZERO, front, optimistic, line(3), 2).tolist() == [0, 2]
    assert select_sequential(ABOVE_ZERO, front, optimistic, line(3), 2).tolist() == [0, 1]


def slow_sequential(front: np.ndarray, optimistic: np.ndarray, count: int) -> list[int]:
    """The paper's process written out; for scores without ties."""
    chosen: list[int] = []
    for _ in range(count):
        scores = ABOVE_ZERO(np.vstack([front, optimistic[chosen]]), optimistic)
        scores[chosen] = -np.inf
        chosen.append(int(np.argmax(scores)))
    return chosen


def test_sequential_is_greedy() -> None:
    # Candidates on a quarter circle outside the front: none dominates another, so no two picks tie.
    rng = np.random.default_rng(0)
    angles = np.sort(rng.uniform(0.1, 1.4, 40))
    optimistic = np.stack([np.sin(angles), np.cos(angles)], axis=1) * rng.uniform(1.1, 1.11, (40, 1))
    front = np.array([[0.3, 0.9], [0.7, 0.7], [0.9, 0.2]])
    picks = select_sequential(ABOVE_ZERO, front, optimistic, line(40), 6)
    assert picks.tolist() == slow_sequential(front, optimistic, 6)
    top = select_top_n(ABOVE_ZERO, front, optimistic, line(40), 6)
    assert top.tolist() == np.argsort(-ABOVE_ZERO(front, optimistic))[:6].tolist()


@both
def test_without_any_improvement_picks_are_spread_evenly(select: Select) -> None:
    # Every candidate is dominated by (9,9): 5 of 9 evenly spaced weights, ends included, is every second one.
    optimistic = np.random.default_rng(0).uniform(1, 8, (9, 2))
    picks = select(ABOVE_ZERO, np.array([[9.0, 9.0]]), optimistic, line(9), 5)
    assert sorted(picks.tolist()) == [0, 2, 4, 6, 8]


@both
def test_after_the_last_improvement_the_rest_keeps_away_from_what_is_chosen(select: Select) -> None:
    # Only candidate 0 improves on (9,9). Of the dominated rest, 8 is farthest from 0, then 4 from both.
    optimistic = np.ones((9, 2))
    optimistic[0] = [10, 10]
    picks = select(ABOVE_ZERO, np.array([[9.0, 9.0]]), optimistic, line(9), 3)
    assert picks.tolist() == [0, 8, 4]


@both
def test_a_partial_tie_goes_to_the_weight_farthest_from_those_chosen(select: Select) -> None:
    # L covers 9 × 9. Candidate 0 is best (10 × 10 = 100). Candidates 1, 2 and 4 tie: 81 + 9 × 2 alone, and
    # 100 + 1 × 9 beside 0. Candidate 3 adds less. Of the tied, 4 is farthest from 0, then 2 (from 0 and 4).
    optimistic = np.array([[10, 10], [9, 11], [9, 11], [9, 9.5], [9, 11]], dtype=float)
    picks = select(ABOVE_ZERO, np.array([[9.0, 9.0]]), optimistic, line(5), 2)
    assert picks.tolist() == [0, 4]


@both
def test_a_partial_tie_for_the_first_pick_goes_to_the_lowest_index(select: Select) -> None:
    optimistic = np.array([[2.0, 2.0], [5.0, 5.0], [5.0, 5.0]])
    assert select(ABOVE_ZERO, np.array([[1.0, 1.0]]), optimistic, line(3), 1).tolist() == [1]


@both
def test_rounding_does_not_break_a_tie(select: Select) -> None:
    # Scores that differ in the last bit are equal: the picks are spread instead of following the noise.
    noise = 1e-15 * np.random.default_rng(0).random(9)
    picks = select(lambda front, points: 1e6 * (1 + noise[: len(points)]), np.zeros((0, 2)), line(9), line(9), 3)
    assert sorted(picks.tolist()) == [0, 4, 8]


@both
def test_candidates_without_a_value_come_last(select: Select) -> None:
    optimistic = np.array([[np.nan, 1.0], [2.0, 2.0], [np.inf, np.inf], [3.0, 3.0], [np.nan, np.nan]])
    front = np.array([[1.0, 1.0]])
    assert select(ABOVE_ZERO, front, optimistic, line(5), 2).tolist() == [3, 1]
    four = select(ABOVE_ZERO, front, optimistic, line(5), 4).tolist()
    assert four[:2] == [3, 1]
    # Chosen weights sit at 0.75 and 0.25; 0, 0.5 and 1 are all 0.25 away: lowest index first, then the next.
    assert four[2:] == [0, 2]


@both
def test_with_no_value_at_all_picks_are_spread_evenly(select: Select) -> None:
    picks = select(ABOVE_ZERO, np.zeros((0, 2)), np.full((9, 2), np.nan), line(9), 3)
    assert sorted(picks.tolist()) == [0, 4, 8]


@both
def test_more_picks_than_candidates_are_refused(select: Select) -> None:
    with pytest.raises(ConfigError, match=r"4 weights .* 3 candidates"):
        select(ABOVE_ZERO, np.ones((1, 2)), np.ones((3, 2)), line(3), 4)


@both
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_picks_are_distinct_and_as_many_as_asked(select: Select, data: st.DataObject) -> None:
    values = st.integers(-1, 4).map(float) | st.sampled_from([np.nan, np.inf])
    optimistic = data.draw(arrays(float, st.tuples(st.integers(1, 9), st.just(2)), elements=values))
    count = data.draw(st.integers(0, len(optimistic)))
    picks = select(ABOVE_ZERO, np.array([[1.0, 2.0]]), optimistic, line(len(optimistic)), count)
    assert len(set(picks.tolist())) == len(picks) == count
    finite = np.isfinite(optimistic).all(axis=1)
    assert finite[picks].sum() == min(count, finite.sum())
