"""The update: against a plain version in numpy, one policy against many, and bandits of known optimum."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as scipy_stats

from ucb_moppo.algos.base import Transitions
from ucb_moppo.algos.ppo.ppo import PPO
from ucb_moppo.algos.ppo.ppo_settings import PPOConfig
from ucb_moppo.algos.ppo.update import (
    LOSSES,
    PARTS,
    Minibatch,
    PolicyState,
    adapt_pace,
    make_optimiser,
    make_update,
    predict_values,
    prepare_batch,
    rescale_critic,
    share_left,
    update_minibatch,
)
from ucb_moppo.policy.actors import Actors
from ucb_moppo.policy.networks import greedy_action
from ucb_moppo.policy.normaliser import Statistics
from ucb_moppo.spec import ActionSpec, EnvSpec

T, N, D, M, A, CELLS = 7, 2, 3, 2, 2, 6
SPEC = EnvSpec("fake", ("first", "second"), D, ActionSpec(False, A, (-1.0,) * A, (1.0,) * A), 100, (0.0, 0.0))
# 14 samples in minibatches of 4: three gradient steps per epoch, and two samples left over.
SMALL = PPOConfig(cells=CELLS, minibatch=4, epochs=2, learning_rate=1e-2)


@lru_cache
def compiled(settings: PPOConfig, num_iterations: int) -> Any:
    """The jitted update, compiled once for all tests."""
    return make_update(settings, num_iterations)


@lru_cache
def fresh_states(settings: PPOConfig, num_iterations: int, policies: tuple[int, ...], spec: EnvSpec) -> PolicyState:
    return PPO(settings, num_iterations).init_policies(spec, 0, policies)


def make_states(settings: PPOConfig, num_iterations: int, policies: tuple[int, ...], spec: EnvSpec = SPEC) -> Any:
    """Untrained policies with a leading axis K, in arrays of their own."""
    return copy(fresh_states(settings, num_iterations, policies, spec))


def copy(tree: Any) -> Any:
    """A copy to hand to an update, which donates its argument."""
    return jax.tree.map(np.array, tree)


def pick(tree: Any, policy: int) -> Any:
    """One policy of a tree with a leading axis K."""
    return jax.tree.map(lambda leaf: leaf[policy], tree)


def random_rollout(seed: int, num_policies: int = 1) -> tuple[Transitions, np.ndarray]:
    """Made-up transitions [T, K, N, …] with both kinds of endings, and weights [K, N, m]."""
    rng = np.random.default_rng(seed)
    lead = (T, num_policies, N)
    fate = rng.integers(0, 5, lead)
    rollout = Transitions(
        observation=(3 + 2 * rng.normal(size=(*lead, D))).astype(np.float32),
        next_observation=(3 + 2 * rng.normal(size=(*lead, D))).astype(np.float32),
        action=rng.normal(size=(*lead, A)).astype(np.float32),
        reward=(rng.normal(size=(*lead, M)) * [1, 50] + [2, -30]).astype(np.float32),
        terminated=fate == 0,
        truncated=fate == 1,
    )
    return rollout, rng.dirichlet(np.ones(M), (num_policies, N)).astype(np.float32)


def of_policy(rollout: Transitions, policy: int) -> Transitions:
    return jax.tree.map(lambda array: array[:, policy], rollout)


def assert_trees_close(found: Any, expected: Any, **tolerance: float) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **tolerance), found, expected)


def trees_equal(first: Any, second: Any) -> bool:
    return all(jax.tree.leaves(jax.tree.map(lambda a, b: bool(np.array_equal(a, b)), first, second)))


# --- one gradient step against a plain version ------------------------------------------------------------


def plain_forward(params: dict[str, np.ndarray], x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, ...]:
    inputs = np.concatenate([x, w], axis=1)
    first = np.tanh(inputs @ params["hidden1.kernel"] + params["hidden1.bias"])
    second = np.tanh(first @ params["hidden2.kernel"] + params["hidden2.bias"])
    last = np.concatenate([second, w], axis=1)
    return inputs, first, second, last, last @ params["head.kernel"] + params["head.bias"]


def plain_backward(
    params: dict[str, np.ndarray], x: np.ndarray, w: np.ndarray, slope: np.ndarray
) -> dict[str, np.ndarray]:
    """Gradients from d(loss)/d(output) [B, out], by the chain rule; tanh' = 1 − tanh²."""
    inputs, first, second, last, _ = plain_forward(params, x, w)
    at_second = slope @ params["head.kernel"][: second.shape[1]].T * (1 - second**2)
    at_first = at_second @ params["hidden2.kernel"].T * (1 - first**2)
    return {
        "head.kernel": last.T @ slope,
        "head.bias": slope.sum(0),
        "hidden2.kernel": first.T @ at_second,
        "hidden2.bias": at_second.sum(0),
        "hidden1.kernel": inputs.T @ at_first,
        "hidden1.bias": at_first.sum(0),
    }


