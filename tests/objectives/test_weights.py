"""The two-layer decomposition: counts, geometry, coverage and the errors a user can make."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives import weights as w

light = settings(max_examples=15, deadline=None)


def assert_on_simplex(weights: np.ndarray) -> None:
    assert weights.dtype == np.float64
    assert weights.min() >= 0.0
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-12)


def explicit_pivots(seed: int, count: int, num_objectives: int) -> np.ndarray:
    """Irregular but not pathological: a random subset of a coarse lattice's points."""
    lattice = w.simplex_lattice(num_objectives, 7)
    return lattice[np.random.default_rng(seed).permutation(len(lattice))[:count]]


# --- weights and lattices ------------------------------------------------------------------------


def test_check_weights_returns_float64_that_sums_to_one() -> None:
    float32 = np.array([[0.1, 0.9], [1 / 3, 2 / 3]], dtype=np.float32)
    checked = w.check_weights(float32, 2)
    assert_on_simplex(checked)
    np.testing.assert_allclose(checked, [[0.1, 0.9], [1 / 3, 2 / 3]], atol=1e-6)
    assert w.check_weights(np.ones((4, 5, 2)) / 2, 2).shape == (4, 5, 2)
    assert_on_simplex(w.check_weights([-5e-7, 1.0], 2))


