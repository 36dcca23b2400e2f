"""Evaluation: returns in closed form, whatever the number of environments, waves and stages."""

from __future__ import annotations

import numpy as np
import pytest
from counting_batch import CountingBatch, linear_actors, start_of

from ucb_moppo.engine.evaluation import evaluate
from ucb_moppo.seeding import ACTIONS, EVALUATION, EVALUATION_SEED, episode_seed

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


# --- sampled actions ---------------------------------------------------------------------------------------


def noise_of(position: int, episode: int, horizon: int) -> np.ndarray:
    """What is drawn for a position and an episode: a stream of its own, in the order of the steps."""
    rng = np.random.default_rng(episode_seed(EVALUATION_SEED, ACTIONS, position, episode))
    return rng.standard_normal((horizon, 2))


def test_sampled_actions_add_noise_of_the_policy_s_own_std() -> None:
    """Stds 1 and e: the return gains Σ_t (n_0, t·n_1) times the policy's std, n drawn for the position."""
    horizon, actors = 7, linear_actors(OFFSET, SLOPE)
    actors.params["log_std"][1] = 1.0
    found = evaluate(actors, WEIGHTS, CountingBatch(K * W, horizon=horizon), sampled=True).returns
    times = np.arange(1, horizon + 1)
    drawn = [noise_of(w, 0, horizon) for w in range(W)]
    gain = np.array([[noise[:, 0].sum(), (times * noise[:, 1]).sum()] for noise in drawn])
    expected = expected_returns(lambda seed: horizon) + np.exp([0.0, 1.0])[:, None, None] * gain
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [1, 3, 10])
def test_draws_belong_to_positions_and_episodes(width: int) -> None:
    """However many environments there are, and whoever is evaluated beside it."""
    whole = evaluate(ACTORS, WEIGHTS, CountingBatch(K * W * 2, horizon=9), episodes=2, sampled=True)
    waves = evaluate(ACTORS, WEIGHTS, CountingBatch(K * width, horizon=9), episodes=2, sampled=True)
    np.testing.assert_allclose(waves.returns, whole.returns, rtol=1e-5, atol=1e-5)
    alone = linear_actors(OFFSET[1:], SLOPE[1:])
    one = evaluate(alone, WEIGHTS[1:], CountingBatch(W * 2, horizon=9), episodes=2, sampled=True)
    np.testing.assert_allclose(one.returns[0], whole.returns[1], rtol=1e-5, atol=1e-5)


def test_sampled_choices_follow_the_logits() -> None:
    """Logits (0, ln 3): three choices in four are the second, over 20,000 steps (std of the share 0.003)."""
    actors = linear_actors(np.tile([0.0, np.log(3.0)], (K, 1)), np.zeros((K, 2, 2)), discrete=True)
    found = evaluate(actors, WEIGHTS, CountingBatch(K * W, horizon=4000, discrete=True), sampled=True).returns
    np.testing.assert_allclose(found.sum(1)[:, 1] / (W * 4000), 0.75, atol=0.012)
    np.testing.assert_array_equal(found.sum(-1), 4000)


def test_positions_may_be_given() -> None:
    """Both policies' weights start from the states of positions 3, 0, 1, … instead of their columns."""
    positions = np.array([[3, 0, 1, 1, 2], [4, 4, 0, 2, 3]])
    env = CountingBatch(K * W, horizon=2)
    found = evaluate(ACTORS, WEIGHTS, env, positions=positions).returns
    assert [seed for _, seed in env.resets] == [seed_of(p, 0) for p in positions.ravel()]
    action = OFFSET[:, None] + np.einsum("kwi,kij->kwj", WEIGHTS, SLOPE)
    start = np.vectorize(lambda p: start_of(seed_of(p, 0)))(positions)
    expected = np.stack([2 * (action[..., 0] + start), 3 * action[..., 1]], axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_an_output_that_is_not_finite_has_no_return() -> None:
    actors = linear_actors(OFFSET, SLOPE)
    actors.params["head.bias"][1, 0] = np.nan
    found = evaluate(actors, WEIGHTS, CountingBatch(K * W, horizon=3)).returns
    np.testing.assert_allclose(found[0], expected_returns(lambda seed: 3)[0], rtol=1e-5)
    assert np.isnan(found[1]).all()
