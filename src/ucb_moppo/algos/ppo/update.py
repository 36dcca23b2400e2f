"""One PPO update: what a policy learns from one rollout. Written for one policy, vmapped over K at the end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
from ucb_moppo.cores import at_most
from ucb_moppo.policy.networks import PAPER_NETWORK, Network, Params, apply_mlp, init_params
from ucb_moppo.policy.normaliser import (
    Statistics,
    denormalise,
    init_statistics,
    normalise,
    update_statistics,
)
from ucb_moppo.spec import EnvSpec

PARTS = ("actor", "critic")
PACE_STEP, MIN_PACE = 1.5, 0.01


class PolicyState(NamedTuple):
    """Everything that training changes in a policy. A pytree; K policies have a leading axis K."""

    params: dict[str, Params]
    opt_state: Any
    observation_stats: Statistics
    return_stats: Statistics
    iteration: Any
    """Updates so far, which the learning rate goes by."""
    pace: Any
    """In (0, 1]: what the actor's learning rate is multiplied by, so that it does not change too fast."""
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
    """Adam's direction, after a clip of the gradient's norm; how far to go is for the learning rate to say.

    All parameters are one vector to it: a step of many small arrays takes longer.
    """
    return optax.flatten(
        optax.chain(
            optax.clip_by_global_norm(settings.max_grad_norm), optax.scale_by_adam(eps=settings.adam_epsilon)
        )
    )


def share_left(settings: PPOConfig, iteration: Array, num_iterations: int) -> Array:
    """What learning rate and entropy bonus are of what they began with: both fall linearly to zero."""
    return jnp.maximum(1 - iteration / num_iterations, 0.0) if settings.decay else jnp.ones(())


def adapt_pace(pace: Array, divergence: Array, target: float) -> Array:
    """Slower after an update whose KL divergence is more than twice the target, faster again below half of it.

    A learning rate that is right for one problem, width and noise is too high for others: with little noise a small
    step changes much, and clipping alone does not hold it. ``target`` 0: no limit.
    """
    if not target:
        return pace
    slower = divergence > 2 * target
    faster = divergence < target / 2
    changed = jnp.where(slower, pace / PACE_STEP, jnp.where(faster, pace * PACE_STEP, pace))
    return jnp.clip(changed, MIN_PACE, 1.0)


def init_policy(spec: EnvSpec, settings: PPOConfig, optimiser: Any, seed: int, policy: int) -> PolicyState:
    """A fresh policy. Its random streams belong to (seed, policy index) and to nothing else."""
    params = init_params(
        np.random.default_rng((seed, policy)),
        observation_size=spec.input_size,
        num_objectives=spec.num_objectives,
        action_size=spec.action.size,
        discrete=spec.action.discrete,
        cells=settings.cells,
        log_std=settings.log_std,
        choices=spec.action.choices,
        layers=settings.network.layers,
        num_values=spec.num_values,
    )
    return PolicyState(
        params=params,
        opt_state={part: optimiser.init(params[part]) for part in PARTS},
        observation_stats=init_statistics(spec.input_size),
        return_stats=init_statistics(spec.num_values),
        iteration=np.zeros((), np.int32),
        pace=np.ones((), np.float32),
        key=jax.random.key_data(jax.random.fold_in(jax.random.key(seed), policy)),
    )


def predict_values(
    critic: Params, stats: Statistics, observation: Array, weight: Array, network: Network = PAPER_NETWORK
) -> Array:
    """The critic's value of every objective in raw units: [B, d], [B, m] -> [B, m]."""
    return denormalise(stats, apply_mlp(critic, observation, weight, network))


def rescale_critic(critic: Params, old: Statistics, new: Statistics) -> Params:
    """Change the head so that raw values stay what they were while the return statistics move (PopArt)."""
    scale = old.std / new.std
    bias = critic["head.bias"] * scale + (old.mean - new.mean) / new.std
    return {**critic, "head.kernel": critic["head.kernel"] * scale, "head.bias": bias}


