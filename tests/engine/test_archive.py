"""What is kept: never worse than before, never what has diverged, and the policies that earned it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucb_moppo.engine.archive import Archive, choose_rows
from ucb_moppo.objectives.pareto import expected_utility, hypervolume
from ucb_moppo.objectives.weights import even_weights

REFERENCE = (0.0, 0.0)


def value_of(taken: np.ndarray, old: np.ndarray, new: np.ndarray) -> float:
    """HV of the front of the sub-spaces [K] taken from ``new``, the rest from ``old``."""
    points = np.concatenate([(new if take else old)[k] for k, take in enumerate(taken)])
    finite = points[np.isfinite(points).all(1)]
    return hypervolume(finite, (0.0,) * old.shape[-1]) if len(finite) else 0.0


def utility_of(taken: np.ndarray, old: np.ndarray, new: np.ndarray) -> float:
    """EU of the same."""
    points = np.concatenate([(new if take else old)[k] for k, take in enumerate(taken)])
    return expected_utility(points, even_weights(points.shape[-1]))


def subsets(num_rows: int) -> list[np.ndarray]:
    """All 2^K choices."""
    return [np.array(taken, bool) for taken in product((False, True), repeat=num_rows)]


# --- choosing ----------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    num_rows=st.integers(1, 5),
    num_points=st.integers(1, 3),
    num_objectives=st.integers(2, 3),
    lost=st.integers(0, 2**5 - 1),
)
def test_choice_beats_both_whole_sets(
    seed: int, num_rows: int, num_points: int, num_objectives: int, lost: int
) -> None:
    """Against all 2^K choices: no better than the best, no worse than taking nothing or all that can be taken."""
    rng = np.random.default_rng(seed)
    old, new = rng.uniform(0, 1, (2, num_rows, num_points, num_objectives))
    gone = np.array([lost >> k & 1 for k in range(num_rows)], bool)
    new[gone, -1, 0] = np.nan
    taken = choose_rows(old, new, (0.0,) * num_objectives)
    found = value_of(taken, old, new)
    possible = [value_of(choice, old, new) for choice in subsets(num_rows) if not (choice & gone).any()]
    assert not (taken & gone).any()
    assert found <= max(possible) * (1 + 1e-12)
    assert found >= value_of(~gone, old, new) * (1 - 1e-12)
    assert found >= value_of(np.zeros(num_rows, bool), old, new) * (1 - 1e-12)
    if num_rows == 1:
        assert found == pytest.approx(max(possible))


def test_better_parts_of_both_are_combined() -> None:
    """Sub-space 0 was better before, sub-space 1 is better now: (4, 1) of old and (1, 4) of new.

    HV of old {(4, 1), (1, 2)}: 4·1 + 1·1 = 5; of new {(2, 1), (1, 4)}: 2·1 + 1·3 = 5; together
    {(4, 1), (1, 4)}: 4·1 + 1·3 = 7, the best of the four choices.
    """
    old = np.array([[[4.0, 1.0]], [[1.0, 2.0]]])
    new = np.array([[[2.0, 1.0]], [[1.0, 4.0]]])
    values = {tuple(choice.tolist()): value_of(choice, old, new) for choice in subsets(2)}
    assert values == {(False, False): 5, (False, True): 7, (True, False): 2 + 1, (True, True): 5}
    np.testing.assert_array_equal(choose_rows(old, new, REFERENCE), [False, True])


def test_equal_values_are_taken_from_what_is_now() -> None:
    """No loss, and what has learnt longer; where nothing lies above the reference point, by its utility."""
    same = np.array([[[1.0, 2.0]], [[2.0, 1.0]]])
    np.testing.assert_array_equal(choose_rows(same, same.copy(), REFERENCE), [True, True])
    np.testing.assert_array_equal(choose_rows(-same, -2 * same, REFERENCE), [False, False])
    np.testing.assert_array_equal(choose_rows(-2 * same, -same, REFERENCE), [True, True])


def test_an_exchange_costs_no_expected_utility() -> None:
    """Of 200 random pairs of sets: never less utility than the whole set that has more volume."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        old, new = rng.uniform(0, 1, (2, 4, 2, 2))
        taken = choose_rows(old, new, REFERENCE)
        everything, nothing = np.ones(4, bool), np.zeros(4, bool)
        better = max((everything, nothing), key=lambda choice: value_of(choice, old, new))
        assert utility_of(taken, old, new) >= utility_of(better, old, new)


