"""The mathematics of PPO against numbers worked out by hand, scipy, and loops written out."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import log_softmax

from ucb_moppo.algos.ppo.losses import (
    clipped_policy_loss,
    entropy,
    generalised_advantages,
    log_probability,
    scalarise,
    standardise,
    value_loss,
)

light = settings(max_examples=40, deadline=None)
gae = jax.jit(generalised_advantages)

# Three steps of one environment, two objectives that differ in everything. γ = 0.5, λ = 0.5, so γλ = 0.25.
REWARDS = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])[:, None]
VALUES = np.array([[4.0, 1.0], [2.0, 2.0], [6.0, 3.0]])[:, None]
NEXT_VALUES = np.array([[2.0, 2.0], [6.0, 8.0], [8.0, 4.0]])[:, None]
NEVER = np.zeros((3, 1))
SECOND = np.array([[0.0], [1.0], [0.0]])


def advantages(terminated: np.ndarray, done: np.ndarray) -> np.ndarray:
    return np.asarray(gae(REWARDS, VALUES, NEXT_VALUES, terminated, done, 0.5, 0.5))[:, 0]


def test_advantages_of_an_unbroken_rollout() -> None:
    # δ = r + γ·V' − V. First objective:  1 + 1 − 4 = −2;   2 + 3 − 2 = 3;    3 + 4 − 6 = 1.
    #                   Second objective: 10 + 1 − 1 = 10;  20 + 4 − 2 = 22; 30 + 2 − 3 = 29.
    # A_2 = δ_2; A_1 = δ_1 + 0.25·A_2 = 3.25 | 29.25; A_0 = δ_0 + 0.25·A_1 = −1.1875 | 17.3125.
    expected = [[-1.1875, 17.3125], [3.25, 29.25], [1.0, 29.0]]
    np.testing.assert_allclose(advantages(NEVER, NEVER), expected, rtol=1e-6)


def test_termination_makes_the_future_worthless() -> None:
    # The second step terminates: δ_1 = r − V = 0 | 18, and nothing of A_2 reaches it.
    # A_0 = δ_0 + 0.25·A_1 = −2 | 10 + 4.5 = 14.5. The third step is another episode's: unchanged.
    np.testing.assert_allclose(advantages(SECOND, SECOND), [[-2.0, 14.5], [0.0, 18.0], [1.0, 29.0]], rtol=1e-6)


def test_truncation_bootstraps_from_the_final_observation() -> None:
    # The second step is cut: δ_1 = 3 | 22 with γ·V' in it, but nothing of A_2 reaches it.
    # A_0 = −2 + 0.75 = −1.25 | 10 + 5.5 = 15.5.
    np.testing.assert_allclose(advantages(NEVER, SECOND), [[-1.25, 15.5], [3.0, 22.0], [1.0, 29.0]], rtol=1e-6)


@pytest.mark.parametrize("terminated", [NEVER, SECOND])
def test_nothing_leaks_across_episodes(terminated: np.ndarray) -> None:
    """What the following episode earns or is worth changes nothing before the boundary, to the bit."""
    before = gae(REWARDS, VALUES, NEXT_VALUES, terminated, SECOND, 0.9, 0.9)
    rewards, values, following = REWARDS.copy(), VALUES.copy(), NEXT_VALUES.copy()
    rewards[2], values[2], following[2] = 1e6, -1e6, 1e6
    after = gae(rewards, values, following, terminated, SECOND, 0.9, 0.9)
    np.testing.assert_array_equal(before[:2], after[:2])
    assert (np.abs(after[2]) > 1e5).all()


def slow_gae(
    rewards: np.ndarray,
    values: np.ndarray,
    following: np.ndarray,
    terminated: np.ndarray,
    done: np.ndarray,
    gamma: float,
    lam: float,
) -> np.ndarray:
    """A_t = Σ_l (γλ)^l δ_{t+l} up to the end of t's episode, one environment and objective at a time."""
    result = np.zeros_like(rewards)
    for t, n, j in np.ndindex(*rewards.shape):
        for later in range(t, len(rewards)):
            future = 0.0 if terminated[later, n] else gamma * following[later, n, j]
            delta = rewards[later, n, j] + future - values[later, n, j]
            result[t, n, j] += (gamma * lam) ** (later - t) * delta
            if done[later, n]:
                break
    return result