@pytest.mark.parametrize(
    ("bad", "named", "remedy"),
    [
        ([[0.5, 0.5], [0.5, 0.6]], r"\[0\.5, 0\.6\]", "divide it by its sum"),
        ([[0.5, 0.5], [-0.5, 1.5]], r"\[-0\.5, 1\.5\]", ">= 0"),
        ([[np.nan, 1.0]], r"\[nan, 1\.0\]", "replace NaN"),
        ([np.inf, 0.0], r"\[inf, 0\.0\]", "replace NaN"),
        ([0.2, 0.3, 0.5], r"\(3,\)", "one entry per objective"),
        (1.0, r"\(\)", "one entry per objective"),
        (["a", "b"], "'a'", "not numbers"),
        ([[0.5, 0.5], [1.0]], r"\[1\.0\]", "not numbers"),
    ],
)
def test_check_weights_names_the_offending_vector(bad: object, named: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        w.check_weights(bad, 2)  # type: ignore[arg-type]
    assert remedy in str(caught.value)


@pytest.mark.parametrize(("num_objectives", "divisions"), [(2, 1), (2, 7), (3, 4), (4, 3), (5, 2)])
def test_lattice_is_every_combination_in_lexicographic_order(num_objectives: int, divisions: int) -> None:
    slow = [
        np.array(parts) / divisions
        for parts in itertools.product(range(divisions + 1), repeat=num_objectives)
        if sum(parts) == divisions
    ]
    np.testing.assert_array_equal(w.simplex_lattice(num_objectives, divisions), slow)


def test_even_weights_have_both_ends_and_the_fewest_points() -> None:
    two = w.even_weights(2, 100)
    np.testing.assert_allclose(two[:, 0], np.linspace(0.0, 1.0, 100), atol=1e-15)
    # m = 3: d divisions give (d+1)(d+2)/2 points: 91 for d = 12, 105 for d = 13.
    assert w.even_weights(3, 100).shape == (105, 3)
    # m = 4: (d+1)(d+2)(d+3)/6: 84 for d = 6, 120 for d = 7.
    assert w.even_weights(4, 100).shape == (120, 4)
    for num_objectives in (2, 3, 4):
        points = w.even_weights(num_objectives, 100)
        assert_on_simplex(points)
        for end in np.eye(num_objectives):
            assert (points == end).all(axis=1).any()
    np.testing.assert_array_equal(w.even_weights(2, 1), [[0.0, 1.0], [1.0, 0.0]])


# --- pivots ------------------------------------------------------------------------


def test_defaults_are_those_of_the_experiment_setup() -> None:
    assert [w.default_num_policies(m) for m in (2, 3)] == [10, 36]
    # m = 4: C(d-1, 3) interior points: 20 for d = 7, 35 for d = 8. m = 5: C(d-1, 4): 15 for 7, 35 for 8.
    assert [w.default_num_policies(m) for m in (4, 5)] == [35, 35]
    assert [w.default_num_candidates(m) for m in (2, 3, 4)] == [100, 117, 117]


def test_two_objective_pivots_are_the_middles_of_equal_intervals() -> None:
    np.testing.assert_allclose(
        w.make_pivots(10, 2)[:, 0], [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95]
    )


def test_three_objective_pivots_are_the_interior_of_the_tenth_lattice() -> None:
    expected = [(a / 10, b / 10, (10 - a - b) / 10) for a in range(1, 10) for b in range(1, 10) if a + b < 10]
    assert len(expected) == 36
    np.testing.assert_allclose(w.make_pivots(36, 3), expected, atol=1e-15)


@light
@given(num_policies=st.integers(1, 40), num_objectives=st.integers(2, 5))
def test_pivots_are_distinct_interior_weights(num_policies: int, num_objectives: int) -> None:
    pivots = w.make_pivots(num_policies, num_objectives)
    assert pivots.shape == (num_policies, num_objectives)
    assert_on_simplex(pivots)
    assert pivots.min() > 0.0
    assert len(np.unique(pivots.round(12), axis=0)) == num_policies
    np.testing.assert_array_equal(pivots, w.make_pivots(num_policies, num_objectives))


def test_single_pivot_is_the_centre() -> None:
    for num_objectives in (2, 3, 4):
        np.testing.assert_allclose(
            w.make_pivots(1, num_objectives), np.full((1, num_objectives), 1 / num_objectives)
        )


# --- sub-spaces ------------------------------------------------------------------------


def test_nearest_pivot_breaks_ties_by_the_lowest_index() -> None:
    pivots = w.make_pivots(10, 2)
    # 0.1, ..., 0.9 are as far from the pivot on their left as from that on their right, but for rounding.
    borders = np.arange(1, 10) / 10
    owners = w.nearest_pivot(np.column_stack([borders, 1 - borders]), pivots)
    np.testing.assert_array_equal(owners, np.arange(9))


def test_nearest_pivot_agrees_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    lattice, pivots = w.simplex_lattice(3, 20), w.make_pivots(10, 3)
    whole = w.nearest_pivot(lattice, pivots)
    monkeypatch.setattr(w, "MAX_DISTANCES_AT_ONCE", 70)
    np.testing.assert_array_equal(w.nearest_pivot(lattice, pivots), whole)


def test_two_objective_candidates_are_one_lattice_cut_into_intervals() -> None:
    candidates = w.make_subspace_weights(w.make_pivots(10, 2), 100)
    assert candidates.shape == (10, 100, 2)
    np.testing.assert_allclose(candidates[..., 0].ravel(), np.linspace(0.0, 1.0, 1000), atol=1e-15)


@light
@given(num_policies=st.integers(1, 12), count=st.integers(2, 30))
def test_default_two_objective_intervals_need_no_refinement(num_policies: int, count: int) -> None:
    candidates = w.make_subspace_weights(w.make_pivots(num_policies, 2), count)
    np.testing.assert_allclose(candidates[..., 0].ravel(), np.linspace(0.0, 1.0, num_policies * count), atol=1e-15)


@light
@given(
    num_objectives=st.integers(2, 4),
    num_policies=st.integers(1, 8),
    count=st.integers(1, 20),
    seed=st.none() | st.integers(0, 99),
)
def test_subspaces_are_disjoint_cover_the_simplex_and_hold_their_candidates(
    num_objectives: int, num_policies: int, count: int, seed: int | None
) -> None:
    explicit = None if seed is None else explicit_pivots(seed, num_policies, num_objectives)
    made = w.make_decomposition(num_objectives, num_policies, count, 5, pivots=explicit)
    assert made.candidates.shape == (num_policies, count, num_objectives)
    assert made.probes.shape == (num_policies, 5, num_objectives)
    for weights in (made.candidates, made.probes):
        assert_on_simplex(weights)
        flat = weights.reshape(-1, num_objectives)
        # Each belongs to its own sub-space and, no two being equal, to no other.
        owners = w.nearest_pivot(flat, made.pivots).reshape(num_policies, -1)
        assert (owners == np.arange(num_policies)[:, None]).all()
        assert len(np.unique(flat.round(12), axis=0)) == len(flat)
    lattice = w.even_weights(num_objectives, 300)
    cover = w.nearest_pivot(lattice, made.pivots)
    assert cover.shape == (len(lattice),)
    assert set(cover) == set(range(num_policies))
    # No pivot is nearer than the owner: the sub-spaces are the Voronoi cells of the pivots.
    distances = cdist(lattice, made.pivots)
    assert (distances[np.arange(len(lattice)), cover] <= distances.min(axis=1) + 1e-9).all()


@light
@given(num_policies=st.integers(1, 8), count=st.integers(2, 20), seed=st.none() | st.integers(0, 99))
def test_two_objectives_are_ordered(num_policies: int, count: int, seed: int | None) -> None:
    explicit = None if seed is None else explicit_pivots(seed, num_policies, 2)
    made = w.make_decomposition(2, num_policies, count, 3, pivots=explicit)
    assert (np.diff(made.pivots[:, 0]) > 0).all()
    assert (np.diff(made.candidates[..., 0].ravel()) > 0).all()
    assert made.candidates[0, 0, 0] == 0.0
    assert made.candidates[-1, -1, 0] == 1.0


@pytest.mark.parametrize("num_objectives", [2, 3, 4])
def test_decomposition_is_deterministic(num_objectives: int) -> None:
    first, second = (w.make_decomposition(num_objectives, 9, 30, 10) for _ in range(2))
    for name in ("pivots", "candidates", "probes"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert (first.num_policies, first.num_objectives) == (9, num_objectives)


# With the paper's K and M: no weight is farther than this from a candidate, and no two candidates are nearer.
# m = 2: neighbours are sqrt(2)/999 = 1.4156e-3 apart, so a weight is at most half of it from one.
# m = 3: 4,212 candidates on an area of sqrt(3)/2 have 2.06e-4 each. A perfect triangular packing would have
# spacing sqrt(2.06e-4 * 2/sqrt(3)) = 0.0154 and covering radius 0.0154/sqrt(3) = 0.0089. Twice that is
# allowed: corner sub-spaces have 2.7 times the area of inner ones, and greedy choice is not perfect
# (measured: 0.0176; nearest neighbours 0.0095).
# m = 4: measured 0.057 and 0.025, with slack; neighbouring pivots are sqrt(2)/8 = 0.177 apart.
@pytest.mark.parametrize(
    ("num_objectives", "covered_within", "apart"), [(2, 7.08e-4, 1.41e-3), (3, 0.018, 0.009), (4, 0.07, 0.02)]
)
def test_candidates_cover_the_simplex_evenly(num_objectives: int, covered_within: float, apart: float) -> None:
    num_policies, count = w.default_num_policies(num_objectives), w.default_num_candidates(num_objectives)
    started = time.process_time()
    candidates = w.make_subspace_weights(w.make_pivots(num_policies, num_objectives), count)
    assert time.process_time() - started < 5.0
    assert candidates.shape == (num_policies, count, num_objectives)
    flat = candidates.reshape(-1, num_objectives)
    assert cdist(w.even_weights(num_objectives, 8000), flat).min(axis=1).max() <= covered_within
    for own in candidates:
        gaps = cdist(own, own) + np.diag(np.full(count, np.inf))
        assert gaps.min() >= apart


@pytest.mark.parametrize("num_objectives", [2, 3, 4])
def test_a_single_weight_is_the_pivot(num_objectives: int) -> None:
    pivots = w.make_pivots(7, num_objectives)
    np.testing.assert_array_equal(w.make_subspace_weights(pivots, 1)[:, 0], pivots)


def test_three_objective_candidates_start_with_the_pivot() -> None:
    pivots = w.make_pivots(36, 3)
    np.testing.assert_array_equal(w.make_subspace_weights(pivots, 10)[:, 0], pivots)


def test_narrow_two_objective_subspace_refines_the_lattice() -> None:
    # The borders are w_1 = 0.495 and 0.505: the middle sub-space is 1% of the simplex, and 3 * 10 lattice
    # points leave it empty. 30 is doubled to 960, of which it holds 10, each 1/959 from the next.
    pivots = np.array([[0.49, 0.51], [0.5, 0.5], [0.51, 0.49]])
    middle = w.make_subspace_weights(pivots, 10)[1, :, 0]
    np.testing.assert_allclose(middle, np.arange(475, 485) / 959)


# --- errors ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((1, 10, 100, 10), "num_objectives is 1"),
        ((2, 0, 100, 10), "K.* is 0"),
        ((2, 10, 0, 10), "per sub-space is 0"),
        ((2, 10, 100, 0), "per sub-space is 0"),
        ((2, 2.5, 100, 10), "is 2.5"),
    ],
)
def test_counts_too_small_are_named(arguments: tuple[int, int, int, int], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        w.make_decomposition(*arguments)


def test_duplicate_pivots_are_refused() -> None:
    pivots = [[0.2, 0.8], [0.7, 0.3], [0.2, 0.8]]
    with pytest.raises(ConfigError, match=r"pivots 0 and 1 are both \[0\.2, 0\.8\]"):
        w.make_decomposition(2, 3, 10, 5, pivots=pivots)


def test_explicit_pivots_must_agree_with_their_number() -> None:
    with pytest.raises(ConfigError, match=r"shape \(2, 2\) for num_policies = 3"):
        w.make_decomposition(2, 3, 10, 5, pivots=[[0.2, 0.8], [0.7, 0.3]])
    with pytest.raises(ConfigError, match="shape"):
        w.make_decomposition(2, 2, 10, 5, pivots=[0.2, 0.8])


def test_too_small_a_subspace_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(w, "MAX_LATTICE_POINTS", 20_000)
    squeezed = np.array([[0.5 - 1e-6, 0.5 + 1e-6], [0.5, 0.5], [0.5 + 1e-6, 0.5 - 1e-6]])
    with pytest.raises(ConfigError, match=r"pivot 1 \[0\.5, 0\.5\].*20000.*fewer weights"):
        w.make_subspace_weights(squeezed, 10)


# --- even subsets ------------------------------------------------------------------------


def test_farthest_points_by_hand() -> None:
    line = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0]])
    # Centroid 2 first; 0 and 4 tie at distance 2, the lower index wins; then 4; then 1 and 3 tie.
    assert w.farthest_points(line, 5).tolist() == [2, 0, 4, 1, 3]
    # From 0: 4 is farthest, then 2, then the tie of 1 and 3; 0 itself, a chosen one's equal, comes last.
    assert w.farthest_points(line, 5, chosen=line[:1]).tolist() == [4, 2, 1, 3, 0]
    assert w.farthest_points(line, 0).tolist() == []
    with pytest.raises(ConfigError, match="6 points to choose from 5"):
        w.farthest_points(line, 6)