def test_what_has_diverged_is_never_taken() -> None:
    """Not even a sub-space with one value that is not finite, whatever its others promise."""
    old, new = np.ones((3, 2, 2)), np.full((3, 2, 2), 9.0)
    new[1, 0, 1] = np.nan
    new[2] = np.inf
    np.testing.assert_array_equal(choose_rows(old, new, REFERENCE), [True, False, False])
    nothing = np.full_like(new, np.nan)
    np.testing.assert_array_equal(choose_rows(old, nothing, REFERENCE), [False] * 3)


def test_what_had_diverged_is_replaced() -> None:
    """From a front of nothing every finite sub-space is a gain."""
    old, new = np.full((2, 1, 2), np.nan), np.array([[[1.0, 2.0]], [[2.0, 1.0]]])
    np.testing.assert_array_equal(choose_rows(old, new, REFERENCE), [True, True])
    old[0] = 3.0
    taken = choose_rows(old, new, REFERENCE)
    assert value_of(taken, old, new) == 9.0  # (3, 3) stays: it dominates both
    assert not taken[0]


def test_of_many_objectives_the_expected_utility_decides() -> None:
    """Five objectives: a point (2, …, 2) below the reference has no volume but more utility than (1, …, 1)."""
    old, new = np.full((1, 1, 5), 1.0), np.full((1, 1, 5), 2.0)
    assert choose_rows(old, new, (9.0,) * 5).tolist() == [True]
    assert choose_rows(new, old, (9.0,) * 5).tolist() == [False]
    # Of four the volume decides, before the utility: (2, 2, 2, 2) above 0 against (1, 1, 1, 9), of more utility.
    wide = np.array([[[1.0, 1.0, 1.0, 9.0]]])
    assert choose_rows(new[..., :4], wide, (0.0,) * 4).tolist() == [False]  # 16 against 9
    assert choose_rows(wide, new[..., :4], (0.0,) * 4).tolist() == [True]


# --- keeping -----------------------------------------------------------------------------------------------


def test_tensors_are_those_of_the_values_that_are_kept() -> None:
    archive = Archive(REFERENCE)
    first = np.array([[[4.0, 1.0]], [[1.0, 2.0]]])
    tensors = {"actor.bias": np.array([[0.0], [1.0]])}
    np.testing.assert_array_equal(archive.take(first, tensors), [True, True])
    second = np.array([[[2.0, 1.0]], [[1.0, 4.0]]])
    np.testing.assert_array_equal(archive.take(second, {"actor.bias": np.array([[10.0], [11.0]])}), [False, True])
    np.testing.assert_array_equal(archive.returns, [[[4.0, 1.0]], [[1.0, 4.0]]])
    np.testing.assert_array_equal(archive.tensors["actor.bias"], [[0.0], [11.0]])
    # What was handed in is not what is kept: neither changes with the other.
    np.testing.assert_array_equal(first, [[[4.0, 1.0]], [[1.0, 2.0]]])
    np.testing.assert_array_equal(tensors["actor.bias"], [[0.0], [1.0]])


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), num_rows=st.integers(1, 4), num_stages=st.integers(2, 8))
def test_hypervolume_never_falls(seed: int, num_rows: int, num_stages: int) -> None:
    """Whatever comes, policies that diverge among it; each kept value is one that its sub-space once had."""
    rng = np.random.default_rng(seed)
    archive, seen, last = Archive(REFERENCE), [], 0.0
    for stage in range(num_stages):
        returns = rng.uniform(-0.2, 1, (num_rows, 2, 2))
        returns[rng.uniform(size=num_rows) < 0.2] = np.nan
        seen.append(returns)
        archive.take(returns, {"stage": np.full((num_rows, 1), stage)})
        assert archive.returns is not None
        finite = archive.returns[np.isfinite(archive.returns).all((1, 2))].reshape(-1, 2)
        value = hypervolume(finite, REFERENCE) if len(finite) else 0.0
        assert value >= last
        last = value
        for k in range(num_rows):
            np.testing.assert_array_equal(archive.returns[k], seen[int(archive.tensors["stage"][k, 0])][k])


def test_state_continues_and_does_not_move_on() -> None:
    first, second = Archive(REFERENCE), Archive(REFERENCE)
    assert first.get_state() == {}
    second.set_state({})
    assert second.returns is None
    first.take(np.ones((2, 1, 2)), {"actor.bias": np.zeros((2, 1))})
    state = first.get_state()
    first.take(np.full((2, 1, 2), 2.0), {"actor.bias": np.ones((2, 1))})
    np.testing.assert_array_equal(state["tensors.actor.bias"], np.zeros((2, 1)))
    second.set_state(state)
    second.take(np.full((2, 1, 2), 2.0), {"actor.bias": np.ones((2, 1))})
    assert second.get_state().keys() == first.get_state().keys()
    for name, array in first.get_state().items():
        np.testing.assert_array_equal(second.get_state()[name], array)