def actor_loss(actor: Params, batch: Minibatch, settings: PPOConfig, left: Array) -> tuple[Array, dict[str, Array]]:
    """PPO's loss of the actor, less the entropy bonus, and what to report."""
    output = apply_mlp(actor, batch.observation, batch.weight, settings.network)
    log_ratio = log_probability(actor, output, batch.action) - batch.log_probability
    loss = clipped_policy_loss(log_ratio, standardise(batch.advantage), settings.clip)
    mean_entropy = entropy(actor, output).mean()
    report = {
        "policy_loss": loss,
        "entropy": mean_entropy,
        "approx_kl": jnp.mean(jnp.exp(log_ratio) - 1 - log_ratio),
        "clip_fraction": jnp.mean(jnp.abs(jnp.exp(log_ratio) - 1) > settings.clip),
    }
    return loss - left * settings.entropy_coefficient * mean_entropy, report


def critic_loss(
    critic: Params, batch: Minibatch, settings: PPOConfig, left: Array
) -> tuple[Array, dict[str, Array]]:
    """The weighted loss of the critic's values, and what to report."""
    values = apply_mlp(critic, batch.observation, batch.weight, settings.network)
    loss = value_loss(values, batch.target)
    return settings.value_coefficient * loss, {"value_loss": loss}


LOSSES = {"actor": actor_loss, "critic": critic_loss}
"""What each part of a policy learns by. They share no parameter, so each can learn beside the other."""


def update_minibatch(
    carry: tuple[Params, Any],
    batch: Minibatch,
    *,
    part: str,
    settings: PPOConfig,
    left: Array,
    pace: Array | float = 1.0,
) -> tuple[tuple[Params, Any], dict[str, Array]]:
    """One gradient step of a part. Each has a clip of its own, so neither drowns the other."""
    params, opt_state = carry
    gradients, report = jax.grad(LOSSES[part], has_aux=True)(params, batch, settings, left)
    steps, opt_state = make_optimiser(settings).update(gradients, opt_state, params)
    rate = settings.learning_rate * left * pace
    return (jax.tree.map(lambda value, step: value - rate * step, params, steps), opt_state), report


def prepare_batch(
    state: PolicyState, rollout: Transitions, weight: Array, settings: PPOConfig, direction: Array | None = None
) -> tuple[PolicyState, Minibatch]:
    """Advantages and targets of a rollout, flattened to T·N samples; ``weight`` [N, m] held for all of it.

    Where a ``direction`` [T, N, …] scalarises the advantages, the weight [T, N, m] conditions the policy alone.
    """
    steps, envs = rollout.terminated.shape
    weights = jnp.broadcast_to(weight, (steps, envs, weight.shape[-1])).reshape(steps * envs, -1)
    flat = partial(jnp.reshape, shape=(steps * envs, -1))
    observation = normalise(state.observation_stats, flat(rollout.observation))
    following = normalise(state.observation_stats, flat(rollout.next_observation))
    value = partial(predict_values, state.params["critic"], state.return_stats, network=settings.network)
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
    log_p = log_probability(actor, apply_mlp(actor, observation, weights, settings.network), action)
    scalar = scalarise(flat(advantages), weights if direction is None else flat(direction))
    return state, Minibatch(observation, weights, action, log_p, scalar, targets)


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


