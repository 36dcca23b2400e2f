"""What the replay buffer holds and gives back."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from ucb_moppo.peers.pdmorl.replay import ReplayBuffer, Samples
from ucb_moppo.spec import ActionSpec, EnvSpec

SPEC = EnvSpec("tiny", ("a", "b"), 1, ActionSpec(False, 1, (-1.0,), (1.0,)), 5, (0.0, 0.0))


def transitions(numbers, num_preferences=4):
    """Transitions that carry their number everywhere; preference i of number n is (n, i)."""
    numbers = np.asarray(numbers, np.float32)
    column = numbers[:, None]
    weight = np.stack([np.stack([numbers, np.full_like(numbers, i)], -1) for i in range(num_preferences)], 1)
    pair = np.column_stack([numbers, numbers])
    return Samples(column, column, pair, column + 0.5, numbers % 2, weight)


def test_a_transition_counts_once_per_preference_in_samples():
    buffer = ReplayBuffer(SPEC, 10, 4)
    buffer.add(transitions([0, 1]))
    assert len(buffer) == 2
    sample = buffer.sample(np.random.default_rng(0), (8, 1000))
    found, counts = np.unique(sample.weight.reshape(-1, 2), axis=0, return_counts=True)
    assert_array_equal(found, [[n, i] for n in range(2) for i in range(4)])
    assert_allclose(counts / counts.sum(), 1 / 8, atol=0.02)  # five standard deviations of 8,000 draws


def test_samples_keep_what_belongs_together():
    buffer = ReplayBuffer(SPEC, 10, 4)
    buffer.add(transitions(range(7)))
    sample = buffer.sample(np.random.default_rng(0), (3, 50))
    number = sample.observation[..., 0]
    assert sample.observation.shape == (3, 50, 1)
    for other in (sample.action[..., 0], sample.reward[..., 1], sample.weight[..., 0]):
        assert_array_equal(other, number)
    assert_array_equal(sample.next_observation[..., 0], number + 0.5)
    assert_array_equal(sample.terminated, number % 2)


def test_the_oldest_make_room():
    buffer = ReplayBuffer(SPEC, 5, 4)
    for numbers in ([0, 1, 2], [3, 4, 5], [6]):
        buffer.add(transitions(numbers))
    assert len(buffer) == 5
    sample = buffer.sample(np.random.default_rng(0), (400,))
    assert_array_equal(np.unique(sample.observation), [2, 3, 4, 5, 6])