def plain_gradients(params: Any, batch: Minibatch, settings: PPOConfig) -> dict[str, dict[str, np.ndarray]]:
    """Gradients of clipped loss − entropy bonus (actor) and of the value loss (critic)."""
    actor, size = params["actor"], len(batch.advantage)
    mean = plain_forward(actor, batch.observation, batch.weight)[-1]
    std = np.exp(actor["log_std"])
    scaled = (batch.action - mean) / std
    log_p = scipy_stats.norm(mean, std).logpdf(batch.action).sum(1)
    ratio = np.exp(log_p - batch.log_probability)
    advantage = (batch.advantage - batch.advantage.mean()) / (batch.advantage.std() + 1e-8)
    clipped = np.where(advantage > 0, ratio > 1 + settings.clip, ratio < 1 - settings.clip)
    slope = np.where(clipped, 0.0, -ratio * advantage / size)[:, None]  # d(loss)/d(log π)
    actor_gradient = plain_backward(actor, batch.observation, batch.weight, slope * scaled / std)
    actor_gradient["log_std"] = (slope * (scaled**2 - 1)).sum(0) - settings.entropy_coefficient
    values = plain_forward(params["critic"], batch.observation, batch.weight)[-1]
    error = settings.value_coefficient * 2 * (values - batch.target) / size
    critic_gradient = plain_backward(params["critic"], batch.observation, batch.weight, error)
    return {"actor": actor_gradient, "critic": critic_gradient}


def norm_of(gradient: dict[str, np.ndarray]) -> float:
    return float(np.sqrt(sum((array**2).sum() for array in gradient.values())))


class PlainAdam:
    """Kingma & Ba with the norm of the whole gradient clipped first; a rate of lr·(1 − t/total)."""

    def __init__(self, settings: PPOConfig, total: int) -> None:
        self.settings, self.total, self.steps = settings, total, 0
        self.first: dict[str, Any] = {}
        self.second: dict[str, Any] = {}

    def step(self, params: dict[str, np.ndarray], gradient: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        factor = min(1.0, self.settings.max_grad_norm / norm_of(gradient))
        rate = self.settings.learning_rate * (1 - self.steps / self.total)
        self.steps += 1
        new = {}
        for name, raw in gradient.items():
            g = factor * raw
            self.first[name] = 0.9 * self.first.get(name, 0.0) + 0.1 * g
            self.second[name] = 0.999 * self.second.get(name, 0.0) + 0.001 * g**2
            mean = self.first[name] / (1 - 0.9**self.steps)
            square = self.second[name] / (1 - 0.999**self.steps)
            new[name] = params[name] - rate * mean / (np.sqrt(square) + self.settings.adam_epsilon)
        return new


def make_minibatch(seed: int, state: PolicyState) -> Minibatch:
    """Sixteen samples; old log-probabilities off by up to ±0.5, so that some ratios are clipped."""
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(16, D)), rng.dirichlet(np.ones(M), 16)
    actor = jax.tree.map(lambda leaf: np.asarray(leaf, float), state.params["actor"])
    action = plain_forward(actor, x, w)[-1] + rng.normal(size=(16, A))
    mean = plain_forward(actor, x, w)[-1]
    log_p = scipy_stats.norm(mean, np.exp(actor["log_std"])).logpdf(action).sum(1)
    return Minibatch(
        observation=x,
        weight=w,
        action=action,
        log_probability=log_p + rng.uniform(-0.5, 0.5, 16),
        advantage=5 * rng.normal(size=16),
        target=10 * rng.normal(size=(16, M)),
    )


