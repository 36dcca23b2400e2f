"""The losses of MO-TD3-HER (PD-MORL's Algorithm 2): values are vectors, and their direction is learnt too.

Pure functions of JAX arrays over a batch B. w is a preference, I(w) the direction in which its solution lies (see
``interpolation``), Q(s, a, w) the critics' value per objective.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax
from jax import Array

MIN_COSINE, MAX_COSINE = 0.0, 0.9999
"""Cosines are clipped: at 1 the arc cosine has no gradient. The authors have no gradient beyond 90° either."""
MIN_NORM = 1e-8


def angle_degrees(direction: Array, value: Array) -> Array:
    """The angle between rows of [B, m] and [..., B, m], in degrees: [..., B], from 0.81° (parallel) to 90°."""
    cosine = jnp.sum(direction * value, axis=-1) / (_norm(direction) * _norm(value))
    return jnp.rad2deg(jnp.arccos(jnp.clip(cosine, MIN_COSINE, MAX_COSINE)))


def _norm(vectors: Array) -> Array:
    # The floor goes under the root, whose gradient at 0 is infinite.
    return jnp.sqrt(jnp.maximum(jnp.sum(vectors**2, axis=-1), MIN_NORM**2))


def smooth_l1(prediction: Array, target: Array) -> Array:
    """Mean of d²/2 where |d| < 1 and |d| − ½ elsewhere: []."""
    return jnp.mean(optax.huber_loss(prediction, target))


def smooth_actions(action: Array, noise: Array, scale: float, limit: float) -> Array:
    """TD3's target smoothing: actions [B, a] with standard normal noise, scaled and clipped, kept in [-1, 1]."""
    return jnp.clip(action + jnp.clip(scale * noise, -limit, limit), -1.0, 1.0)


def choose_smaller(values: Array, weight: Array) -> Array:
    """Of the twins' values [2, B, m] the whole vector of the one whose w·Q is smaller: [B, m]."""
    utility = jnp.sum(weight * values, axis=-1)
    return jnp.where((utility[0] <= utility[1])[:, None], values[0], values[1])


def td_target(reward: Array, terminated: Array, following: Array, gamma: float) -> Array:
    """r + γ Q' per objective, [B, m]; only a terminated [B] episode has no future, a truncated one goes on."""
    return reward + gamma * (1.0 - terminated)[:, None] * following


def critic_loss(values: Array, target: Array, direction: Array, angle_weight: float) -> Array:
    """Σ over the twins' [2, B, m] of the smooth L1 distance to the target and the angle to I(w): []."""
    distances = jax.vmap(smooth_l1, in_axes=(0, None))(values, target)
    angles = jnp.mean(angle_degrees(direction, values), axis=-1)
    return jnp.sum(distances + angle_weight * angles)


def actor_loss(value: Array, weight: Array, direction: Array, angle_weight: float) -> Array:
    """−w·Q plus the weighted angle between I(w) and Q [B, m], on average: []."""
    utility = jnp.sum(weight * value, axis=-1)
    return jnp.mean(angle_weight * angle_degrees(direction, value) - utility)
