"""First episodes end at different times, once, as by a time limit; what comes after has its whole length."""

from __future__ import annotations

import numpy as np
from counting_batch import CountingBatch

from ucb_moppo.envs.staggered import StaggeredBatch, draw_first_lengths

STILL = np.zeros((3, 2))


def ends(batch: StaggeredBatch, steps: int) -> list[tuple[int, int, bool]]:
    """(step, environment, whether it terminated) of every end, with a reset after each."""
    found = []
    batch.reset(np.arange(3), [0, 1, 2])
    for t in range(1, steps + 1):
        step = batch.step(STILL)
        for env in np.flatnonzero(step.terminated | step.truncated).tolist():
            found.append((t, env, bool(step.terminated[env])))
            batch.reset(np.array([env]), [10 * t + env])
    return found


def test_only_the_first_episode_is_cut() -> None:
    batch = StaggeredBatch(CountingBatch(3, horizon=6), np.array([2, 6, 4]))
    first, then = [(2, 0, False), (4, 2, False), (6, 1, False)], [(8, 0, False), (10, 2, False), (12, 1, False)]
    assert ends(batch, 12) == first + then


def test_an_episode_that_ends_by_itself_is_not_cut_later() -> None:
    """Environment 1 terminates after three steps, before its cut at five: its next episode has three again."""
    life = lambda seed: 3 if seed % 10 == 1 else np.inf  # noqa: E731
    batch = StaggeredBatch(CountingBatch(3, horizon=100, life=life), np.array([100, 5, 100]))
    assert ends(batch, 9) == [(3, 1, True), (6, 1, True), (9, 1, True)]


def test_some_of_the_environments_can_be_stepped() -> None:
    batch = StaggeredBatch(CountingBatch(3), np.array([2, 2, 2]))
    batch.reset(np.arange(3), [0, 0, 0])
    batch.step(STILL[:1], np.array([1]))
    np.testing.assert_array_equal(batch.step(STILL).truncated, [False, True, False])


def test_state_continues_identically() -> None:
    first, second = (StaggeredBatch(CountingBatch(3, horizon=9), np.array([2, 9, 5])) for _ in range(2))
    first.reset(np.arange(3), [0, 1, 2])
    first.step(STILL)
    state = first.get_state()
    second.set_state(state)
    np.testing.assert_array_equal(first.step(STILL).truncated, [True, False, False])
    np.testing.assert_array_equal(second.step(STILL).truncated, [True, False, False])
    np.testing.assert_array_equal(state["first_left"], [1, 8, 4])


def test_lengths_are_spread_evenly_and_belong_to_their_sub_space() -> None:
    lengths = draw_first_lengths(7, [0, 1, 2], 25, 1000).reshape(3, 25)
    assert lengths.min() >= 1
    assert lengths.max() <= 1000
    np.testing.assert_allclose(np.diff(np.sort(lengths, axis=1)), 40, atol=1)
    assert not np.array_equal(lengths[0], lengths[1])
    np.testing.assert_array_equal(draw_first_lengths(7, [2], 25, 1000), lengths[2])
    assert draw_first_lengths(0, [0], 4, 1).tolist() == [1, 1, 1, 1]
