"""Indicators against closed forms, hand-derived numbers and slow obvious versions; all maximised."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives import pareto
from ucb_moppo.objectives.weights import even_weights

light = settings(max_examples=25, deadline=None)
# Staircase used by hand below: (3, 1) and (1, 2) and (2, 1.5), plus (1, 1), which (2, 1.5) dominates.
STAIRCASE = np.array([[3.0, 1.0], [1.0, 2.0], [2.0, 1.5], [1.0, 1.0]])


@st.composite
def point_sets(draw: st.DrawFn, most: int = 6) -> np.ndarray:
    """Small whole numbers, so that ties, duplicates and dominated points all come up. [n, m], m = 2, 3, 4."""
    num_objectives = draw(st.integers(2, 4))
    row = st.lists(st.integers(-1, 4), min_size=num_objectives, max_size=num_objectives)
    return np.array(draw(st.lists(row, min_size=1, max_size=most)), dtype=float)


def slow_nondominated(points: np.ndarray) -> list[bool]:
    """By definition; of equal points the first."""
    return [
        not any((q >= p).all() and (q > p).any() for q in points) and not any((q == p).all() for q in points[:i])
        for i, p in enumerate(points)
    ]


def inclusion_exclusion(points: np.ndarray, reference: np.ndarray) -> float:
    """Volume of a union of boxes [reference, p]: boxes intersect in the box of their smallest corner."""
    return sum(
        (-1) ** (size + 1) * np.prod(np.maximum(np.min(group, axis=0) - reference, 0.0))
        for size in range(1, len(points) + 1)
        for group in itertools.combinations(points, size)
    )


def with_broken_rows(points: np.ndarray) -> np.ndarray:
    """The same points among rows of NaN, inf and -inf, each otherwise better than all of them."""
    broken = np.full((3, points.shape[1]), 1e3)
    broken[[0, 1, 2], [0, 1, 0]] = [np.nan, np.inf, -np.inf]
    return np.vstack([broken[:2], points, broken[2:]])


# --- dominance ------------------------------------------------------------------------


def test_front_by_hand() -> None:
    assert pareto.nondominated(STAIRCASE).tolist() == [True, True, True, False]
    np.testing.assert_array_equal(pareto.pareto_front(STAIRCASE), STAIRCASE[:3])
    assert pareto.cardinality(STAIRCASE) == 3


def test_of_equal_points_the_first_stays() -> None:
    assert pareto.nondominated([[1, 1], [2, 0], [1, 1], [2, 0]]).tolist() == [True, True, False, False]


@light
@given(points=point_sets(most=12))
def test_dominance_agrees_with_its_definition(points: np.ndarray) -> None:
    assert pareto.nondominated(points).tolist() == slow_nondominated(points)


def test_three_objectives_use_all_three() -> None:
    # Dominated in the first two objectives only.
    assert pareto.nondominated([[2, 2, 0], [1, 1, 1]]).tolist() == [True, True]


def test_broken_rows_are_never_on_the_front() -> None:
    broken = with_broken_rows(STAIRCASE)
    assert pareto.nondominated(broken).tolist() == [False, False, True, True, True, False, False]
    np.testing.assert_array_equal(pareto.finite_points(broken), STAIRCASE)
    assert pareto.nondominated(np.full((2, 3), np.nan)).tolist() == [False, False]


def test_empty_sets() -> None:
    for empty in ([], np.empty((0, 2)), np.full((1, 2), np.nan)):
        assert pareto.pareto_front(empty).shape[0] == 0
        assert pareto.cardinality(empty) == 0
        assert pareto.hypervolume(empty, [0.0, 0.0]) == 0.0
        assert pareto.sparsity(empty) == 0.0
        assert np.isnan(pareto.expected_utility(empty, even_weights(2)))
        assert np.isnan(pareto.inverted_generational_distance(empty, STAIRCASE))
        assert np.isnan(pareto.maximum_utility_loss(empty, STAIRCASE, even_weights(2)))


# --- hypervolume ------------------------------------------------------------------------


def test_hypervolume_of_one_point_is_its_box() -> None:
    assert pareto.hypervolume([[3, 4]], [1, 2]) == pytest.approx(2 * 2)
    assert pareto.hypervolume([[3, 4, 5]], [0, 0, 0]) == pytest.approx(60)
    assert pareto.hypervolume([[1, 2, 3, 4]], [-1, -1, -1, -1]) == pytest.approx(2 * 3 * 4 * 5)


def test_hypervolume_of_a_staircase() -> None:
    # Slabs of the second objective from 0: 3 wide up to 1, 2 wide up to 1.5, 1 wide up to 2 = 3 + 1 + 0.5.
    assert pareto.hypervolume(STAIRCASE, [0, 0]) == pytest.approx(4.5)


def test_hypervolume_of_a_line_front() -> None:
    # n points (i/(n-1), 1 - i/(n-1)): steps of 1/(n-1) under the diagonal, 1/2 * (n-2)/(n-1). n = 11: 0.45.
    step = np.linspace(0, 1, 11)
    assert pareto.hypervolume(np.column_stack([step, 1 - step]), [0, 0]) == pytest.approx(0.45)


def test_hypervolume_of_a_quarter_circle() -> None:
    angle = np.linspace(0, np.pi / 2, 2001)
    found = pareto.hypervolume(np.column_stack([np.cos(angle), np.sin(angle)]), [0, 0])
    # From below: every step misses a triangle of dx dy / 2. Their sum is dθ/2 ∫ sin θ cos θ dθ = dθ/4, and
    # dθ = (π/2)/2000.
    assert np.pi / 4 - found == pytest.approx(np.pi / 16000, rel=1e-3)


def test_hypervolume_of_a_simplex_front() -> None:
    # Layers of the third objective, m = 3, lattice of d divisions: boxes with corner a/d, a + b + c = d, fill
    # the cubes (i, j, k) of side 1/d with i + j + k <= d - 3 (from 0): C(d, 3) of them. d = 10: 120/1000.
    corners = even_weights(3, 66)
    assert len(corners) == 66
    assert pareto.hypervolume(corners, [0, 0, 0]) == pytest.approx(0.120)


@light
@given(points=point_sets())
def test_hypervolume_agrees_with_inclusion_and_exclusion(points: np.ndarray) -> None:
    reference = np.zeros(points.shape[1])
    expected = inclusion_exclusion(points, reference)
    assert pareto.hypervolume(points, reference) == pytest.approx(expected, abs=1e-9)


@light
@given(points=point_sets())
def test_hypervolume_agrees_with_counting_cells(points: np.ndarray) -> None:
    # Corners are whole numbers, so unit cells [c, c + 1] above the reference -1 are in or out as a whole.
    num_objectives = points.shape[1]
    cells = np.array(list(itertools.product(range(-1, 4), repeat=num_objectives)))
    inside = (points[None] >= cells[:, None] + 1).all(axis=2).any(axis=1).sum()
    assert pareto.hypervolume(points, np.full(num_objectives, -1.0)) == pytest.approx(inside)


@light
@given(points=point_sets(), shrink=st.floats(0.1, 1.0))
def test_dominated_points_and_order_change_nothing(points: np.ndarray, shrink: float) -> None:
    reference = np.full(points.shape[1], -1.0)
    dominated = reference + shrink * (points - reference)
    whole = pareto.hypervolume(points, reference)
    assert pareto.hypervolume(np.vstack([dominated, points[::-1]]), reference) == pytest.approx(whole)
    assert pareto.hypervolume(pareto.pareto_front(points), reference) == pytest.approx(whole)


@light
@given(points=point_sets(), extra=st.integers(0, 5))
def test_a_further_point_never_lowers_hypervolume_or_utility(points: np.ndarray, extra: int) -> None:
    num_objectives = points.shape[1]
    larger = np.vstack([points, np.roll(points[:1], 1, axis=1) + extra - 2])
    weights, reference = even_weights(num_objectives, 20), np.zeros(num_objectives)
    assert pareto.hypervolume(larger, reference) >= pareto.hypervolume(points, reference) - 1e-12
    assert pareto.expected_utility(larger, weights) >= pareto.expected_utility(points, weights) - 1e-12


def test_points_not_above_the_reference_add_nothing() -> None:
    below = [[5.0, 0.0], [-1.0, 9.0], [-2.0, -2.0]]
    assert pareto.hypervolume(below, [0, 0]) == 0.0
    assert pareto.hypervolume(np.vstack([STAIRCASE, below]), [0, 0]) == pytest.approx(4.5)


def test_inputs_stay_as_they_were() -> None:
    points, reference = STAIRCASE.copy(), np.array([0.5, 0.5])
    pareto.hypervolume(points, reference)
    np.testing.assert_array_equal(points, STAIRCASE)
    np.testing.assert_array_equal(reference, [0.5, 0.5])


# --- expected utility ------------------------------------------------------------------------


def test_expected_utility_by_hand() -> None:
    # Weights (0, 1), (1/2, 1/2), (1, 0): best utilities 2, max(2, 1.5, 1.75, 1) = 2, and 3. Mean 7/3.
    assert pareto.expected_utility(STAIRCASE, even_weights(2, 3)) == pytest.approx(7 / 3)
    assert pareto.expected_utility([[-3.0, -1.0]], even_weights(2, 3)) == pytest.approx(-2.0)
    assert pareto.expected_utility([[2.0, 4.0]], [0.25, 0.75]) == pytest.approx(3.5)


def test_expected_utility_of_closed_forms() -> None:
    # The mean of n evenly spaced values, ends included, is ((n - 1) ∫f + (f(0) + f(1))/2) / n + O(1/n²).
    # Corners (1, 0), (0, 1): ∫ max(w, 1 - w) dw = 3/4, and f = 1 at both ends.
    assert pareto.expected_utility(np.eye(2), even_weights(2, 1001)) == pytest.approx((1000 * 0.75 + 1) / 1001)
    # Quarter circle: max_θ w·(cos θ, sin θ) = |w|, again 1 at both ends, and
    # ∫ sqrt(w² + (1 - w)²) dw = 1/2 + asinh(1) / (2 sqrt 2) = 0.8116.
    angle = np.linspace(0, np.pi / 2, 2001)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    integral = 0.5 + np.arcsinh(1.0) / (2 * np.sqrt(2))
    found = pareto.expected_utility(circle, even_weights(2, 2001))
    assert found == pytest.approx((2000 * integral + 1) / 2001, abs=1e-6)


@light
@given(points=point_sets())
def test_expected_utility_agrees_with_a_loop(points: np.ndarray) -> None:
    weights = even_weights(points.shape[1], 20)
    slow = np.mean([max(float(np.dot(weight, p)) for p in points) for weight in weights])
    assert pareto.expected_utility(points, weights) == pytest.approx(slow, abs=1e-12)


# --- sparsity, distance and loss ------------------------------------------------------------------------


def test_sparsity_by_hand() -> None:
    # Front (3, 1), (1, 2), (2, 1.5): gaps 1, 1 in the first objective and 0.5, 0.5 in the second.
    # (1 + 1 + 0.25 + 0.25) / 2 = 1.25; the dominated (1, 1) does not count.
    assert pareto.sparsity(STAIRCASE) == pytest.approx(1.25)
    assert pareto.sparsity([[3.0, 1.0]]) == 0.0
    assert pareto.sparsity([[3.0, 1.0], [3.0, 1.0]]) == 0.0
    # Each objective is sorted on its own: gaps (1, 2), (2, 1), (1, 2): (5 + 5 + 5) / 2.
    assert pareto.sparsity([[0, 3, 1], [1, 2, 0], [3, 0, 3]]) == pytest.approx(7.5)


def test_sparsity_of_a_line_front() -> None:
    # n points: n - 1 gaps of 1/(n-1) in either objective: 2 / (n-1)². n = 11: 0.02.
    step = np.linspace(0, 1, 11)
    assert pareto.sparsity(np.column_stack([step, 1 - step])) == pytest.approx(0.02)


def test_distance_to_a_known_front_by_hand() -> None:
    true_front = [[0.0, 2.0], [1.0, 1.0], [2.0, 0.0]]
    assert pareto.inverted_generational_distance(true_front, true_front) == 0.0
    # From (0, 2) and (2, 0) to (1, 1) it is sqrt 2, from (1, 1) it is 0: mean 2 sqrt 2 / 3.
    assert pareto.inverted_generational_distance([[1.0, 1.0]], true_front) == pytest.approx(2 * np.sqrt(2) / 3)


def test_maximum_utility_loss_by_hand() -> None:
    true_front = [[0.0, 2.0], [1.5, 1.5], [2.0, 0.0]]
    weights = even_weights(2, 11)
    assert pareto.maximum_utility_loss(true_front, true_front, weights) == 0.0
    # Without the middle: at (1/2, 1/2) 1.5 was to be had and 1 was found; it is the worst weight.
    assert pareto.maximum_utility_loss([[0.0, 2.0], [2.0, 0.0]], true_front, weights) == pytest.approx(0.5)
    # The middle alone: 2 against 1.5 at either end.
    assert pareto.maximum_utility_loss([[1.5, 1.5]], true_front, weights) == pytest.approx(0.5)
    assert pareto.maximum_utility_loss([[3.0, 3.0]], true_front, weights) == pytest.approx(-1.0)


@light
@given(points=point_sets())
def test_broken_rows_change_no_indicator(points: np.ndarray) -> None:
    num_objectives = points.shape[1]
    weights, reference = even_weights(num_objectives, 20), np.zeros(num_objectives)
    broken = with_broken_rows(points)
    assert pareto.hypervolume(broken, reference) == pareto.hypervolume(points, reference)
    assert pareto.expected_utility(broken, weights) == pareto.expected_utility(points, weights)
    assert pareto.sparsity(broken) == pareto.sparsity(points)
    assert pareto.cardinality(broken) == pareto.cardinality(points)
    truth = with_broken_rows(np.eye(num_objectives))
    assert pareto.inverted_generational_distance(broken, truth) == pareto.inverted_generational_distance(
        points, np.eye(num_objectives)
    )
    assert pareto.maximum_utility_loss(broken, truth, weights) == pareto.maximum_utility_loss(
        points, np.eye(num_objectives), weights
    )


# --- errors ------------------------------------------------------------------------


def test_inputs_that_do_not_fit_are_named() -> None:
    with pytest.raises(ConfigError, match=r"reference point \[0\.0, 0\.0, 0\.0\].*2 objectives"):
        pareto.hypervolume(STAIRCASE, [0, 0, 0])
    with pytest.raises(ConfigError, match="finite number per objective"):
        pareto.hypervolume(STAIRCASE, [0, np.nan])
    with pytest.raises(ConfigError, match=r"shape \(2,\)"):
        pareto.pareto_front([1.0, 2.0])
    with pytest.raises(ConfigError, match="one entry per objective"):
        pareto.expected_utility(STAIRCASE, even_weights(3))
    with pytest.raises(ConfigError, match="at least one"):
        pareto.expected_utility(STAIRCASE, np.empty((0, 2)))
    with pytest.raises(ConfigError, match="no finite point"):
        pareto.inverted_generational_distance(STAIRCASE, np.empty((0, 2)))
    with pytest.raises(ConfigError, match="2 objectives and the true front 3"):
        pareto.maximum_utility_loss(STAIRCASE, np.eye(3), even_weights(2))
