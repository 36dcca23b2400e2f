"""One PPO update: what a policy learns from one rollout. Written for one policy, vmapped over K at the end."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from ucb_moppo.algos.base import Transitions
from ucb_moppo.algos.ppo.losses import (
    clipped_policy_loss,
    entropy,
    generalised_advantages,
    log_probability,
    scalarise,
    standardise,
    value_loss,
)
from ucb_moppo.algos.ppo.ppo_settings import PPOConfig
from ucb_moppo.policy.networks import Params, apply_mlp, init_params
from ucb_moppo.policy.normaliser import (
    Statistics,
    denormalise,
    init_statistics,
    normalise,
    update_statistics,
)
from ucb_moppo.spec import EnvSpec

PARTS = ("actor", "critic")


class PolicyState(NamedTuple):
    """Everything that training changes in a policy. A pytree; K policies have a leading axis K."""

    params: dict[str, Params]
    opt_state: Any
    observation_stats: Statistics
    return_stats: Statistics
    iteration: Any
    """Updates so far, which the learning rate goes by."""
    key: Any


class Minibatch(NamedTuple):
    """Flattened samples that the losses see."""

    observation: Array  # [B, d] normalised
    weight: Array  # [B, m]
    action: Array  # [B, a] or [B]
    log_probability: Array  # [B] when the action was taken
    advantage: Array  # [B] scalarised
    target: Array  # [B, m] normalised return


def make_optimiser(settings: PPOConfig) -> optax.GradientTransformation:
    """Adam's direction, after a clip of the gradient's norm; how far to go is for the learning rate to say."""
    return optax.chain(
        optax.clip_by_global_norm(settings.max_grad_norm), optax.scale_by_adam(eps=settings.adam_epsilon)
    )


def share_left(settings: PPOConfig, iteration: Array, num_iterations: int) -> Array:
    """What learning rate and entropy bonus are of what they began with: both fall linearly to zero."""
    return 1 - iteration / num_iterations if settings.decay else jnp.ones(())


def init_policy(spec: EnvSpec, settings: PPOConfig, optimiser: Any, seed: int, policy: int) -> PolicyState:
    """A fresh policy. Its random streams belong to (seed, policy index) and to nothing else."""
    params = init_params(
        np.random.default_rng((seed, policy)),
        observation_size=spec.observation_size,
        num_objectives=spec.num_objectives,
        action_size=spec.action.size,
        discrete=spec.action.discrete,
        cells=settings.cells,
        log_std=settings.log_std,
        choices=spec.action.choices,
    )
    return PolicyState(
        params=params,
        opt_state={part: optimiser.init(params[part]) for part in PARTS},
        observation_stats=init_statistics(spec.observation_size),
        return_stats=init_statistics(spec.num_objectives),
        iteration=np.zeros((), np.int32),
        key=jax.random.key_data(jax.random.fold_in(jax.random.key(seed), policy)),
    )


def predict_values(critic: Params, stats: Statistics, observation: Array, weight: Array) -> Array:
    """The critic's value of every objective in raw units: [B, d], [B, m] -> [B, m]."""
    return denormalise(stats, apply_mlp(critic, observation, weight))


def rescale_critic(critic: Params, old: Statistics, new: Statistics) -> Params:
    """Change the head so that raw values stay what they were while the return statistics move (PopArt)."""
    scale = old.std / new.std
    bias = critic["head.bias"] * scale + (old.mean - new.mean) / new.std
    return {**critic, "head.kernel": critic["head.kernel"] * scale, "head.bias": bias}


def policy_losses(
    params: dict[str, Params], batch: Minibatch, settings: PPOConfig, left: Array
) -> tuple[Array, dict[str, Array]]:
    """Total loss and what to report. Actor and critic share no parameter, so one sum serves both."""
    output = apply_mlp(params["actor"], batch.observation, batch.weight)
    log_ratio = log_probability(params["actor"], output, batch.action) - batch.log_probability
    policy = clipped_policy_loss(log_ratio, standardise(batch.advantage), settings.clip)
    value = value_loss(apply_mlp(params["critic"], batch.observation, batch.weight), batch.target)
    mean_entropy = entropy(params["actor"], output).mean()
    report = {
        "policy_loss": policy,
        "value_loss": value,
        "entropy": mean_entropy,
        "approx_kl": jnp.mean(jnp.exp(log_ratio) - 1 - log_ratio),
        "clip_fraction": jnp.mean(jnp.abs(jnp.exp(log_ratio) - 1) > settings.clip),
    }
    bonus = left * settings.entropy_coefficient * mean_entropy
    return policy + settings.value_coefficient * value - bonus, report


def update_minibatch(
    carry: tuple[dict[str, Params], Any], batch: Minibatch, settings: PPOConfig, optimiser: Any, left: Array
) -> tuple[tuple[dict[str, Params], Any], dict[str, Array]]:
    """One gradient step. Actor and critic are clipped and stepped apart, so neither drowns the other."""
    params, opt_state = carry
    gradients, report = jax.grad(policy_losses, has_aux=True)(params, batch, settings, left)
    rate = settings.learning_rate * left
    new_params, new_opt_state = {}, {}
    for part in PARTS:
        steps, new_opt_state[part] = optimiser.update(gradients[part], opt_state[part], params[part])
        new_params[part] = jax.tree.map(lambda value, step: value - rate * step, params[part], steps)
    return (new_params, new_opt_state), report


