"""The order in which an epoch visits its samples: every one once, all orders alike."""

from __future__ import annotations

from collections import Counter

import jax
import numpy as np
import pytest

from ucb_moppo.algos.ppo.update import shuffle


@pytest.mark.parametrize("num_samples", [1, 2, 3, 64, 65, 2500, 4096, 4097, 70_000])
def test_every_sample_comes_once(num_samples: int) -> None:
    order = np.asarray(shuffle(jax.random.key(0), num_samples))
    assert sorted(order.tolist()) == list(range(num_samples))


def test_all_orders_are_equally_likely() -> None:
    """24 orders of four, 24,000 draws: 1,000 of each, give or take five standard deviations of 31."""
    keys = jax.random.split(jax.random.key(1), 24_000)
    orders = np.asarray(jax.jit(jax.vmap(lambda key: shuffle(key, 4)))(keys))
    counts = Counter(map(tuple, orders.tolist()))
    assert len(counts) == 24
    assert all(abs(count - 1000) < 155 for count in counts.values())


def test_neighbours_are_parted() -> None:
    """A sample and the next are as far apart as two strangers, whose distance is a third of the length in the mean
    and over 1 − √0.9 of it in nine cases of ten; even where numbers of equal high bits are many."""
    length = 60_000  # its 16 bits leave 16 random ones: more than half share theirs with another
    place = np.empty(length)
    place[np.asarray(shuffle(jax.random.key(2), length))] = np.arange(length)
    distance = np.abs(np.diff(place)) / length
    assert distance.mean() == pytest.approx(1 / 3, abs=0.005)
    assert np.quantile(distance, 0.1) == pytest.approx(1 - np.sqrt(0.9), abs=0.003)


def test_another_key_gives_another_order() -> None:
    first, second, again = (np.asarray(shuffle(jax.random.key(seed), 100)) for seed in (3, 4, 3))
    assert (first != second).any()
    assert (first == again).all()