# A wide ε keeps Adam's step smooth in the gradient, so that rounding does not decide it.
PLAIN = PPOConfig(
    cells=CELLS,
    minibatch=16,
    epochs=1,
    learning_rate=0.1,
    adam_epsilon=1e-2,
    entropy_coefficient=0.01,
)


WHOLE = jnp.ones(())


@partial(jax.jit, static_argnames="part")
def plain_step(params: Any, opt_state: Any, batch: Any, left: Any, part: str) -> Any:
    """A gradient step of actor or critic: its parameters and the state of its optimiser."""
    return update_minibatch((params[part], opt_state[part]), batch, part=part, settings=PLAIN, left=left)[0]


def test_gradient_steps_equal_the_plain_version() -> None:
    """The only steps of two iterations of four, so that moments, bias correction and the decay all count."""
    state = pick(make_states(PLAIN, 4, (0,)), 0)
    params = jax.tree.map(lambda leaf: np.asarray(leaf, float), state.params)
    adams = {part: PlainAdam(PLAIN, 4) for part in params}
    learnt, opt_state = dict(state.params), dict(state.opt_state)
    for iteration in (0, 1):
        batch = make_minibatch(iteration + 1, state)
        fading = replace(PLAIN, entropy_coefficient=PLAIN.entropy_coefficient * (1 - iteration / 4))
        gradients = plain_gradients(params, batch, fading)
        # The clip must be at work on the critic and leave the actor alone for the test to see them apart.
        assert norm_of(gradients["critic"]) > PLAIN.max_grad_norm > norm_of(gradients["actor"])
        params = {part: adams[part].step(params[part], gradients[part]) for part in params}
        left = share_left(PLAIN, jnp.array(iteration), 4)
        for part in PARTS:
            learnt[part], opt_state[part] = plain_step(learnt, opt_state, batch, left, part)
    assert_trees_close(learnt, params, atol=1e-5, rtol=1e-5)


def test_reported_numbers() -> None:
    """approx_kl = E[r − 1 − log r], clip_fraction the share of |r − 1| > 0.2, entropy in closed form."""
    state = pick(make_states(PLAIN, 4, (0,)), 0)
    batch = make_minibatch(1, state)
    found = {part: LOSSES[part](state.params[part], batch, PLAIN, WHOLE) for part in PARTS}
    report = found["actor"][1] | found["critic"][1]
    params = jax.tree.map(lambda leaf: np.asarray(leaf, float), state.params)
    mean = plain_forward(params["actor"], batch.observation, batch.weight)[-1]
    log_ratio = scipy_stats.norm(mean, 1.0).logpdf(batch.action).sum(1) - batch.log_probability
    ratio = np.exp(log_ratio)
    assert 0 < np.mean(np.abs(ratio - 1) > 0.2) < 1
    np.testing.assert_allclose(report["approx_kl"], np.mean(ratio - 1 - log_ratio), rtol=1e-4)
    np.testing.assert_allclose(report["clip_fraction"], np.mean(np.abs(ratio - 1) > 0.2), rtol=1e-6)
    np.testing.assert_allclose(report["entropy"], A * 0.5 * np.log(2 * np.pi * np.e), rtol=1e-6)
    values = plain_forward(params["critic"], batch.observation, batch.weight)[-1]
    np.testing.assert_allclose(report["value_loss"], ((values - batch.target) ** 2).sum(1).mean(), rtol=1e-5)
    np.testing.assert_allclose(found["critic"][0], 0.5 * report["value_loss"], rtol=1e-6)
    np.testing.assert_allclose(found["actor"][0], report["policy_loss"] - 0.01 * report["entropy"], rtol=1e-6)


