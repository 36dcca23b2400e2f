"""Who seems to be on the front is seen again before that is believed: by hand, with returns in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from counting_batch import CountingBatch, linear_actors, start_of

from ucb_moppo.engine.second_look import ENOUGH, SecondLook, look_again
from ucb_moppo.policy.networks import PAPER_NETWORK
from ucb_moppo.seeding import EVALUATION, EVALUATION_SEED, episode_seed

HORIZON, SEEN = 4, 2
# Policy 0 always acts (0, 0), policy 1 (0.5, 0.1): an episode pays 4 (a_0 + start) and 10 a_1.
OFFSET = np.array([[0.0, 0.0], [0.5, 0.1]])
WEIGHTS = np.array([[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]])
# Of two episodes (0, 0) is said to have returned far more than it does: nobody else is on the front.
LUCKY = np.array([[[60.0, 20.0], [-50.0, -50.0]], [[3.0, 1.0], [np.nan, 9.0]]])


def tensors() -> dict[str, np.ndarray]:
    actors = linear_actors(OFFSET, np.zeros((2, 2, 2)))
    stats = actors.observation_stats
    named = {f"actor.{name}": array for name, array in actors.params.items()}
    return named | {f"observation.{name}": getattr(stats, name) for name in ("mean", "variance", "count")}


def paid(policy: int, first: int, last: int) -> np.ndarray:
    """The mean return of a policy's episodes from number ``first`` to before ``last``."""
    starts = [start_of(episode_seed(EVALUATION_SEED, EVALUATION, e)) for e in range(first, last)]
    return np.array([4 * (OFFSET[policy, 0] + np.mean(starts)), 10 * OFFSET[policy, 1]])


def look(returns: np.ndarray, spare: int) -> SecondLook:
    def make(num_envs: int) -> CountingBatch:
        return CountingBatch(num_envs, horizon=HORIZON)

    return look_again(tensors(), PAPER_NETWORK, WEIGHTS, returns, make, seen=SEEN, spare=spare)


def test_luck_is_found_out_and_who_it_kept_off_the_front_is_seen_as_often() -> None:
    found = look(LUCKY, spare=1000)
    more = ENOUGH - SEEN
    expected = LUCKY.copy()
    expected[0, 0] = (SEEN * LUCKY[0, 0] + more * paid(0, SEEN, ENOUGH)) / ENOUGH  # about (13, 4): still in the way
    assert (expected[0, 0] > LUCKY[1, 0]).all()
    np.testing.assert_allclose(found.returns, expected, rtol=1e-5)
    assert (found.episodes, found.steps) == (more, more * HORIZON)


def test_who_comes_onto_the_front_is_seen_next() -> None:
    modest = LUCKY.copy()
    modest[0, 0] = (10.0, 1.5)  # eight more episodes leave about (3.6, 0.3): less than (3, 1) in the second
    found = look(modest, spare=1000)
    more = ENOUGH - SEEN
    expected = modest.copy()
    expected[0, 0] = (SEEN * modest[0, 0] + more * paid(0, SEEN, ENOUGH)) / ENOUGH
    assert expected[0, 0, 1] < modest[1, 0, 1]
    expected[1, 0] = (SEEN * modest[1, 0] + more * paid(1, SEEN, ENOUGH)) / ENOUGH
    np.testing.assert_allclose(found.returns, expected, rtol=1e-5)
    assert (found.episodes, found.steps) == (more, 2 * more * HORIZON)


@pytest.mark.parametrize(
    ("spare", "episodes", "looked_at"), [(1, 0, 0), (2, 1, 2), (7, 3, 2), (16, 8, 2), (15, 7, 2)]
)
def test_no_more_episodes_than_are_spare(spare: int, episodes: int, looked_at: int) -> None:
    """Half of them for the one that is on the front at first, as many for the one that comes."""
    modest = LUCKY.copy()
    modest[0, 0] = (3.5, 1.01)
    found = look(modest, spare)
    assert found.episodes == episodes
    assert found.steps == looked_at * episodes * HORIZON <= spare * HORIZON
    assert (found.returns[0, 1] == modest[0, 1]).all()


def test_nothing_changes_what_it_was_given() -> None:
    given = LUCKY.copy()
    look(given, spare=1000)
    np.testing.assert_array_equal(given, LUCKY)


def test_a_front_of_nothing_is_left_alone() -> None:
    nothing = np.full(LUCKY.shape, np.nan)
    found = look(nothing, spare=1000)
    np.testing.assert_array_equal(found.returns, nothing)
    assert (found.episodes, found.steps) == (0, 0)
