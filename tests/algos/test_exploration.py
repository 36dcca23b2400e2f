"""Exploration noise: its distribution, and the key it is drawn from."""

from __future__ import annotations

import jax
import numpy as np

from ucb_moppo.algos.ppo.exploration import NOISE, PARTING, derive_keys, draw_noise


def test_noise_has_the_right_distribution() -> None:
    """4,000 draws: the mean is within 4/sqrt(4000) = 0.063 of 0 (normal) or 0.081 of Euler's γ = 0.5772 (Gumbel,
    std π/√6 = 1.28)."""
    shape, key = {"num_steps": 500, "num_envs": 4, "action_size": 2}, jax.random.key_data(jax.random.key(0))
    normal = np.asarray(draw_noise(key, discrete=False, **shape))
    gumbel = np.asarray(draw_noise(key, discrete=True, **shape))
    assert normal.shape == gumbel.shape == (500, 4, 2)
    assert abs(normal.mean()) < 0.063
    assert abs(normal.std() - 1) < 0.05
    assert abs(gumbel.mean() - 0.5772) < 0.081
    assert abs(gumbel.std() - np.pi / np.sqrt(6)) < 0.1


def test_noise_has_a_key_of_its_own() -> None:
    """The update splits a policy's key in two, for the next iteration and for the shuffles; noise is a third."""
    key = jax.random.fold_in(jax.random.key(0), 5)
    noise = jax.random.key_data(jax.random.fold_in(key, NOISE))
    for other in jax.random.split(key):
        assert not np.array_equal(noise, jax.random.key_data(other))


def test_copies_of_a_policy_get_keys_of_their_own() -> None:
    """Six copies of two policies, three in a row: all keys differ, also from the parents' and what these use."""
    parents = [jax.random.fold_in(jax.random.key(0), policy) for policy in (0, 3)]
    copied = np.repeat([jax.random.key_data(parent) for parent in parents], 3, axis=0)
    children = np.asarray(derive_keys(copied, 3))
    used = [jax.random.fold_in(parent, number) for parent in parents for number in (NOISE, PARTING)]
    used += [key for parent in parents for key in jax.random.split(parent)]
    others = [np.asarray(jax.random.key_data(key)) for key in [*parents, *used]]
    assert len({tuple(key.tolist()) for key in [*children, *others]}) == 6 + len(others)
    # What a child draws belongs to its parent and its place among its siblings, not to the company.
    np.testing.assert_array_equal(derive_keys(copied[3:], 3), children[3:])
