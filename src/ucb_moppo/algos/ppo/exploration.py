"""The noise PPO explores with: drawn for a whole rollout, from a policy's own key."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

# Separates the noise of a rollout from the shuffles: the update splits the key in two, and folding in 0 or 1
# would give just those two.
NOISE, PARTING = 2, 3


def draw_noise(key_data: Array, *, num_steps: int, num_envs: int, action_size: int, discrete: bool) -> Array:
    """The exploration noise of one policy's rollout, [T, N, a]: Gumbel for choices, normal otherwise."""
    key = jax.random.fold_in(jax.random.wrap_key_data(key_data), NOISE)
    draw = jax.random.gumbel if discrete else jax.random.normal
    return draw(key, (num_steps, num_envs, action_size), jnp.float32)


def derive_keys(key_data: Array, group: int) -> Array:
    """Keys [K, …] of policies that are copies, ``group`` in a row of one key each: all different, and new."""

    def derive(data: Array, child: Array) -> Array:
        key = jax.random.fold_in(jax.random.wrap_key_data(data), PARTING)
        return jax.random.key_data(jax.random.fold_in(key, child))

    return jax.vmap(derive)(key_data, jnp.arange(len(key_data)) % group)


@lru_cache(maxsize=4)
def make_draw(num_steps: int, num_envs: int, action_size: int, discrete: bool) -> Callable[[Any], Array]:
    """The jitted noise [T, K, N, a] of K rollouts from the policies' keys [K, …]."""
    one = partial(draw_noise, num_steps=num_steps, num_envs=num_envs, action_size=action_size, discrete=discrete)
    return jax.jit(jax.vmap(one, out_axes=1))