@light
@given(seed=st.integers(0, 999), count=st.integers(1, 12), num_objectives=st.integers(2, 4))
def test_farthest_points_agree_with_the_slow_version(seed: int, count: int, num_objectives: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.dirichlet(np.ones(num_objectives), size=15)
    chosen = rng.dirichlet(np.ones(num_objectives), size=2)
    picks: list[int] = []
    for _ in range(count):
        taken = np.vstack([chosen, points[picks]])
        rest = [i for i in range(15) if i not in picks]
        picks.append(max(rest, key=lambda i: min(np.linalg.norm(points[i] - taken, axis=1))))
    assert w.farthest_points(points, count, chosen).tolist() == picks


def test_spread_evenly_by_hand() -> None:
    ascending = w.even_weights(2, 10)
    # Ranks 0, 3, 6, 9 of ten; one alone is in the middle.
    assert w.spread_evenly(ascending, 4, []) == [0, 3, 6, 9]
    assert w.spread_evenly(ascending, 1, []) == [5]
    assert w.spread_evenly(ascending, 0, []) == []
    # Rank is by w_1, not by position.
    assert w.spread_evenly(ascending[::-1], 4, []) == [9, 6, 3, 0]
    # After 0: the other end, then the middle (4 and 5 are both 4 from the nearer end; lowest index).
    assert w.spread_evenly(ascending, 2, [0]) == [9, 4]
    with pytest.raises(ConfigError, match="9 points to choose from 8"):
        w.spread_evenly(ascending, 9, [3, 4])


@light
@given(seed=st.integers(0, 999), num_objectives=st.integers(2, 4), num_chosen=st.integers(0, 10))
def test_spread_evenly_repeats_nothing(seed: int, num_objectives: int, num_chosen: int) -> None:
    candidates = w.make_subspace_weights(w.make_pivots(4, num_objectives), 20)[1]
    chosen = np.random.default_rng(seed).permutation(20)[:num_chosen]
    picks = w.spread_evenly(candidates, 20 - num_chosen, chosen)
    assert sorted([*picks, *chosen.tolist()]) == list(range(20))
