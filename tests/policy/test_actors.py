"""Acting: one policy alone and among others, with noise and without, and as named tensors."""

from __future__ import annotations

import numpy as np
import pytest

from ucb_moppo.policy.actors import Actors, actors_from_tensors, actors_to_tensors
from ucb_moppo.policy.networks import Network, init_params
from ucb_moppo.policy.normaliser import Statistics
from ucb_moppo.policy.policy import Policy
from ucb_moppo.spec import ActionSpec, EnvSpec

K, N, D, M, A = 3, 5, 4, 2, 2
BOX, CHOICES = ActionSpec(False, A, (-2.0,) * A, (2.0,) * A), ActionSpec(True, A, start=1)


def make_actors(discrete: bool) -> Actors:
    """Untrained actors with heads large enough to matter, and statistics of their own."""
    rng = np.random.default_rng(0)
    sizes = {"observation_size": D, "num_objectives": M, "action_size": A, "cells": 6, "log_std": -1.0}
    made = [init_params(rng, discrete=discrete, **sizes)["actor"] for _ in range(K)]
    params = {name: np.stack([actor[name] for actor in made]) for name in made[0]}
    params["head.kernel"] *= 100
    mean, variance = rng.normal(size=(K, D)), rng.uniform(0.5, 2, (K, D))
    return Actors(params, Statistics(*(a.astype(np.float32) for a in (mean, variance, np.ones(K)))))


def inputs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Observations [K, N, d], weights [K, N, m], noise [K, N, a]."""
    rng = np.random.default_rng(1)
    weight, noise = rng.dirichlet(np.ones(M), (K, N)), rng.normal(size=(K, N, A))
    return 3 * rng.normal(size=(K, N, D)), weight.astype(np.float32), noise.astype(np.float32)


def test_box_noise_is_scaled_by_the_std_and_logits_take_it_as_it_is() -> None:
    observation, weight, noise = inputs()
    for discrete, std in ((False, np.exp(-1.0)), (True, 1.0)):
        actors = make_actors(discrete)
        added = actors(observation, weight, noise) - actors(observation, weight)
        np.testing.assert_allclose(added, std * noise, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("action", [BOX, CHOICES])
def test_a_deployed_policy_acts_as_it_does_among_others(action: ActionSpec) -> None:
    """The same bits: the largest logit, or the mean stretched from [-1, 1] to [-2, 2]."""
    actors, (observation, weight, _) = make_actors(action.discrete), inputs()
    weight = np.broadcast_to(weight[:, :1], weight.shape)
    output = actors(observation, weight)
    for k in range(K):
        spec = EnvSpec("fake", ("first", "second"), D, action, 10, (0.0, 0.0))
        tensors = {name: array[k] for name, array in actors_to_tensors(actors).items()}
        policy = Policy(spec, k, weight[k, 0], np.zeros(M), tensors)
        own = output[k].argmax(-1) if action.discrete else output[k]
        np.testing.assert_array_equal(policy.act(observation[k]), own)
        expected = own + 1 if action.discrete else np.clip(2.0 * own, -2, 2)
        np.testing.assert_array_equal(policy(observation[k]), expected)


def test_named_tensors_make_the_same_actors() -> None:
    network = Network(activation="relu")
    actors = make_actors(discrete=False)._replace(network=network)
    tensors = actors_to_tensors(actors) | {"critic.head.bias": np.zeros((K, M))}
    again = actors_from_tensors(tensors, network)
    observation, weight, noise = inputs()
    assert again.params.keys() == actors.params.keys()
    np.testing.assert_array_equal(again(observation, weight, noise), actors(observation, weight, noise))