def test_huge_critic_gradient_leaves_the_actor_alone() -> None:
    """One shared clip would shrink the actor's gradient by the critic's norm; apart, its step is the same."""
    state = pick(make_states(PLAIN, 4, (0,)), 0)
    batch = make_minibatch(1, state)
    huge = batch._replace(target=batch.target * 1e6)
    mild, wild = (
        {part: plain_step(state.params, state.opt_state, samples, WHOLE, part) for part in PARTS}
        for samples in (batch, huge)
    )
    assert trees_equal(mild["actor"], wild["actor"])
    assert not trees_equal(mild["critic"][0], wild["critic"][0])
    assert not trees_equal(mild["actor"][0], state.params["actor"])


# --- the learning rate ------------------------------------------------------------------------------------


@pytest.mark.parametrize("decay", [True, False])
def test_learning_rate_falls_from_iteration_to_iteration(decay: bool) -> None:
    """Iteration i of 4 has the rate lr·(1 − i/4), however many gradient steps it takes; 0 when the run is over."""
    settings = PPOConfig(learning_rate=0.01, decay=decay)
    rates = [
        settings.learning_rate * float(share_left(settings, jnp.array(iteration), 4)) for iteration in range(5)
    ]
    np.testing.assert_allclose(rates, [0.01, 0.0075, 0.005, 0.0025, 0.0] if decay else [0.01] * 5, rtol=1e-6)


def test_an_actor_that_changes_too_fast_is_slowed_down() -> None:
    """Target 0.02: above 0.04 a third less, below 0.01 half as much again, at most as fast as it began."""
    pace, divergence = jnp.array([0.9, 0.9, 0.4, 0.9, 0.01]), jnp.array([0.05, 0.02, 0.005, 0.005, 9.0])
    np.testing.assert_allclose(adapt_pace(pace, divergence, 0.02), [0.6, 0.9, 0.6, 1.0, 0.01], rtol=1e-6)
    assert adapt_pace(pace, divergence, 0.0) is pace


def test_the_pace_is_that_of_the_actor_s_steps() -> None:
    """Adam's direction is the same, so half the pace goes half as far; the critic knows nothing of it."""
    state = pick(make_states(PLAIN, 4, (0,)), 0)
    batch = make_minibatch(1, state)

    def moved(pace: float) -> Any:
        step = partial(update_minibatch, part="actor", settings=PLAIN, left=WHOLE, pace=pace)
        (params, _), _ = jax.jit(step)((state.params["actor"], state.opt_state["actor"]), batch)
        return jax.tree.map(lambda new, old: new - old, params, state.params["actor"])

    half = jax.tree.map(lambda change: change / 2, moved(1.0))
    assert_trees_close(moved(0.5), half, atol=1e-6, rtol=1e-4)


def test_optimiser_gives_adam_s_direction_and_no_rate() -> None:
    """Under a constant gradient g both of Adam's corrected moments are g's own: every step is g/(g + ε)."""
    optimiser = make_optimiser(PPOConfig(learning_rate=0.01))
    state = optimiser.init(jnp.zeros(()))
    for _ in range(26):
        step, state = optimiser.update(jnp.array(0.1), state, jnp.zeros(()))
        np.testing.assert_allclose(step, 0.1 / (0.1 + 1e-5), rtol=1e-3)