def prepare_batch(
    state: PolicyState, rollout: Transitions, weight: Array, settings: PPOConfig
) -> tuple[PolicyState, Minibatch]:
    """Advantages and targets of a rollout, flattened to T·N samples; ``weight`` [N, m] held for all of it."""
    steps, envs = rollout.terminated.shape
    weights = jnp.broadcast_to(weight, (steps, envs, weight.shape[-1])).reshape(steps * envs, -1)
    flat = partial(jnp.reshape, shape=(steps * envs, -1))
    observation = normalise(state.observation_stats, flat(rollout.observation))
    following = normalise(state.observation_stats, flat(rollout.next_observation))
    value = partial(predict_values, state.params["critic"], state.return_stats)
    values, next_values = value(observation, weights), value(following, weights)
    terminated = rollout.terminated.astype(jnp.float32)
    done = jnp.maximum(terminated, rollout.truncated.astype(jnp.float32))
    by_step = partial(jnp.reshape, shape=rollout.reward.shape)
    advantages = generalised_advantages(
        rollout.reward,
        by_step(values),
        by_step(next_values),
        terminated,
        done,
        settings.gamma,
        settings.gae_lambda,
    )
    returns = flat(advantages) + values
    state, targets = normalise_returns(state, returns)
    action = rollout.action.reshape(steps * envs, *rollout.action.shape[2:])
    actor = state.params["actor"]
    log_p = log_probability(actor, apply_mlp(actor, observation, weights), action)
    return state, Minibatch(observation, weights, action, log_p, scalarise(flat(advantages), weights), targets)


def normalise_returns(state: PolicyState, returns: Array) -> tuple[PolicyState, Array]:
    """Take new returns [B, m] into the statistics and express them, and the critic, in the new units."""
    stats = update_statistics(state.return_stats, returns)
    critic = rescale_critic(state.params["critic"], state.return_stats, stats)
    state = state._replace(params={**state.params, "critic": critic}, return_stats=stats)
    return state, (returns - stats.mean) / stats.std


def shuffle(key: Array, num_samples: int) -> Array:
    """The samples' numbers in random order, [n]: each in the low bits of a random number, and these sorted.

    ``jax.random.permutation`` sorts pairs, twice: it takes six times as long and was a fifth of the whole update.
    Numbers whose high bits agree stay in order; few do, and which samples they are is random.
    """
    low = np.uint32((1 << (num_samples - 1).bit_length()) - 1)
    draws = jax.random.bits(key, (num_samples,), jnp.uint32)
    return (jnp.sort(draws & ~low | jnp.arange(num_samples, dtype=jnp.uint32)) & low).astype(jnp.int32)


def update_policy(
    state: PolicyState, rollout: Transitions, weight: Array, *, settings: PPOConfig, num_iterations: int
) -> tuple[PolicyState, dict[str, Array]]:
    """All epochs of minibatches on one rollout; returns the new state and the reports' means."""
    state, batch = prepare_batch(state, rollout, weight, settings)
    optimiser, left = make_optimiser(settings), share_left(settings, state.iteration, num_iterations)
    num_samples = batch.advantage.shape[0]
    size = min(settings.minibatch, num_samples)
    key, shuffle_key = jax.random.split(jax.random.wrap_key_data(state.key))

    def epoch(carry: Any, epoch_key: Array) -> tuple[Any, dict[str, Array]]:
        order = shuffle(epoch_key, num_samples)[: num_samples // size * size]
        shuffled = jax.tree.map(lambda leaf: leaf[order].reshape(-1, size, *leaf.shape[1:]), batch)
        step = partial(update_minibatch, settings=settings, optimiser=optimiser, left=left)
        return jax.lax.scan(step, carry, shuffled)

    carry, reports = jax.lax.scan(
        epoch, (state.params, state.opt_state), jax.random.split(shuffle_key, settings.epochs)
    )
    observations = rollout.observation.reshape(num_samples, -1)
    state = state._replace(
        params=carry[0],
        opt_state=carry[1],
        # After the update, so that the ratio of the first epoch is 1: acting and learning saw the same inputs.
        observation_stats=update_statistics(state.observation_stats, observations)
        if settings.normalise_observations
        else state.observation_stats,
        iteration=state.iteration + 1,
        key=jax.random.key_data(key),
    )
    return state, jax.tree.map(jnp.mean, reports)


UpdateFunction = Callable[[PolicyState, Transitions, Any], tuple[PolicyState, dict[str, Array]]]


@lru_cache(maxsize=4)
def make_update(settings: PPOConfig, num_iterations: int) -> UpdateFunction:
    """The jitted update of K policies: states [K, …], rollouts [T, K, N, …], weights [K, N, m]; compiled once."""
    one = partial(update_policy, settings=settings, num_iterations=num_iterations)
    return jax.jit(jax.vmap(one, in_axes=(0, 1, 0)), donate_argnums=0)
