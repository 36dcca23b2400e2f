"""Policies that are shared and part: what children have of their parent, and whose rows are whose."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from ucb_moppo.algos.base import Transitions
from ucb_moppo.algos.ppo.update import share_left
from ucb_moppo.config import MoppoConfig, default_settings, override, resolve
from ucb_moppo.engine.population import Population, by_policy, by_subspace
from ucb_moppo.errors import RunFormatError
from ucb_moppo.policy import networks
from ucb_moppo.policy.networks import orthogonal
from ucb_moppo.spec import ActionSpec, EnvSpec

K, N, T = 3, 2, 5
SPEC = EnvSpec("fake", ("first", "second"), 4, ActionSpec(False, 2, (-1.0,) * 2, (1.0,) * 2), 100, (0.0, 0.0))


@lru_cache
def config(replicas: int = 1) -> MoppoConfig:
    """Three sub-spaces of two environments × five steps, for ten iterations."""
    small: dict[str, Any] = {"policies": K, "active": N, "samples": N * T, "minibatch": 5, "epochs": 2, "cells": 8}
    length = {"steps": 10 * K * N * T * replicas, "replicas": replicas}
    return resolve(override(default_settings("HalfCheetah-v2"), **small, **length), SPEC)


def shared(replicas: int = 1) -> Population:
    """One policy for the K sub-spaces of each replica."""
    return Population(config(replicas), SPEC, range(K * replicas), group=K)


def experience(population: Population, seed: int) -> tuple[Transitions, np.ndarray]:
    """A rollout [T, policies, N·group, …] made up of noise, and its weights."""
    rng = np.random.default_rng(seed)
    rollout, weights = population.empty_rollout()
    for name in ("observation", "next_observation", "action", "reward"):
        array = getattr(rollout, name)
        array[:] = rng.normal(size=array.shape)
    return rollout, rng.dirichlet(np.ones(2), weights.shape[:2]).astype(np.float32)


def trained(replicas: int = 1, iterations: int = 2) -> Population:
    population = shared(replicas)
    for seed in range(iterations):
        population.update(*experience(population, seed))
    return population


def leaves(population: Population) -> dict[str, np.ndarray]:
    """The arrays of the current and of the last good state."""
    return {n: a.copy() for n, a in population.get_state().items() if n.startswith(("policy", "good"))}


def test_networks_are_begun_with_one_thread_of_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    """On busy cores two waited for each other for seconds, and large ones rounded otherwise."""
    seen: list[set[int]] = []

    def look(*args: Any) -> np.ndarray:
        seen.append({each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"})
        return orthogonal(*args)

    monkeypatch.setattr(networks, "orthogonal", look)
    with threadpool_limits(2, user_api="blas"):
        shared()
    assert seen == [{1}] * 6  # three layers of the actor and of the critic


# --- parting -----------------------------------------------------------------------------------------------


def test_children_are_their_parent_but_for_the_key() -> None:
    """Two replicas of three sub-spaces: children 0 to 2 are the first policy's, 3 to 5 the second's."""
    population = trained(replicas=2)
    before = leaves(population)
    assert population.policy_ids == (0, 3)
    population.part()
    after = leaves(population)
    assert population.policy_ids == (0, 1, 2, 3, 4, 5)
    assert (population.group, population.iteration) == (1, 2)
    assert after.keys() == before.keys()
    for name in [name for name in before if not name.endswith(".key")]:
        parent = name.replace("good", "policy")  # where they go back to, if they diverge, is where they begin
        np.testing.assert_array_equal(after[name], np.repeat(before[parent], 3, axis=0), err_msg=name)
    keys = [tuple(key) for key in [*after["policy.key"].tolist(), *before["policy.key"].tolist()]]
    assert len(set(keys)) == 6 + 2
    np.testing.assert_array_equal(after["good.key"], after["policy.key"])


def test_learning_rate_goes_on_where_the_parent_stood() -> None:
    """After 4 of 10 iterations children learn with 6/10 of the rate, then with 5/10."""
    population = trained(iterations=4)
    population.part()
    np.testing.assert_array_equal(population.state.iteration, [4, 4, 4])
    settings = config().ppo
    assert float(share_left(settings, population.state.iteration[0], 10)) == pytest.approx(0.6)
    population.update(*experience(population, 9))
    np.testing.assert_array_equal(population.state.iteration, [5, 5, 5])
    assert population.iteration == 5


def test_children_explore_and_learn_apart() -> None:
    """Their noise differs from the first rollout on, and so does what they learn from one and the same."""
    population = trained()
    parent = population.draw_noise()
    population.part()
    noise = population.draw_noise()
    assert parent.shape == (T, 1, N * K, 2)
    assert noise.shape == (T, K, N, 2)
    for k in range(K):
        for other in range(k):
            assert not np.array_equal(noise[:, k], noise[:, other])
        assert not np.isin(noise[:, k], parent).any()
    one, weights = experience(population, 9)
    same = Transitions(*(None if array is None else np.repeat(array[:, :1], K, axis=1) for array in one))
    population.update(same, np.repeat(weights[:1], K, axis=0))
    kernels = np.asarray(population.state.params["actor"]["hidden1.kernel"])
    assert not np.array_equal(kernels[0], kernels[1])  # shuffles of their own
    np.testing.assert_allclose(kernels[0], kernels[1], atol=1e-2)


def test_a_shared_policy_acts_for_all_its_sub_spaces() -> None:
    population = trained(replicas=2)
    tensors = population.tensors()
    for name, array in tensors.items():
        assert len(array) == 6, name
        np.testing.assert_array_equal(array[[0, 3]].repeat(3, axis=0), array, err_msg=name)
    population.part()
    for name, array in population.tensors().items():
        np.testing.assert_array_equal(array, tensors[name], err_msg=name)


# --- its state ---------------------------------------------------------------------------------------------


def test_state_goes_on_before_and_after_parting() -> None:
    first, second = trained(), shared()
    second.set_state(first.get_state())
    for population in (first, second):
        population.update(*experience(population, 5))
    assert_same(first, second)
    first.part()
    second.set_state(first.get_state())  # one that is still shared parts to take it
    assert second.group == 1
    for population in (first, second):
        population.update(*experience(population, 6))
    assert_same(first, second)


def assert_same(first: Population, second: Population) -> None:
    expected, found = first.get_state(), second.get_state()
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_a_share_is_the_rows_of_its_sub_spaces() -> None:
    population = trained(replicas=2)
    population.part()
    whole, share = population.get_state(), population.share_of([2, 3])
    own = Population(config(2), SPEC, [2, 3], group=1)
    own.set_state(share)
    for name, array in leaves(own).items():
        np.testing.assert_array_equal(array, whole[name][2:4], err_msg=name)
    assert own.iteration == 2


def test_a_state_of_other_policies_is_refused() -> None:
    with pytest.raises(RunFormatError, match=r"the saved policy.* is .*\(2,.*, not .*\(1,"):
        shared().set_state(trained(replicas=2).get_state())


# --- divergence --------------------------------------------------------------------------------------------


def poison(population: Population, seed: int, policy: int) -> dict[str, np.ndarray]:
    """An update on rewards that make one policy's loss infinite."""
    rollout, weights = experience(population, seed)
    rollout.reward[:, policy] = np.inf
    return population.update(rollout, weights)