def random_rollout(seed: int) -> tuple[np.ndarray, ...]:
    """T = 6, N = 3, m = 2; a fifth of the steps terminate and a fifth are cut."""
    rng = np.random.default_rng(seed)
    rewards, values, following = rng.normal(size=(3, 6, 3, 2))
    fate = rng.integers(0, 5, (6, 3))
    return rewards, values, following, (fate == 0).astype(float), (fate <= 1).astype(float)


@light
@given(seed=st.integers(0, 10_000), gamma=st.floats(0, 1), lam=st.floats(0, 1))
def test_advantages_equal_the_double_loop(seed: int, gamma: float, lam: float) -> None:
    rollout = random_rollout(seed)
    np.testing.assert_allclose(gae(*rollout, gamma, lam), slow_gae(*rollout, gamma, lam), rtol=1e-4, atol=1e-5)


@light
@given(seed=st.integers(0, 10_000), gamma=st.floats(0, 1))
def test_lambda_one_is_discounted_return_minus_value(seed: int, gamma: float) -> None:
    """With λ = 1 the deltas telescope: A_t = Σ γ^l r_{t+l} + γ^L V(last) − V_t, V(last) = 0 if terminated."""
    rewards, values, following, terminated, done = random_rollout(seed)
    expected = np.zeros_like(rewards)
    for t, n in np.ndindex(*done.shape):
        end = next((s for s in range(t, len(done)) if done[s, n]), len(done) - 1)
        earned = sum(gamma ** (s - t) * rewards[s, n] for s in range(t, end + 1))
        rest = 0.0 if terminated[end, n] else gamma ** (end - t + 1) * following[end, n]
        # Telescoping needs V'_s = V_{s+1} inside an episode, which a real rollout has.
        expected[t, n] = earned + rest - values[t, n]
    inside = (done[:-1] == 0)[..., None]
    following[:-1] = np.where(inside, values[1:], following[:-1])
    found = gae(rewards, values, following, terminated, done, gamma, 1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@light
@given(seed=st.integers(0, 10_000), gamma=st.floats(0, 1))
def test_lambda_zero_is_the_temporal_difference(seed: int, gamma: float) -> None:
    rewards, values, following, terminated, done = random_rollout(seed)
    expected = rewards + gamma * (1 - terminated[..., None]) * following - values
    found = gae(rewards, values, following, terminated, done, gamma, 0.0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_environments_and_objectives_do_not_mix() -> None:
    rollout = random_rollout(3)
    together = np.asarray(gae(*rollout, 0.9, 0.8))
    for n in range(3):
        alone = generalised_advantages(*(part[:, n : n + 1] for part in rollout), 0.9, 0.8)
        np.testing.assert_allclose(together[:, n], np.asarray(alone)[:, 0], rtol=1e-6, atol=1e-6)


def test_scalarise() -> None:
    # (1, 10)·(0.25, 0.75) = 7.75; (2, 20)·(1, 0) = 2.
    vectors, weights = np.array([[1.0, 10.0], [2.0, 20.0]]), np.array([[0.25, 0.75], [1.0, 0.0]])
    np.testing.assert_allclose(scalarise(vectors, weights), [7.75, 2.0])
    # One weight for all rows: 0.5·(1 + 10) and 0.5·(2 + 20).
    np.testing.assert_allclose(scalarise(vectors, np.array([0.5, 0.5])), [5.5, 11.0])


def test_gaussian_log_probability_equals_scipy() -> None:
    rng = np.random.default_rng(0)
    mean, action, log_std = rng.normal(size=(7, 3)), 2 * rng.normal(size=(7, 3)), np.array([-1.0, 0.0, 0.7])
    expected = stats.norm(mean, np.exp(log_std)).logpdf(action).sum(axis=1)
    found = log_probability({"log_std": jnp.asarray(log_std)}, jnp.asarray(mean), jnp.asarray(action))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_discrete_log_probability_equals_log_softmax() -> None:
    logits = 3 * np.random.default_rng(0).normal(size=(6, 4))
    action = np.array([0, 3, 1, 2, 2, 0], np.int32)
    expected = log_softmax(logits, axis=1)[np.arange(6), action]
    found = log_probability({}, jnp.asarray(logits), jnp.asarray(action))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


HEADS = {"head1.bias": jnp.zeros(3), "head2.bias": jnp.zeros(2)}
"""An actor that chooses one of three and, independently, one of two."""


def test_log_probabilities_of_independent_heads_add_up() -> None:
    logits = 3 * np.random.default_rng(0).normal(size=(6, 5))
    action = np.array([[0, 1], [2, 0], [1, 1], [2, 1], [2, 0], [0, 0]], np.float32)
    first, second = log_softmax(logits[:, :3], axis=1), log_softmax(logits[:, 3:], axis=1)
    expected = [a[int(i)] + b[int(j)] for a, b, (i, j) in zip(first, second, action, strict=True)]
    found = log_probability(HEADS, jnp.asarray(logits), jnp.asarray(action))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    # Of all six joint choices together the probability is 1.
    joint = np.array([[i, j] for i in range(3) for j in range(2)], np.float32)
    all_of_them = log_probability(HEADS, jnp.asarray(np.repeat(logits[:1], 6, axis=0)), jnp.asarray(joint))
    np.testing.assert_allclose(np.exp(all_of_them).sum(), 1.0, rtol=1e-5)


def test_entropies_of_independent_heads_add_up() -> None:
    # Uniform over 3, and (3/4, 1/4): log 3 + log 4 − 3/4·log 3.
    logits = jnp.concatenate([jnp.full((1, 3), 7.0), jnp.log(jnp.array([[0.75, 0.25]]))], axis=1)
    np.testing.assert_allclose(entropy(HEADS, logits), [np.log(3) + np.log(4) - 0.75 * np.log(3)], rtol=1e-6)


def test_gaussian_entropy() -> None:
    """Σ_i (log σ_i + ½·log 2πe) of independent normals, the same for every input."""
    log_std = np.array([-1.0, 0.5])
    expected = stats.norm(0, np.exp(log_std)).entropy().sum()
    found = entropy({"log_std": jnp.asarray(log_std)}, jnp.zeros((4, 2)))
    np.testing.assert_allclose(found, np.full(4, expected), rtol=1e-6)


def test_discrete_entropy() -> None:
    # Uniform over 4: log 4. Probabilities (1/2, 1/4, 1/4): 1.5·log 2. A near-certain choice: 0, not NaN.
    uniform = entropy({}, jnp.full((1, 4), 7.0))
    skewed = entropy({}, jnp.log(jnp.array([[0.5, 0.25, 0.25]])))
    certain = entropy({}, jnp.array([[200.0, 0.0]]))
    np.testing.assert_allclose([*uniform, *skewed, *certain], [np.log(4), 1.5 * np.log(2), 0.0], atol=1e-6)


# r, A, the objective min(r·A, clip(r, 0.8, 1.2)·A), and its slope in log r: r·A where not clipped, else 0.
CLIP_CASES = [
    (1.0, 2.0, 2.0, 2.0),  # inside
    (1.5, 2.0, 2.4, 0.0),  # too likely already, and good: clipped at 1.2·2
    (0.5, 2.0, 1.0, 1.0),  # too unlikely, but good: the unclipped 0.5·2 is smaller, and pulls back
    (1.5, -2.0, -3.0, -3.0),  # too likely, but bad: unclipped −3 is smaller than −2.4, and pushes away
    (0.5, -2.0, -1.6, 0.0),  # unlikely already, and bad: clipped at 0.8·(−2)
]


@pytest.mark.parametrize(("ratio", "advantage", "objective", "slope"), CLIP_CASES)
def test_clipped_loss(ratio: float, advantage: float, objective: float, slope: float) -> None:
    log_ratio, advantages = jnp.array([np.log(ratio)]), jnp.array([advantage])
    loss, gradient = jax.value_and_grad(clipped_policy_loss)(log_ratio, advantages, 0.2)
    np.testing.assert_allclose(loss, -objective, rtol=1e-6)
    np.testing.assert_allclose(gradient, [-slope], rtol=1e-6)


def test_clipped_loss_is_a_mean() -> None:
    # −(2 + 2.4 + 1 − 3 − 1.6)/5 = −0.16.
    ratio, advantage = np.array([case[:2] for case in CLIP_CASES]).T
    np.testing.assert_allclose(clipped_policy_loss(np.log(ratio), advantage, 0.2), -0.16, rtol=1e-5)


def test_value_loss() -> None:
    # Squared errors (1 + 4) and (0 + 9), summed over objectives and averaged over samples: 7.
    values, targets = np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[0.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(value_loss(values, targets), 7.0)


def test_standardise() -> None:
    # Mean 2, population std sqrt(2/3).
    found = standardise(jnp.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(found, np.array([-1.0, 0.0, 1.0]) / np.sqrt(2 / 3), rtol=1e-6)
    np.testing.assert_array_equal(standardise(jnp.full(4, 5.0)), np.zeros(4))
