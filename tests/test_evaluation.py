"""Evaluation: returns in closed form, whatever the number of environments, waves and stages."""

from __future__ import annotations

import numpy as np
import pytest

from fake_envs import CountingBatch, linear_actors, start_of
from ucb_moppo.evaluation import evaluate
from ucb_moppo.seeding import EVALUATION, EVALUATION_SEED, episode_seed

K, W = 2, 5
RNG = np.random.default_rng(0)
OFFSET, SLOPE = RNG.normal(size=(K, 2)), RNG.normal(size=(K, 2, 2))
WEIGHTS = RNG.dirichlet(np.ones(2), (K, W))
ACTORS = linear_actors(OFFSET, SLOPE)


def short_life(seed: int) -> int:
    """Episodes of 2 to 6 steps."""
    return seed % 5 + 2


def seed_of(position: int, episode: int) -> int:
    return episode_seed(EVALUATION_SEED, EVALUATION, position, episode)


def return_of(k: int, w: int, episode: int, length: int) -> np.ndarray:
    """a = offset + w · slope at every step: Σ_{t=1..L} (a_0 + start, a_1·t) = (L·(a_0 + start), a_1·L(L+1)/2)."""
    action = OFFSET[k] + WEIGHTS[k, w] @ SLOPE[k]
    start = start_of(seed_of(w, episode))
    return np.array([length * (action[0] + start), action[1] * length * (length + 1) / 2])


def expected_returns(length_of: object, episodes: int = 1) -> np.ndarray:
    one = [
        [[return_of(k, w, e, length_of(seed_of(w, e))) for e in range(episodes)] for w in range(W)]  # type: ignore[operator]
        for k in range(K)
    ]
    return np.mean(one, axis=2)


def test_undiscounted_returns_to_the_horizon() -> None:
    evaluation = evaluate(ACTORS, WEIGHTS, CountingBatch(K * W, horizon=40))
    np.testing.assert_allclose(evaluation.returns, expected_returns(lambda seed: 40), rtol=1e-5)
    assert evaluation.steps == K * W * 40


def test_finished_episodes_stop_counting() -> None:
    """Each earns for as long as it lives and takes no step afterwards (the batch refuses one)."""
    evaluation = evaluate(ACTORS, WEIGHTS, CountingBatch(K * W, life=short_life))
    np.testing.assert_allclose(evaluation.returns, expected_returns(short_life), rtol=1e-5, atol=1e-5)
    lives = [short_life(seed_of(w, 0)) for w in range(W)]
    assert len(set(lives)) > 1
    assert evaluation.steps == K * sum(lives)


def test_episodes_are_averaged() -> None:
    evaluation = evaluate(ACTORS, WEIGHTS, CountingBatch(K * W * 3, life=short_life), episodes=3)
    np.testing.assert_allclose(evaluation.returns, expected_returns(short_life, 3), rtol=1e-5, atol=1e-5)
    lives = [short_life(seed_of(w, e)) for w in range(W) for e in range(3)]
    assert evaluation.steps == K * sum(lives)


@pytest.mark.parametrize("width", [1, 2, 4, 7, 10, 13])
def test_waves_give_the_same_answer(width: int) -> None:
    """K·width environments for W·2 = 10 episodes per policy: in 10 waves of one, or 5, 3, 2 and 1."""
    evaluation = evaluate(ACTORS, WEIGHTS, CountingBatch(K * width, life=short_life), episodes=2)
    np.testing.assert_allclose(evaluation.returns, expected_returns(short_life, 2), rtol=1e-5, atol=1e-5)
    assert evaluation.steps == K * sum(short_life(seed_of(w, e)) for w in range(W) for e in range(2))


def test_initial_states_belong_to_positions() -> None:
    """Policy and weight do not matter: the same position starts from the same seed for everyone."""
    env = CountingBatch(K * W, horizon=2)
    evaluate(ACTORS, WEIGHTS, env)
    assert env.resets == [(k * W + w, seed_of(w, 0)) for k in range(K) for w in range(W)]
    other = CountingBatch(K * W, horizon=2)
    evaluate(linear_actors(-OFFSET, SLOPE), WEIGHTS[:, ::-1], other)
    assert other.resets == env.resets


def test_stages_do_not_depend_on_each_other() -> None:
    """The same batch, used for other evaluations in between, gives the same bits again."""
    env = CountingBatch(K * W, life=short_life)
    actors = linear_actors(OFFSET, SLOPE, start=1.0)
    first = evaluate(actors, WEIGHTS, env)
    evaluate(linear_actors(-OFFSET, -SLOPE), WEIGHTS[:, :2], env, episodes=3)
    again = evaluate(actors, WEIGHTS, env)
    np.testing.assert_array_equal(first.returns, again.returns)
    assert first.steps == again.steps
    fresh = evaluate(actors, WEIGHTS, CountingBatch(K * W, life=short_life))
    np.testing.assert_array_equal(first.returns, fresh.returns)


def test_actions_follow_the_observation() -> None:
    """The output gains tanh(tanh(start)) in both components; mixed-up observations would show."""
    horizon = 3
    found = evaluate(linear_actors(OFFSET, SLOPE, start=1.0), WEIGHTS, CountingBatch(K * W, horizon=horizon))
    gain = np.array([np.tanh(np.tanh(start_of(seed_of(w, 0)))) for w in range(W)])
    assert np.ptp(gain) > 0.1
    expected = expected_returns(lambda seed: horizon) + gain[:, None] * [horizon, horizon * (horizon + 1) / 2]
    np.testing.assert_allclose(found.returns, expected, rtol=1e-5)


def test_observations_are_normalised_with_the_policy_s_statistics() -> None:
    """Start 0.5 with mean 0.25 and variance 0.25 is (0.5 − 0.25)/0.5 to the network, the policies apart."""
    actors = linear_actors(OFFSET, SLOPE, start=1.0)
    actors.observation_stats.mean[1, 3], actors.observation_stats.variance[1, 3] = 0.25, 0.25
    actors.observation_stats.count[:] = 1  # statistics of no samples are not used
    found = evaluate(actors, WEIGHTS, CountingBatch(K * W, horizon=1)).returns
    start = np.array([start_of(seed_of(w, 0)) for w in range(W)])
    seen = np.stack([start, (start - 0.25) / 0.5])
    expected = expected_returns(lambda seed: 1) + np.tanh(np.tanh(seen))[..., None]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_discrete_policies_take_the_likeliest_choice() -> None:
    """Logits w: the larger entry of w is chosen at each of 4 steps and pays 1 in its objective."""
    actors = linear_actors(np.zeros((K, 2)), np.tile(np.eye(2), (K, 1, 1)), discrete=True)
    found = evaluate(actors, WEIGHTS, CountingBatch(K * W, horizon=4, discrete=True)).returns
    np.testing.assert_array_equal(found, 4 * np.eye(2)[WEIGHTS.argmax(-1)])
