"""The acquisition: β and worlds by hand, and scores against the slow and obvious computation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives.pareto import expected_utility, hypervolume
from ucb_moppo.search.acquisition import (
    ExpectedUtilityScore,
    HypervolumeScore,
    optimistic_worlds,
    ucb_beta,
    zero_beta,
)


def test_beta_by_hand() -> None:
    assert ucb_beta(1) == pytest.approx(math.sqrt(math.log(2)))
    assert ucb_beta(2) == pytest.approx(math.sqrt(2 * math.log(2) / 2))  # log 4 = 2 log 2: the same as at 1
    assert ucb_beta(50) == pytest.approx(math.sqrt(math.log(100) / 50))
    assert zero_beta(1) == zero_beta(50) == 0


def test_beta_fades_and_needs_a_stage() -> None:
    betas = [ucb_beta(stage) for stage in range(2, 200)]
    assert betas == sorted(betas, reverse=True)
    with pytest.raises(ConfigError, match="stage is 0"):
        ucb_beta(0)


def test_of_objectives_there_is_one_optimistic_world_by_hand() -> None:
    # Members say (5, −1.5) and (−3, −2.5): mean (1, −2); population std (4, 0.5).
    values, changes = np.array([[10.0, 20.0]]), np.array([[[5.0, -1.5]], [[-3.0, -2.5]]])
    for beta, expected in ((0.0, [11, 18]), (0.5, [13, 18.25])):
        worlds, left = optimistic_worlds(values, changes, beta, "objectives")
        np.testing.assert_array_equal(worlds, [[expected]])
        assert left == 0  # all the optimism is in the world


def test_of_the_score_every_member_is_a_world_and_beta_is_left_by_hand() -> None:
    values, changes = np.array([[10.0, 20.0]]), np.array([[[5.0, -1.5]], [[-3.0, -2.5]]])
    worlds, left = optimistic_worlds(values, changes, 0.5, "score")
    np.testing.assert_array_equal(worlds, [[[15, 18.5]], [[7, 17.5]]])
    assert left == 0.5


def test_hypervolume_score_by_hand() -> None:
    # L = {(1,3), (2,2), (3,1)} above 0 covers 3 + 2 + 1 = 6 unit squares.
    front = np.array([[1, 3], [2, 2], [3, 1], [1, 1]], dtype=float)
    candidates = np.array(
        [
            [3, 3],  # all of 3 × 3
            [2, 3],  # one more square
            [4, 0.5],  # sticks out by 1 × 0.5
            [2, 2],  # already there
            [0.5, 0.5],  # dominated
            [9, -1],  # below the reference point
            [np.nan, 9],
            [np.inf, 9],
        ]
    )
    scores = HypervolumeScore((0.0, 0.0))(front, candidates)
    np.testing.assert_allclose(scores, [9, 7, 6.5, 6, 6, 6, -np.inf, -np.inf])
    assert scores[3] == scores[4] == scores[5]  # exactly: ties must not hang on rounding


@pytest.mark.parametrize("front", [np.zeros((0, 3)), np.full((2, 3), np.nan), np.full((2, 3), -5.0)])
def test_hypervolume_score_without_a_front_is_the_box(front: np.ndarray) -> None:
    scores = HypervolumeScore((-1.0, 0.0, 0.0))(front, np.array([[1.0, 3.0, 2.0]]))
    np.testing.assert_allclose(scores, [2 * 3 * 2])


# Small integers make equal, dominated and collinear points common; floats make general ones.
coordinates = st.integers(-1, 5).map(float) | st.floats(-100, 1000, allow_subnormal=False)


@pytest.mark.parametrize("num_objectives", [2, 3, 4])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_hypervolume_score_is_that_of_the_joined_set(num_objectives: int, data: st.DataObject) -> None:
    shape = st.tuples(st.integers(1, 8), st.just(num_objectives))
    front = data.draw(arrays(float, shape, elements=coordinates))
    candidates = data.draw(arrays(float, shape, elements=coordinates))
    reference = np.array([0.0, -1.0, 0.5, 0.0])[:num_objectives]
    expected = [hypervolume(np.vstack([front, candidate]), reference) for candidate in candidates]
    scores = HypervolumeScore(tuple(reference))(front, candidates)
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("num_objectives", [2, 3, 4])
def test_hypervolume_score_on_a_large_front(num_objectives: int) -> None:
    rng = np.random.default_rng(0)
    front = np.abs(rng.normal(size=(150, num_objectives)))
    front *= 1000 / np.linalg.norm(front, axis=1, keepdims=True)
    candidates = front[:20] * rng.uniform(0.9, 1.2, (20, num_objectives))
    reference = np.zeros(num_objectives)
    expected = [hypervolume(np.vstack([front, candidate]), reference) for candidate in candidates]
    np.testing.assert_allclose(HypervolumeScore(tuple(reference))(front, candidates), expected, rtol=1e-11)


def test_expected_utility_score_by_hand() -> None:
    # Weights (1,0), (0,1): L = {(4,0), (0,4)} has utilities 4 and 4. (6,1) raises the first: (6 + 4) / 2 = 5.
    score = ExpectedUtilityScore(np.eye(2))
    front = np.array([[4.0, 0.0], [0.0, 4.0], [np.nan, 99.0]])
    scores = score(front, np.array([[6.0, 1.0], [3.0, 3.0], [np.nan, 1.0]]))
    np.testing.assert_array_equal(scores, [5, 4, -np.inf])


@settings(max_examples=40, deadline=None)
@given(arrays(float, (5, 3), elements=st.floats(-1e3, 1e3)), arrays(float, (4, 3), elements=st.floats(-1e3, 1e3)))
def test_expected_utility_score_is_that_of_the_joined_set(front: np.ndarray, candidates: np.ndarray) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(3), 20)
    expected = [expected_utility(np.vstack([front, candidate]), weights) for candidate in candidates]
    scores = ExpectedUtilityScore(weights)(front, candidates)
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)
