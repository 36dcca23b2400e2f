"""Evaluation: returns in closed form, whatever the number of environments, waves and stages."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from counting_batch import CountingBatch, linear_actors, start_of

from ucb_moppo.engine.evaluation import Evaluation, evaluate
from ucb_moppo.seeding import ACTIONS, EVALUATION, EVALUATION_SEED, HELD_OUT, episode_seed

K, W = 2, 5
RNG = np.random.default_rng(0)
OFFSET, SLOPE = RNG.normal(size=(K, 2)), RNG.normal(size=(K, 2, 2))
WEIGHTS = RNG.dirichlet(np.ones(2), (K, W))
ACTORS = linear_actors(OFFSET, SLOPE)


def short_life(seed: int) -> int:
    """Episodes of 2 to 6 steps."""
    return seed % 5 + 2


def seed_of(episode: int, stream: int = EVALUATION) -> int:
    return episode_seed(EVALUATION_SEED, stream, episode)


def return_of(k: int, w: int, episode: int, length: int) -> np.ndarray:
    """a = offset + w · slope at every step: Σ_{t=1..L} (a_0 + start, a_1·t) = (L·(a_0 + start), a_1·L(L+1)/2)."""
    action = OFFSET[k] + WEIGHTS[k, w] @ SLOPE[k]
    start = start_of(seed_of(episode))
    return np.array([length * (action[0] + start), action[1] * length * (length + 1) / 2])


def expected_episodes(length_of: Callable[[int], int], episodes: int = 1) -> np.ndarray:
    """[K, W, E, m]"""
    return np.array(
        [[[return_of(k, w, e, length_of(seed_of(e))) for e in range(episodes)] for w in range(W)] for k in range(K)]
    )


def expected_returns(length_of: Callable[[int], int], episodes: int = 1) -> np.ndarray:
    return expected_episodes(length_of, episodes).mean(axis=2)


def test_undiscounted_returns_to_the_horizon() -> None:
    evaluation = evaluate(ACTORS, WEIGHTS, CountingBatch(K * W, horizon=40))
    np.testing.assert_allclose(evaluation.returns, expected_returns(lambda seed: 40), rtol=1e-5)
    assert evaluation.steps == K * W * 40


@pytest.mark.parametrize("discount", [0.5, 0.99])
def test_discounted_returns(discount: float) -> None:
    """Σ_{t<L} γᵗ = (1 − γᴸ)/(1 − γ) of what does not change, Σ γᵗ·(t + 1) = (1 − (L+1)γᴸ + Lγᴸ⁺¹)/(1 − γ)² of what
    grows by one a step."""
    evaluation = evaluate(ACTORS, WEIGHTS, CountingBatch(K * W * 3, life=short_life), episodes=3, discount=discount)
    g, action = discount, OFFSET[:, None] + np.einsum("kwi,kij->kwj", WEIGHTS, SLOPE)
    for episode in range(3):
        length, start = short_life(seed_of(episode)), start_of(seed_of(episode))
        constant = (1 - g**length) / (1 - g)
        growing = (1 - (length + 1) * g**length + length * g ** (length + 1)) / (1 - g) ** 2
        expected = np.stack([constant * (action[..., 0] + start), growing * action[..., 1]], axis=-1)
        np.testing.assert_allclose(evaluation.episodes[:, :, episode], expected, rtol=1e-5, atol=1e-5)


def test_finished_episodes_stop_counting() -> None:
    """Each earns for as long as it lives and takes no step afterwards (the batch refuses one)."""
    evaluation = evaluate(ACTORS, WEIGHTS, CountingBatch(K * W * 4, life=short_life), episodes=4)
    np.testing.assert_allclose(evaluation.episodes, expected_episodes(short_life, 4), rtol=1e-5, atol=1e-5)
    lives = [short_life(seed_of(e)) for e in range(4)]
    assert len(set(lives)) > 1
    assert evaluation.steps == K * W * sum(lives)


def test_episodes_are_averaged() -> None:
    evaluation = evaluate(ACTORS, WEIGHTS, CountingBatch(K * W * 3, life=short_life), episodes=3)
    np.testing.assert_allclose(evaluation.returns, expected_returns(short_life, 3), rtol=1e-5, atol=1e-5)
    assert evaluation.steps == K * W * sum(short_life(seed_of(e)) for e in range(3))


@pytest.mark.parametrize("width", [1, 2, 4, 7, 10, 13])
def test_waves_give_the_same_answer(width: int) -> None:
    """K·width environments for W·2 = 10 episodes per policy: in 10 waves of one, or 5, 3, 2 and 1."""
    evaluation = evaluate(ACTORS, WEIGHTS, CountingBatch(K * width, life=short_life), episodes=2)
    np.testing.assert_allclose(evaluation.episodes, expected_episodes(short_life, 2), rtol=1e-5, atol=1e-5)
    assert evaluation.steps == K * W * sum(short_life(seed_of(e)) for e in range(2))


def test_initial_states_belong_to_episodes_alone() -> None:
    """Neither policy nor weight nor their number matters: episode e starts from the same seed for everyone."""
    env = CountingBatch(K * W * 2, horizon=2)
    evaluate(ACTORS, WEIGHTS, env, episodes=2)
    expected = [(k * W * 2 + w * 2 + e, seed_of(e)) for k in range(K) for w in range(W) for e in range(2)]
    assert env.resets == expected
    other = CountingBatch(K * W * 2, horizon=2)
    evaluate(linear_actors(-OFFSET, SLOPE), WEIGHTS[:, ::-1], other, episodes=2)
    assert other.resets == env.resets
    fewer = CountingBatch(3, horizon=2)  # one policy, one weight, one episode more
    evaluate(linear_actors(OFFSET[1:], SLOPE[1:]), WEIGHTS[1:, 3:4], fewer, episodes=3)
    assert [seed for _, seed in fewer.resets] == [seed_of(e) for e in range(3)]


def test_held_out_starts_are_others() -> None:
    """The streams have no start in common, and each is told apart by the argument alone."""
    chosen, held_out = CountingBatch(K * W * 9, horizon=1), CountingBatch(K * W * 9, horizon=1)
    evaluate(ACTORS, WEIGHTS, chosen, episodes=9)
    found = evaluate(ACTORS, WEIGHTS, held_out, episodes=9, starts=HELD_OUT)
    assert {seed for _, seed in chosen.resets} == {seed_of(e) for e in range(9)}
    assert {seed for _, seed in held_out.resets} == {seed_of(e, HELD_OUT) for e in range(9)}
    assert {seed for _, seed in chosen.resets}.isdisjoint(seed for _, seed in held_out.resets)
    # One step pays a_0 + start in the first objective.
    action = OFFSET[:, None] + np.einsum("kwi,kij->kwj", WEIGHTS, SLOPE)
    starts = np.array([start_of(seed_of(e, HELD_OUT)) for e in range(9)])
    np.testing.assert_allclose(found.episodes[..., 0], action[..., :1] + starts, rtol=1e-5, atol=1e-6)


def test_errors_are_those_of_the_mean() -> None:
    """Returns 1, 2, 6: mean 3, deviations −2, −1, 3, variance (4 + 1 + 9)/2 = 7, standard error √(7/3).

    0, 0, 3: mean 1, variance (1 + 1 + 4)/2 = 3, standard error 1.
    """
    evaluation = Evaluation(np.array([[[[1.0, 0.0], [2.0, 0.0], [6.0, 3.0]]]]), steps=3)
    np.testing.assert_allclose(evaluation.returns, [[[3.0, 1.0]]])
    np.testing.assert_allclose(evaluation.errors, [[[np.sqrt(7 / 3), 1.0]]])
    assert np.isnan(Evaluation(np.ones((2, 3, 1, 2)), steps=6).errors).all()  # of one episode nothing is known
    assert Evaluation(np.ones((2, 3, 1, 2)), steps=6).errors.shape == (2, 3, 2)


def test_errors_tell_how_far_means_of_other_starts_are() -> None:
    """Of 400 means over 25 episodes about 68% lie within their own standard error of the true mean."""
    rng = np.random.default_rng(0)
    evaluation = Evaluation(rng.normal(5.0, 2.0, (400, 1, 25, 1)), steps=0)
    within = np.abs(evaluation.returns - 5.0) < evaluation.errors
    assert 0.62 < within.mean() < 0.72
    np.testing.assert_allclose(evaluation.errors.mean(), 2 / np.sqrt(25), rtol=0.05)


def test_what_was_lost_is_lost_in_every_episode() -> None:
    """A weight with one infinite objective is lost whole; its neighbours and the steps stay."""
    evaluation = Evaluation(np.arange(24.0).reshape(2, 3, 2, 2), steps=7)
    judged = evaluation.returns.copy()
    judged[1, 2, 0] = np.inf
    rest = evaluation.without(judged)
    assert np.isnan(rest.episodes[1, 2]).all()
    assert np.isnan(rest.returns[1, 2]).all()
    np.testing.assert_array_equal(rest.episodes[0], evaluation.episodes[0])
    np.testing.assert_array_equal(rest.episodes[1, :2], evaluation.episodes[1, :2])
    assert rest.steps == 7
    assert np.isfinite(evaluation.episodes).all()  # the one it was made of has not changed


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
    horizon, actors = 3, linear_actors(OFFSET, SLOPE, start=1.0)
    found = evaluate(actors, WEIGHTS, CountingBatch(K * W * 5, horizon=horizon), episodes=5)
    gain = np.array([np.tanh(np.tanh(start_of(seed_of(e)))) for e in range(5)])
    assert np.ptp(gain) > 0.1
    more = gain[:, None] * [horizon, horizon * (horizon + 1) / 2]
    expected = expected_episodes(lambda seed: horizon, 5) + more
    np.testing.assert_allclose(found.episodes, expected, rtol=1e-5, atol=1e-6)


def test_observations_are_normalised_with_the_policy_s_statistics() -> None:
    """Start 0.5 with mean 0.25 and variance 0.25 is (0.5 − 0.25)/0.5 to the network, the policies apart."""
    actors = linear_actors(OFFSET, SLOPE, start=1.0)
    actors.observation_stats.mean[1, 3], actors.observation_stats.variance[1, 3] = 0.25, 0.25
    actors.observation_stats.count[:] = 1  # statistics of no samples are not used
    found = evaluate(actors, WEIGHTS, CountingBatch(K * W * 5, horizon=1), episodes=5).episodes
    start = np.array([start_of(seed_of(e)) for e in range(5)])
    seen = np.stack([start, (start - 0.25) / 0.5])[:, None, :, None]
    expected = expected_episodes(lambda seed: 1, 5) + np.tanh(np.tanh(seen))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_discrete_policies_take_the_likeliest_choice() -> None:
    """Logits w: the larger entry of w is chosen at each of 4 steps and pays 1 in its objective."""
    actors = linear_actors(np.zeros((K, 2)), np.tile(np.eye(2), (K, 1, 1)), discrete=True)
    found = evaluate(actors, WEIGHTS, CountingBatch(K * W, horizon=4, discrete=True)).returns
    np.testing.assert_array_equal(found, 4 * np.eye(2)[WEIGHTS.argmax(-1)])


# --- sampled actions ---------------------------------------------------------------------------------------


def noise_of(episode: int, horizon: int, stream: int = EVALUATION) -> np.ndarray:
    """What is drawn for an episode of a stream: a stream of its own, in the order of the steps."""
    rng = np.random.default_rng(episode_seed(EVALUATION_SEED, ACTIONS, stream, episode))
    return rng.standard_normal((horizon, 2))


@pytest.mark.parametrize("stream", [EVALUATION, HELD_OUT])
def test_sampled_actions_add_noise_of_the_policy_s_own_std(stream: int) -> None:
    """Stds 1 and e: the return gains Σ_t (n_0, t·n_1) times the policy's std, n drawn for the episode.

    So does its mean over other starts, which moves the first objective by the horizon times their mean.
    """
    horizon, actors = 7, linear_actors(OFFSET, SLOPE)
    actors.params["log_std"][1] = 1.0
    env = CountingBatch(K * W * 3, horizon=horizon)
    found = evaluate(actors, WEIGHTS, env, episodes=3, starts=stream, sampled=True).episodes
    times = np.arange(1, horizon + 1)
    drawn = [noise_of(e, horizon, stream) for e in range(3)]
    gain = np.array([[noise[:, 0].sum(), (times * noise[:, 1]).sum()] for noise in drawn])
    shift = [start_of(seed_of(e, stream)) - start_of(seed_of(e)) for e in range(3)]
    expected = expected_episodes(lambda seed: horizon, 3) + np.exp([0.0, 1.0])[:, None, None, None] * gain
    expected[..., 0] += horizon * np.array(shift)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [1, 3, 10])
def test_draws_belong_to_episodes(width: int) -> None:
    """However many environments there are, and whoever is evaluated beside it."""
    whole = evaluate(ACTORS, WEIGHTS, CountingBatch(K * W * 2, horizon=9), episodes=2, sampled=True)
    waves = evaluate(ACTORS, WEIGHTS, CountingBatch(K * width, horizon=9), episodes=2, sampled=True)
    np.testing.assert_allclose(waves.episodes, whole.episodes, rtol=1e-5, atol=1e-5)
    alone = linear_actors(OFFSET[1:], SLOPE[1:])
    one = evaluate(alone, WEIGHTS[1:], CountingBatch(W * 2, horizon=9), episodes=2, sampled=True)
    np.testing.assert_allclose(one.episodes[0], whole.episodes[1], rtol=1e-5, atol=1e-5)


def test_sampled_choices_follow_the_logits() -> None:
    """Logits (0, ln 3): three choices in four are the second, over 5 · 4,000 steps (std of the share 0.003)."""
    actors = linear_actors(np.tile([0.0, np.log(3.0)], (K, 1)), np.zeros((K, 2, 2)), discrete=True)
    env = CountingBatch(K * 5, horizon=4000, discrete=True)
    found = evaluate(actors, WEIGHTS[:, :1], env, episodes=5, sampled=True).episodes[:, 0]
    np.testing.assert_allclose(found.sum(1)[:, 1] / (5 * 4000), 0.75, atol=0.012)
    np.testing.assert_array_equal(found.sum(-1), 4000)
    assert len(set(found[0, :, 1].tolist())) > 1  # episodes draw apart


def test_an_output_that_is_not_finite_has_no_return() -> None:
    actors = linear_actors(OFFSET, SLOPE)
    actors.params["head.bias"][1, 0] = np.nan
    found = evaluate(actors, WEIGHTS, CountingBatch(K * W, horizon=3)).returns
    np.testing.assert_allclose(found[0], expected_returns(lambda seed: 3)[0], rtol=1e-5)
    assert np.isnan(found[1]).all()
