"""Acting: one policy alone and among others, with noise and without, and as named tensors."""

from __future__ import annotations

import numpy as np
import pytest

from ucb_moppo.errors import ConfigError
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


def make_policy() -> Policy:
    spec = EnvSpec("fake", ("first", "second"), D, BOX, 10, (0.0, 0.0))
    tensors = {name: array[0] for name, array in actors_to_tensors(make_actors(discrete=False)).items()}
    return Policy(spec, 0, np.array([0.5, 0.5]), np.zeros(M), tensors)


@pytest.mark.parametrize(
    ("shape", "actions"),
    [((D,), (A,)), ((2, 2), (A,)), ((1, D), (1, A)), ((3, D), (3, A)), ((3, 2, 2), (3, A))],
    ids=str,
)
def test_one_observation_or_a_batch_is_taken(shape: tuple[int, ...], actions: tuple[int, ...]) -> None:
    assert make_policy()(np.ones(shape)).shape == actions


@pytest.mark.parametrize("shape", [(2 * D,), (D, 2), (D - 1,), (3, D - 1), (2, 3, D), (0, D), ()], ids=str)
def test_an_observation_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"fake shows 4 numbers: give shape \(4,\), or \(\[how many\], 4\)"):
        make_policy()(np.ones(shape))


def test_what_is_no_observation_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"the pair that env.reset\(\) returns was given; give its first part"):
        make_policy()((np.ones(D), {}))
    with pytest.raises(ConfigError, match=r"an observation is needed, but NoneType None was given"):
        make_policy()(None)