@pytest.mark.parametrize(("minibatch", "steps"), [(4, 2 * 3), (14, 2), (64, 2)])
def test_left_over_samples_take_another_turn(minibatch: int, steps: int) -> None:
    """14 samples in minibatches of 4: 3 gradient steps per epoch; a minibatch larger than all: one."""
    settings = PPOConfig(cells=CELLS, minibatch=minibatch, epochs=2)
    state, _ = compiled(settings, 3)(make_states(settings, 3, (0,)), *random_rollout(0))
    counts = [leaf for leaf in jax.tree.leaves(state.opt_state) if leaf.dtype == np.int32]
    assert [int(count[0]) for count in counts] == [steps, steps]  # actor and critic
    assert int(state.iteration[0]) == 1


def test_run_ends_with_a_rate_of_zero() -> None:
    """The schedule is as long as the run: a fourth update of 3 changes nothing but what it counts.

    Nothing but rounding, that is: XLA computes i/I to 1 ± 6e-8, times the rate of 1e-2.
    """
    update = compiled(SMALL, 3)
    state = make_states(SMALL, 3, (0,))
    for iteration in range(3):
        before = copy(state.params["actor"])
        state, _ = update(state, *random_rollout(iteration))
        assert not trees_equal(before, state.params["actor"])
    before = copy(state.params["actor"])
    state, _ = update(state, *random_rollout(3))
    assert_trees_close(before, state.params["actor"], atol=1e-7, rtol=0)
    assert int(state.iteration[0]) == 4


def test_policies_of_one_batch_may_be_at_different_iterations() -> None:
    """The rate goes by the policy's own count: with 1 of 3 left the first step is a third of what it is with 3.

    One gradient step, Adam's first: its direction is that of the gradient whatever happened before, and the
    parameters move by rate times it.
    """
    settings = PPOConfig(cells=CELLS, minibatch=T * N, epochs=1, learning_rate=1e-2)
    states, (rollout, weights) = make_states(settings, 3, (0, 0)), random_rollout(11)
    twice = jax.tree.map(lambda array: np.repeat(array, 2, axis=1), rollout)
    before = copy(states.params["actor"])
    states = states._replace(iteration=np.array([0, 2], np.int32))
    after, _ = compiled(settings, 3)(states, twice, np.repeat(weights, 2, axis=0))
    moved = jax.tree.map(lambda new, old: np.asarray(new) - old, after.params["actor"], before)
    for name, change in moved.items():
        np.testing.assert_allclose(change[0], 3 * change[1], rtol=1e-3, atol=1e-6, err_msg=name)
        assert np.abs(change[0]).max() > 1e-3
    np.testing.assert_array_equal(after.iteration, [1, 3])


# --- units of the critic ----------------------------------------------------------------------------------


prepare = jax.jit(partial(prepare_batch, settings=SMALL))


def test_rescaling_preserves_raw_values() -> None:
    """PopArt: from mean (0, 5), std (1, 2) to mean (−300, 70), std (40, 0.1) the raw values stay."""
    state = pick(make_states(SMALL, 3, (0,)), 0)
    critic = {name: jnp.asarray(array + 0.1) for name, array in state.params["critic"].items()}
    old = Statistics(jnp.array([0.0, 5.0]), jnp.array([1.0, 4.0]), jnp.array(10.0))
    new = Statistics(jnp.array([-300.0, 70.0]), jnp.array([1600.0, 0.01]), jnp.array(20.0))
    rng = np.random.default_rng(0)
    x, w = jnp.asarray(rng.normal(size=(9, D))), jnp.asarray(rng.dirichlet(np.ones(M), 9))
    before = predict_values(critic, old, x, w)
    after = predict_values(rescale_critic(critic, old, new), new, x, w)
    assert np.ptp(before, axis=0).min() > 0.1
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)
    # Raw value = mean + std · output: with the new statistics and the old head it would be far off.
    assert np.abs(predict_values(critic, new, x, w) - before).max() > 100


