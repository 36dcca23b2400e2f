"""Actors that choose several things at once, and observations that are not vectors, from spec to file and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucb_moppo
from ucb_moppo.envs.adapter import GymBatch
from ucb_moppo.errors import ConfigError
from ucb_moppo.policy.actors import Actors
from ucb_moppo.policy.networks import apply_mlp, choose, init_params, split_logits
from ucb_moppo.policy.normaliser import init_statistics
from ucb_moppo.policy.policy import Policy
from ucb_moppo.spec import ActionSpec, EnvSpec
from ucb_moppo.store.policy_file import read_spec, spec_to_json

SIZES = {"observation_size": 4, "num_objectives": 2, "cells": 6, "log_std": 0.0}


def make_actor(*choices: int, **sizes: Any) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    made = init_params(rng, action_size=len(choices), discrete=False, choices=choices, **(SIZES | sizes))["actor"]
    return {name: array * 100 if name.endswith("kernel") else array for name, array in made.items()}


def test_each_choice_has_a_head_and_none_has_a_std() -> None:
    shapes = {name: array.shape for name, array in make_actor(3, 2).items() if not name.startswith("hidden")}
    assert shapes == {"head1.kernel": (8, 3), "head1.bias": (3,), "head2.kernel": (8, 2), "head2.bias": (2,)}


def test_the_output_is_the_heads_side_by_side() -> None:
    actor, inputs, weight = make_actor(3, 2), np.ones((5, 4), np.float32), np.full((5, 2), 0.5, np.float32)
    output = apply_mlp(actor, inputs, weight)
    for number, logits in enumerate(split_logits(actor, output), start=1):
        one = {name: a for name, a in actor.items() if not name.startswith("head")}
        one |= {f"head.{part}": actor[f"head{number}.{part}"] for part in ("kernel", "bias")}
        np.testing.assert_array_equal(apply_mlp(one, inputs, weight), logits)


def test_the_largest_logit_of_each_head_is_chosen() -> None:
    """More than nine heads: the tenth comes after the ninth, not after the first."""
    actor = make_actor(3, *[2] * 10)
    logits = np.array([[0, 2, 1, *[1, 0] * 9, 0, 1]], np.float32)
    assert choose(actor, logits).tolist() == [[1, *[0] * 9, 1]]


def test_logits_that_are_not_finite_choose_nothing() -> None:
    logits = np.array([[0, 1, 0, 0, 1], [0, np.nan, 0, 0, 1]], np.float32)
    np.testing.assert_array_equal(choose(make_actor(3, 2), logits), [[1, 1], [np.nan, np.nan]])


def test_gumbel_noise_draws_each_head_from_its_softmax() -> None:
    """The largest of logits plus Gumbel noise is distributed as the softmax of the logits (Gumbel's trick)."""
    actor = make_actor(3, 2)
    actors = Actors(actor, init_statistics(4))
    inputs, weight = np.zeros((100_000, 4)), np.full((100_000, 2), 0.5, np.float32)
    logits = split_logits(actor, apply_mlp(actor, inputs[:1].astype(np.float32), weight[:1]))
    drawn = actors(inputs, weight, np.random.default_rng(0).gumbel(size=(100_000, 5)).astype(np.float32))
    for head, its in enumerate(logits):
        shares = np.bincount(drawn[:, head].astype(int), minlength=its.shape[1]) / len(drawn)
        np.testing.assert_allclose(shares, np.exp(its[0]) / np.exp(its[0]).sum(), atol=0.01)


# --- a policy to deploy ------------------------------------------------------------------------------------


def make_policy(batch: GymBatch) -> Policy:
    spec, action = batch.spec, batch.spec.action
    sizes = {"observation_size": spec.observation_size, "action_size": action.size, "discrete": action.discrete}
    rng = np.random.default_rng(0)
    actor = init_params(rng, num_objectives=2, cells=6, log_std=0.0, choices=action.choices, **sizes)["actor"]
    tensors = {f"actor.{name}": array for name, array in actor.items()}
    statistics = init_statistics(spec.observation_size)._asdict()
    tensors |= {f"observation.{name}": array for name, array in statistics.items()}
    return Policy(spec, 0, np.array([0.5, 0.5]), np.zeros(2), tensors)


def test_a_policy_sees_a_dict_as_the_batch_shows_it() -> None:
    batch = GymBatch("probe_envs:probe/Room-v0", 1)
    env, policy = batch.environments[0], make_policy(batch)
    rows, shown = [batch.reset(np.array([0]), [0])[0]], [env.unwrapped.look()]  # type: ignore[attr-defined]
    for _ in range(4):
        rows.append(batch.step(np.array([0])).observation[0])
        shown.append(env.unwrapped.look())  # type: ignore[attr-defined]
    for row, observation in zip(rows, shown, strict=True):
        encoded, single = policy._encode(observation)
        assert single
        np.testing.assert_array_equal(encoded, [row.astype(np.float32)])
    together = {key: np.stack([one[key] for one in shown]) for key in ("door", "lamps", "place")}
    together["pair"] = tuple(np.stack([one["pair"][i] for one in shown]) for i in range(2))  # type: ignore[assignment]
    encoded, single = policy._encode(together)
    assert not single
    np.testing.assert_array_equal(encoded, np.array(rows, np.float32))
    assert [policy(observation) for observation in shown] == policy(together).tolist()


def test_an_observation_that_is_not_all_there_is_refused() -> None:
    policy = make_policy(GymBatch("probe_envs:probe/Room-v0", 1))
    with pytest.raises(ConfigError, match=r"without anything at \['door'\]"):
        policy({"place": np.zeros(2)})
    whole = {"door": 1, "lamps": np.zeros(2), "pair": (np.zeros(2), np.zeros(1)), "place": np.zeros(3)}
    with pytest.raises(ConfigError, match=r"shape \(3,\) was given at \['place'\].*shape \(2,\)"):
        policy(whole)
    with pytest.raises(ConfigError, match=r"\[7\] lies outside its space"):
        policy(whole | {"place": np.zeros(2), "door": 7})


def test_a_policy_names_its_choices_as_the_environment_does() -> None:
    batch = GymBatch("probe_envs:probe/Buttons-v0", 1)
    policy = make_policy(batch)
    one, many = policy(np.zeros(2)), policy(np.random.default_rng(0).normal(size=(50, 2)))
    assert one in batch.environments[0].action_space
    assert one.dtype == many.dtype == np.int64
    assert set(many[:, 0]) <= {1, 2, 3}
    assert set(many[:, 1]) <= {5, 6}


@pytest.mark.parametrize("name", ["Room", "Buttons", "Switches", "Number", "Echo"])
def test_a_policy_is_what_was_saved(name: str, tmp_path: Path) -> None:
    policy = make_policy(GymBatch(f"probe_envs:probe/{name}-v0", 1))
    again = ucb_moppo.load(policy.save(tmp_path / "policy.safetensors"))
    assert isinstance(again, Policy)
    assert again.spec == policy.spec
    rows = np.random.default_rng(0).normal(size=(9, policy.spec.observation_size))
    np.testing.assert_array_equal(again.act(rows), policy.act(rows))


def test_specs_of_before_read_and_are_written_as_before() -> None:
    """What a run of one Discrete choice and one Discrete number has always stored."""
    stored = {
        "name": "probe",
        "objectives": ["first", "second"],
        "observation_size": 4,
        "action": {"discrete": True, "size": 2, "low": [], "high": [], "start": 5},
        "horizon": 1000,
        "reference_point": [0.0, 0.0],
        "discrete_observation": True,
        "observation_start": 10,
    }
    spec = read_spec(stored, Path("policies.json"))
    assert spec == EnvSpec(
        "probe", ("first", "second"), 4, ActionSpec(True, 2, start=5), 1000, (0.0, 0.0), True, 10
    )
    written = spec_to_json(spec)
    assert written | {"objectives": list(written["objectives"]), "reference_point": [0.0, 0.0]} == stored
    np.testing.assert_array_equal(spec.encode([np.int64(11), 13]), [[0, 1, 0, 0], [0, 0, 0, 1]])
