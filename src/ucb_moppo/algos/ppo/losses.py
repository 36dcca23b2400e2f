"""The mathematics of PPO for one policy with a vector reward. Pure functions; all objectives are maximised."""

from __future__ import annotations

from functools import reduce
from operator import add

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ucb_moppo.policy.networks import Params, split_logits

LOG_2PI = float(np.float32(np.log(2 * np.pi)))
"""By numpy: JAX would compile this, and start its devices, wherever this module is imported."""


def scalarise(vectors: Array, weight: Array) -> Array:
    """w·v over the last axis: [..., m], [..., m] -> [...]."""
    return jnp.sum(vectors * weight, axis=-1)


def generalised_advantages(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    done: Array,
    gamma: float,
    lam: float,
) -> Array:
    """GAE(λ) of every objective: rewards, values, next_values [T, N, m]; terminated, done [T, N] -> [T, N, m].

    ``next_values`` are the values of the observation each step led to, the final one where an episode ended.
    Only termination makes the future worthless; a time limit (done but not terminated) bootstraps from it.
    ``done`` stops the sum, because the next row belongs to another episode.
    """
    alive = 1.0 - terminated[..., None]
    deltas = rewards + gamma * alive * next_values - values
    decay = gamma * lam * (1.0 - done[..., None])

    def backward(advantage: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
        delta, keep = row
        advantage = delta + keep * advantage
        return advantage, advantage

    _, advantages = jax.lax.scan(backward, jnp.zeros_like(deltas[0]), (deltas, decay), reverse=True)
    return advantages


def log_probability(actor: Params, output: Array, action: Array) -> Array:
    """log π(a|s, w) from the actor's output [B, a]; actions [B, a], or [B] if Discrete -> [B].

    Heads choose independently, so their log-probabilities add up.
    """
    if "log_std" in actor:
        log_std = actor["log_std"]
        scaled = (action - output) * jnp.exp(-log_std)
        return -0.5 * jnp.sum(scaled**2 + 2 * log_std + LOG_2PI, axis=-1)
    chosen = action.reshape(len(action), -1).astype(jnp.int32)
    log_ps = [jax.nn.log_softmax(logits) for logits in split_logits(actor, output)]
    return reduce(
        add, [jnp.take_along_axis(log_p, chosen[:, i : i + 1], axis=-1)[:, 0] for i, log_p in enumerate(log_ps)]
    )


def entropy(actor: Params, output: Array) -> Array:
    """Entropy of the action distribution, [B, a] -> [B]; that of independent heads adds up."""
    if "log_std" in actor:
        return jnp.broadcast_to(jnp.sum(actor["log_std"] + 0.5 * (1 + LOG_2PI)), output.shape[:1])
    log_ps = [jax.nn.log_softmax(logits) for logits in split_logits(actor, output)]
    return reduce(add, [-jnp.sum(jnp.exp(log_p) * log_p, axis=-1) for log_p in log_ps])


def clipped_policy_loss(log_ratio: Array, advantages: Array, clip: float) -> Array:
    """PPO's −E[min(r A, clip(r, 1−ε, 1+ε) A)]: [B], [B] -> []."""
    ratio = jnp.exp(log_ratio)
    return -jnp.mean(jnp.minimum(ratio * advantages, jnp.clip(ratio, 1 - clip, 1 + clip) * advantages))


def value_loss(values: Array, targets: Array) -> Array:
    """Mean squared error of every objective's value, summed over objectives: [B, m], [B, m] -> []."""
    return jnp.mean(jnp.sum((values - targets) ** 2, axis=-1))


def standardise(advantages: Array) -> Array:
    """Zero mean and unit standard deviation over a minibatch, [B] -> [B]."""
    return (advantages - advantages.mean()) / (advantages.std() + 1e-8)