def test_prepared_batch_equals_loops() -> None:
    """Row t·N + n of the batch belongs to step t of environment n, under that environment's weight."""
    state = pick(make_states(SMALL, 3, (0,)), 0)
    state = state._replace(
        observation_stats=Statistics(jnp.full(D, 3.0), jnp.full(D, 4.0), jnp.array(5.0)),
        return_stats=Statistics(jnp.array([1.0, -2.0]), jnp.array([4.0, 9.0]), jnp.array(14.0)),
    )
    rollout, weights = random_rollout(5)
    rollout, weight = of_policy(rollout, 0), weights[0]
    new_state, batch = prepare(state, rollout, weight)

    critic = jax.tree.map(lambda leaf: np.asarray(leaf, float), state.params["critic"])

    def value(observation: np.ndarray, n: int) -> np.ndarray:
        x = (observation[None] - 3.0) / 2.0
        return plain_forward(critic, x, weight[n][None])[-1][0] * [2.0, 3.0] + [1.0, -2.0]

    advantage, returns = np.zeros((T, N, M)), np.zeros((T, N, M))
    for n in range(N):
        running = np.zeros(M)
        for t in reversed(range(T)):
            bootstrap = 0.0 if rollout.terminated[t, n] else value(rollout.next_observation[t, n], n)
            delta = rollout.reward[t, n] + 0.99 * bootstrap - value(rollout.observation[t, n], n)
            over = rollout.terminated[t, n] or rollout.truncated[t, n]
            running = delta + (0.0 if over else 0.99 * 0.95) * running
            advantage[t, n] = running
            returns[t, n] = running + value(rollout.observation[t, n], n)
    for t, n in np.ndindex(T, N):
        row = t * N + n
        np.testing.assert_array_equal(batch.weight[row], weight[n])
        np.testing.assert_array_equal(batch.action[row], rollout.action[t, n])
        np.testing.assert_allclose(batch.observation[row], (rollout.observation[t, n] - 3) / 2, rtol=1e-5)
        np.testing.assert_allclose(batch.advantage[row], advantage[t, n] @ weight[n], rtol=1e-4, atol=1e-3)

    # 14 returns seen before (mean (1, −2), variance (4, 9)) and as many now: halves of both, and of the shift.
    flat = returns.reshape(-1, M)
    shift = flat.mean(0) - [1.0, -2.0]
    np.testing.assert_allclose(new_state.return_stats.mean, [1.0, -2.0] + shift / 2, rtol=1e-4)
    variance = (np.array([4.0, 9.0]) + flat.var(0)) / 2 + shift**2 / 4
    np.testing.assert_allclose(new_state.return_stats.variance, variance, rtol=1e-4)
    expected = (flat - new_state.return_stats.mean) / np.sqrt(variance)
    np.testing.assert_allclose(batch.target, expected, rtol=1e-3, atol=1e-4)


def test_learning_sees_the_probabilities_of_acting() -> None:
    """a = μ + σ·ε was drawn by numpy with density Π φ(ε)/σ; the update computes it again from a."""
    states = make_states(SMALL, 3, (0, 1))
    shape = (2, D)
    states = states._replace(
        observation_stats=Statistics(jnp.full(shape, 3.0), jnp.full(shape, 4.0), jnp.full(2, 5.0))
    )
    states.params["actor"]["log_std"] = states.params["actor"]["log_std"] - 0.5
    rollout, weights = random_rollout(6, num_policies=2)
    actors = PPO(SMALL, 3).make_actors(states)
    noise = np.random.default_rng(0).normal(size=rollout.action.shape)
    for t in range(T):
        rollout.action[t] = actors(rollout.observation[t], weights, noise[t])
    for k in range(2):
        _, batch = prepare(pick(states, k), of_policy(rollout, k), weights[k])
        expected = scipy_stats.norm.logpdf(noise[:, k]).sum(-1).reshape(-1) + 0.5 * A
        np.testing.assert_allclose(batch.log_probability, expected, rtol=1e-4, atol=1e-4)


