"""Running statistics: the same as numpy's over everything seen, however it was cut up."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucb_moppo.policy.normaliser import (
    CLIP,
    MIN_STD,
    Statistics,
    denormalise,
    init_statistics,
    normalise,
    update_statistics,
)

light = settings(max_examples=60, deadline=None)


def stats_of(samples: np.ndarray) -> Statistics:
    return update_statistics(init_statistics(samples.shape[1]), samples)


@light
@given(
    chunks=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    mean=st.floats(-100, 100),
    scale=st.floats(0.1, 50),
    seed=st.integers(0, 1000),
)
def test_streaming_equals_all_at_once(chunks: list[int], mean: float, scale: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = mean + scale * rng.normal(size=(sum(chunks), 3))
    stats = init_statistics(3)
    for chunk in np.split(data, np.cumsum(chunks)[:-1]):
        stats = update_statistics(stats, chunk)
    assert stats.count == len(data)
    np.testing.assert_allclose(stats.mean, data.mean(0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(stats.variance, data.var(0), rtol=1e-6, atol=1e-6)


def test_streaming_in_single_precision_on_jax() -> None:
    """What training does: 800 rollouts of 250 samples in float32 stay within 1e-3 of the double result.

    The features are hard: means of −5, 0 and 1,000 with stds of 1, 1e-2 and 3.
    """
    rng = np.random.default_rng(0)
    data = (np.array([-5.0, 0.0, 1000.0]) + np.array([1.0, 1e-2, 3.0]) * rng.normal(size=(800, 250, 3))).astype(
        np.float32
    )
    update = jax.jit(update_statistics)
    stats = jax.tree.map(jnp.asarray, init_statistics(3))
    for chunk in data:
        stats = update(stats, chunk)
    everything = data.reshape(-1, 3).astype(float)
    assert stats.count == 200_000
    assert (np.abs(stats.mean - everything.mean(0)) < 1e-3 * everything.std(0)).all()
    np.testing.assert_allclose(stats.std, everything.std(0), rtol=1e-3)


def test_two_updates_by_hand() -> None:
    # {1, 3}: mean 2, variance 1. With {8}: mean 4, variance ((−3)² + (−1)² + 4²)/3 = 26/3.
    first = stats_of(np.array([[1.0], [3.0]]))
    assert (first.mean, first.variance, first.count) == (2.0, 1.0, 2.0)
    second = update_statistics(first, np.array([[8.0]]))
    np.testing.assert_allclose([second.mean[0], second.variance[0], second.count], [4.0, 26 / 3, 3.0])


def test_nothing_seen_normalises_by_doing_nothing() -> None:
    values = np.array([[-3.0, 0.0, 7.0]])
    np.testing.assert_array_equal(normalise(init_statistics(3), values), values)
    np.testing.assert_array_equal(denormalise(init_statistics(3), values), values)


def test_first_update_replaces_the_prior() -> None:
    """The mean 0 and variance 1 to begin with carry no weight: count 0."""
    data = np.array([[10.0, 5.0], [30.0, 5.5]])
    stats = stats_of(data)
    np.testing.assert_allclose(stats.mean, [20.0, 5.25])
    np.testing.assert_allclose(stats.variance, [100.0, 0.0625])


def test_constant_feature_gives_zero() -> None:
    """Variance 0 is divided by the floor 1e-4, not by 0: (7 − 7)/1e-4 = 0."""
    stats = stats_of(np.full((5, 1), 7.0, np.float32))
    np.testing.assert_array_equal(normalise(stats, np.full((3, 1), 7.0, np.float32)), np.zeros((3, 1)))
    np.testing.assert_allclose(stats.std, MIN_STD)


def test_clipping() -> None:
    # mean 0, std 2: ±21 would be ±10.5 and is clipped to ±10; 19 is 9.5 and is not.
    stats = stats_of(np.array([[-2.0], [2.0]]))
    values = np.array([[-21.0], [19.0], [21.0]])
    np.testing.assert_allclose(normalise(stats, values), [[-CLIP], [9.5], [CLIP]])
    np.testing.assert_allclose(normalise(stats, values, clip=1.0), [[-1.0], [1.0], [1.0]])


@light
@given(seed=st.integers(0, 1000), mean=st.floats(-1e3, 1e3), scale=st.floats(0.01, 1e3))
def test_denormalise_undoes_normalise(seed: int, mean: float, scale: float) -> None:
    data = mean + scale * np.random.default_rng(seed).normal(size=(50, 2))
    stats = stats_of(data)
    np.testing.assert_allclose(denormalise(stats, normalise(stats, data)), data, rtol=1e-9, atol=1e-9 * abs(mean))


def test_policies_have_their_own_statistics() -> None:
    """K = 2 with means 0 and 100, stds 1 and 10: the value 100 is 10 (clip) for one and 0 for the other."""
    stats = Statistics(np.array([[0.0], [100.0]]), np.array([[1.0], [100.0]]), np.ones(2))
    values = np.full((2, 3, 1), 100.0)
    normalised = normalise(stats, values)
    np.testing.assert_array_equal(normalised[:, :, 0], [[10.0] * 3, [0.0] * 3])
    np.testing.assert_array_equal(denormalise(stats, np.ones((2, 3, 1)))[:, 0, 0], [1.0, 110.0])


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray])
def test_numpy_and_jax_alike(kind: object) -> None:
    samples = kind(np.array([[1.0, 2.0], [3.0, 6.0]], np.float32))  # type: ignore[operator]
    stats = stats_of(samples)
    np.testing.assert_allclose(stats.mean, [2.0, 4.0])
    np.testing.assert_allclose(stats.variance, [1.0, 4.0])
    np.testing.assert_allclose(normalise(stats, samples), [[-1.0, -1.0], [1.0, 1.0]])
