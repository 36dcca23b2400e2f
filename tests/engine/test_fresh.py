"""Fresh episodes of one policy: starts of their own, lengths, and which the problem ended."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from counting_batch import CountingBatch, linear_actors, start_of

from ucb_moppo.engine.fresh import run_fresh_episodes
from ucb_moppo.errors import ConfigError, EnvironmentFault
from ucb_moppo.policy.actors import actors_to_tensors
from ucb_moppo.policy.policy import Policy
from ucb_moppo.seeding import EVALUATION, EVALUATION_SEED, FORECAST, HELD_OUT, episode_seed

HORIZON, NUM_EPISODES = 4, 12
OFFSET, SLOPE, WEIGHT = np.array([[0.5, -1.0]]), np.array([[[1.0, 2.0], [3.0, 4.0]]]), np.array([0.25, 0.75])
SEEDS = [episode_seed(EVALUATION_SEED, FORECAST, e) for e in range(NUM_EPISODES)]


def make_policy(offset: np.ndarray = OFFSET) -> Policy:
    tensors = {name: array[0] for name, array in actors_to_tensors(linear_actors(offset, SLOPE)).items()}
    return Policy(CountingBatch(1, horizon=HORIZON).spec, 3, WEIGHT, np.zeros(2), tensors)


def life(seed: int) -> float:
    """Odd seeds end after two steps, those that 4 divides at the horizon, others never."""
    return 2 if seed % 2 else HORIZON if seed % 4 == 0 else np.inf


def test_returns_lengths_and_early_ends() -> None:
    found = run_fresh_episodes(make_policy(), lambda n: CountingBatch(n, horizon=HORIZON, life=life), NUM_EPISODES)
    # Actions are offset + w · slope = (.5 + .25 + 2.25, −1 + .5 + 3) = (3, 2.5) at every step.
    early = np.array([seed % 2 == 1 for seed in SEEDS])
    assert 0 < early.sum() < NUM_EPISODES
    starts, steps = np.array([start_of(seed) for seed in SEEDS]), np.where(early, 2, HORIZON)
    expected = np.stack([steps * (3 + starts), 2.5 * steps * (steps + 1) / 2], axis=1)
    np.testing.assert_allclose(found.returns, expected, rtol=1e-5)
    np.testing.assert_array_equal(found.steps, steps)
    np.testing.assert_array_equal(found.ended_early, early)  # not those that ended with the horizon


def test_returns_are_discounted_as_the_run_was() -> None:
    batch = partial(CountingBatch, horizon=HORIZON)
    found = run_fresh_episodes(make_policy(), batch, 3, discount=0.5)
    starts = np.array([start_of(seed) for seed in SEEDS[:3]])
    # (3 + start) (1 + ½ + ¼ + ⅛), and 2.5 (1 + 2/2 + 3/4 + 4/8).
    np.testing.assert_allclose(found.returns[:, 0], (3 + starts) * 1.875, rtol=1e-5)
    np.testing.assert_allclose(found.returns[:, 1], 2.5 * 3.25, rtol=1e-5)


def test_no_start_is_one_that_something_was_chosen_or_measured_by() -> None:
    others = {episode_seed(EVALUATION_SEED, stream, e) for stream in (EVALUATION, HELD_OUT) for e in range(1000)}
    assert not others & set(SEEDS)


@pytest.mark.parametrize("count", [0, -1, 1001])
def test_a_count_that_cannot_be(count: int) -> None:
    with pytest.raises(ConfigError, match=f"episodes is {count}; choose from 1 to 1,000"):
        run_fresh_episodes(make_policy(), CountingBatch, count)


def test_a_policy_that_is_lost_is_not_forecast() -> None:
    with pytest.raises(EnvironmentFault, match="policy 3 returns numbers that are not finite"):
        run_fresh_episodes(make_policy(OFFSET + np.inf), lambda n: CountingBatch(n, horizon=HORIZON), 2)