# --- whole updates ----------------------------------------------------------------------------------------


def test_policies_side_by_side_equal_policies_alone() -> None:
    update = compiled(SMALL, 3)
    states, (rollout, weights) = make_states(SMALL, 3, (0, 1, 2)), random_rollout(7, num_policies=3)
    together, report = update(copy(states), rollout, weights)
    for k in range(3):
        alone = jax.tree.map(lambda array, k=k: array[:, k : k + 1], rollout)
        single, single_report = update(make_states(SMALL, 3, (k,)), alone, weights[k : k + 1])
        assert_trees_close(pick(together, k), pick(single, 0), rtol=1e-5, atol=1e-5)
        assert_trees_close(pick(report, k), pick(single_report, 0), rtol=1e-4, atol=1e-5)
    assert not trees_equal(pick(together.params, 0), pick(together.params, 1))


def test_first_epoch_s_ratio_is_one() -> None:
    """With a rate of 0, as after the end of the run, every epoch is the first: r = 1, so KL 0, nothing clipped.

    The policy loss is then −mean of the standardised advantages, which is 0 in each minibatch.
    """
    states = make_states(SMALL, 3, (0,))
    stats = Statistics(np.full((1, D), 3.0, np.float32), np.full((1, D), 4.0, np.float32), np.ones(1, np.float32))
    states = states._replace(observation_stats=stats, iteration=np.full(1, 3, np.int32))
    _, report = compiled(SMALL, 3)(states, *random_rollout(8))
    np.testing.assert_allclose(report["approx_kl"], 0.0, atol=1e-6)
    np.testing.assert_allclose(report["policy_loss"], 0.0, atol=1e-5)
    assert float(report["clip_fraction"][0]) == 0.0


def test_shuffles_belong_to_the_key() -> None:
    update, rollout = compiled(SMALL, 3), random_rollout(9)
    states = make_states(SMALL, 3, (0,))
    first, _ = update(copy(states), *rollout)
    again, _ = update(copy(states), *rollout)
    other, _ = update(copy(states)._replace(key=states.key + 1), *rollout)
    assert trees_equal(first, again)
    assert not trees_equal(first.params, other.params)
    assert not np.array_equal(first.key, states.key)  # the next iteration shuffles anew


def test_observation_statistics_change_after_the_update_only() -> None:
    """The first rollout is learnt from as it was seen, unnormalised; then the statistics are its own."""
    update, (rollout, weights) = compiled(SMALL, 3), random_rollout(10)
    states = make_states(SMALL, 3, (0,))
    new, _ = update(copy(states), rollout, weights)
    seen = rollout.observation[:, 0].reshape(-1, D)
    np.testing.assert_allclose(new.observation_stats.mean[0], seen.mean(0), rtol=1e-5)
    np.testing.assert_allclose(new.observation_stats.variance[0], seen.var(0), rtol=1e-4)
    assert float(new.observation_stats.count[0]) == T * N
    # What is learnt depends on the statistics of acting alone. With as many samples (T·N) behind the mean of 0 as
    # the rollout has, the new mean is half as large; the parameters are the same bits.
    heavy = copy(states.observation_stats)._replace(count=np.full(1, T * N, np.float32))
    other, _ = update(copy(states)._replace(observation_stats=heavy), rollout, weights)
    np.testing.assert_allclose(other.observation_stats.mean[0], seen.mean(0) / 2, rtol=1e-5)
    assert trees_equal(new.params, other.params)


# --- bandits ----------------------------------------------------------------------------------------------


def bandit_spec(action: ActionSpec) -> EnvSpec:
    return EnvSpec("bandit", ("first", "second"), 1, action, 1, (0.0, 0.0))