def update_part(
    params: Params,
    opt_state: Any,
    batch: Minibatch,
    left: Array,
    key: Array,
    pace: Array,
    *,
    part: str,
    settings: PPOConfig,
) -> tuple[Params, Any, dict[str, Array]]:
    """All epochs of minibatches for actor or critic; the reports' means. Both see the same samples in a step."""
    num_samples = batch.advantage.shape[0]
    size = min(settings.minibatch, num_samples)
    step = partial(update_minibatch, part=part, settings=settings, left=left, pace=pace)

    def epoch(carry: Any, epoch_key: Array) -> tuple[Any, dict[str, Array]]:
        order = shuffle(epoch_key, num_samples)[: num_samples // size * size]
        return jax.lax.scan(step, carry, jax.tree.map(lambda a: a[order].reshape(-1, size, *a.shape[1:]), batch))

    keys = jax.random.split(jax.random.wrap_key_data(key), settings.epochs)
    (params, opt_state), reports = jax.lax.scan(epoch, (params, opt_state), keys)
    return params, opt_state, jax.tree.map(jnp.mean, reports)


def keep_last(count: int, old: Statistics, new: Statistics) -> Statistics:
    """``new`` statistics but for the last ``count`` features [d], which stay as they were."""
    kept = jnp.arange(new.mean.shape[-1]) >= new.mean.shape[-1] - count
    return new._replace(
        mean=jnp.where(kept, old.mean, new.mean), variance=jnp.where(kept, old.variance, new.variance)
    )


def prepare_update(
    state: PolicyState,
    rollout: Transitions,
    weight: Array,
    direction: Array | None = None,
    *,
    settings: PPOConfig,
    num_iterations: int,
    num_scaled: int = 0,
) -> tuple[PolicyState, Minibatch, Array, Array]:
    """The next state but for its two parts, the samples that both learn from, `share_left` and a key to shuffle."""
    new, batch = prepare_batch(state, rollout, weight, settings, direction)
    key, shuffle_key = jax.random.split(jax.random.wrap_key_data(state.key))
    observations = rollout.observation.reshape(-1, rollout.observation.shape[-1])
    # For the next rollout only, so that the ratio of the first epoch is 1: acting and learning saw the same inputs.
    following = update_statistics(state.observation_stats, observations)
    if num_scaled:
        following = keep_last(num_scaled, state.observation_stats, following)
    new = new._replace(
        observation_stats=following if settings.normalise_observations else state.observation_stats,
        iteration=state.iteration + 1,
        key=jax.random.key_data(key),
    )
    return new, batch, share_left(settings, state.iteration, num_iterations), jax.random.key_data(shuffle_key)


UpdateFunction = Callable[..., tuple[PolicyState, dict[str, Array]]]


@lru_cache(maxsize=4)
def make_update(settings: PPOConfig, num_iterations: int, num_scaled: int = 0) -> UpdateFunction:
    """The compiled update of K policies: states [K, …], rollouts [T, K, N, …], weights [K, N, m].

    With directions [T, K, N, …] the weights are of every step, too: [T, K, N, m].

    Actor and critic learn side by side, in a thread each: one policy has nothing else to divide between cores, and
    JAX does not run two programs at a time by itself.
    """
    prepare = partial(prepare_update, settings=settings, num_iterations=num_iterations, num_scaled=num_scaled)
    prepare_all = jax.jit(jax.vmap(prepare, in_axes=(0, 1, 0)), donate_argnums=0)
    prepare_directed = jax.jit(jax.vmap(prepare, in_axes=(0, 1, 1, 1)), donate_argnums=0)
    update_all = {
        part: jax.jit(jax.vmap(partial(update_part, part=part, settings=settings)), donate_argnums=(0, 1))
        for part in PARTS
    }
    threads = ThreadPoolExecutor(at_most(len(PARTS)), thread_name_prefix="update")

    def update(
        state: PolicyState, rollout: Transitions, weight: Any, direction: Any = None
    ) -> tuple[PolicyState, dict[str, Array]]:
        if direction is None:
            prepared, *material = prepare_all(state, rollout, weight)
        else:
            prepared, *material = prepare_directed(state, rollout, weight, direction)

        def learn(part: str) -> tuple[Params, Any, dict[str, Array]]:
            own = prepared.params[part], prepared.opt_state[part]
            pace = prepared.pace if part == "actor" else jnp.ones_like(prepared.pace)
            return jax.block_until_ready(update_all[part](*own, *material, pace))

        learnt = dict(zip(PARTS, threads.map(learn, PARTS), strict=True))
        state = prepared._replace(
            params={part: params for part, (params, _, _) in learnt.items()},
            opt_state={part: opt_state for part, (_, opt_state, _) in learnt.items()},
            pace=adapt_pace(prepared.pace, learnt["actor"][2]["approx_kl"], settings.target_kl),
        )
        return state, {name: value for _, _, report in learnt.values() for name, value in report.items()}

    return update