def test_a_shared_policy_that_diverges_is_restored_once_for_all_its_sub_spaces() -> None:
    population = trained(replicas=2)
    population.judge(np.zeros((6, 1, 2)), np.full((6, 1, 2), 0.5))
    good = leaves(population)
    poison(population, 7, policy=1)
    assert [(d.policy, d.iteration, d.cause) for d in population.divergences] == [(3, 3, "loss")]
    after = leaves(population)
    assert not np.array_equal(after["policy.key"][1], good["policy.key"][1])  # with other noise than before
    name = "policy.params['actor']['head.kernel']"
    np.testing.assert_array_equal(after[name][1], good[name][1])
    assert not np.array_equal(after[name][0], good[name][0])
    np.testing.assert_array_equal(population.state.iteration, [3, 3])  # and with the rate of the next iteration
    np.testing.assert_array_equal(population.set_aside, [False, False])
    report = poison(population, 8, policy=1)
    np.testing.assert_array_equal(population.set_aside, [False, True])
    assert np.isnan(report["value_loss"][1])
    assert np.isfinite(report["value_loss"][0])
    judged = population.judge(np.ones((6, 2, 2)), np.full((6, 2, 2), 0.5))
    np.testing.assert_array_equal(np.isnan(judged).all((1, 2)), [False] * 3 + [True] * 3)
    np.testing.assert_array_equal(judged[:3], np.ones((3, 2, 2)))


def test_returns_of_one_sub_space_are_a_verdict_on_whoever_acts_there() -> None:
    population = trained(replicas=2)
    returns = np.ones((6, 1, 2))
    returns[4, 0, 1] = np.nan
    judged = population.judge(returns, np.full(returns.shape, 0.5))
    assert [(d.policy, d.cause) for d in population.divergences] == [(3, "returns")]
    np.testing.assert_array_equal(np.isnan(judged).all((1, 2)), [False] * 3 + [True] * 3)


# --- whose rows are whose ----------------------------------------------------------------------------------


@given(
    before=st.integers(1, 3),
    policies=st.integers(1, 4),
    group=st.integers(1, 4),
    envs=st.integers(1, 3),
    data=st.data(),
)
def test_merging_and_telling_apart_are_inverse(
    before: int, policies: int, group: int, envs: int, data: st.DataObject
) -> None:
    axis = data.draw(st.sampled_from([0, 1]))
    shape = (*(before,) * axis, policies * group, envs, 2)
    array = np.arange(np.prod(shape)).reshape(shape)
    merged = by_policy(array, group, axis)
    assert merged.shape == (*(before,) * axis, policies, group * envs, 2)
    np.testing.assert_array_equal(by_subspace(merged, group, axis), array)
    for p, g, n in np.ndindex(policies, group, envs):  # the slow version: sub-space p·group + g, environment n
        expected = np.take(np.take(array, p * group + g, axis), n, axis)
        found = np.take(np.take(merged, p, axis), g * envs + n, axis)
        np.testing.assert_array_equal(found, expected)