def play_bandit(settings: PPOConfig, action: ActionSpec, weights: np.ndarray, reward_of: Any) -> PolicyState:
    """60 iterations of 200 one-step episodes under weights [N, m]; the policy that comes out (K = 1)."""
    ppo, state = PPO(settings, 60), make_states(settings, 60, (0,), bandit_spec(action))
    rng, envs = np.random.default_rng(0), len(weights)
    steps = 200 // envs
    nothing = np.zeros((steps, 1, envs, 1), np.float32)
    ended = np.ones((steps, 1, envs), bool)
    tiled = np.broadcast_to(weights.astype(np.float32), (steps, envs, 2))
    draw = rng.gumbel if action.discrete else rng.standard_normal
    for _ in range(60):
        actors = ppo.make_actors(state)
        actor = Actors(pick(actors.params, 0), pick(actors.observation_stats, 0))
        noise = draw(size=(steps, envs, action.size)).astype(np.float32)
        chosen = greedy_action(actor(nothing[:, 0], tiled, noise), action.discrete)
        reward = reward_of(chosen).astype(np.float32)[:, None]
        rollout = Transitions(nothing, nothing, chosen[:, None], reward, ended, ~ended)
        state, _ = ppo.update(state, rollout, weights[None].astype(np.float32))
    return state


def outputs_of(state: PolicyState, weights: np.ndarray) -> np.ndarray:
    inputs = np.zeros((1, len(weights), 1), np.float32)
    actors = PPO(SMALL, 3).make_actors(state)
    return actors(inputs, weights[None].astype(np.float32))[0]


def test_gaussian_bandit_finds_the_optimum_of_every_weight() -> None:
    """r_j = −(a − c_j)² with c = (1, −1): w·r = −(a − (w_1 − w_2))² + const., so a*(w) = w_1 − w_2."""
    settings = PPOConfig(cells=16, minibatch=50, epochs=10, learning_rate=3e-3, log_std=-0.5)
    first = np.array([0.0, 0.25, 0.5, 1.0])
    weights = np.column_stack([first, 1 - first])
    action = ActionSpec(False, 1, (-np.inf,), (np.inf,))
    state = play_bandit(settings, action, weights, lambda a: -((a - np.array([1.0, -1.0])) ** 2))
    np.testing.assert_allclose(outputs_of(state, weights)[:, 0], 2 * first - 1, atol=0.15)
    between = np.array([[0.75, 0.25]])  # never trained on: a* = 0.5
    np.testing.assert_allclose(outputs_of(state, between), [[0.5]], atol=0.25)
    # The critic, in raw units: E[r_j] = −(a* − c_j)² − σ², per objective: for w = (0, 1), a* = −1: −4 and 0.
    variance = float(np.exp(2 * state.params["actor"]["log_std"][0, 0]))
    assert variance < np.exp(-1.0)  # noise costs reward, so it shrank
    one = pick(state, 0)
    values = predict_values(
        one.params["critic"], one.return_stats, jnp.zeros((4, 1)), jnp.asarray(weights, jnp.float32)
    )
    expected = -((2 * first[:, None] - 1 - np.array([1.0, -1.0])) ** 2) - variance
    np.testing.assert_allclose(values, expected, atol=0.4)


def test_discrete_bandit_prefers_what_its_weight_pays() -> None:
    """Choice j pays 1 in objective j: with w = (0.9, 0.1) the first is worth 0.9, the second 0.1."""
    settings = PPOConfig(cells=16, minibatch=50, epochs=10, learning_rate=3e-3, normalise_observations=False)
    weights = np.array([[0.9, 0.1], [0.1, 0.9]])
    state = play_bandit(settings, ActionSpec(True, 2), weights, lambda a: np.eye(2)[a])
    logits = outputs_of(state, weights)
    share = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert share[0, 0] > 0.95
    assert share[1, 1] > 0.95
    # Statistics that are switched off stay what they were: no samples.
    assert float(state.observation_stats.count[0]) == 0.0
