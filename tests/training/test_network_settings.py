"""Width, depth and activation as settings: what is trained is what is written, loaded, continued and deployed."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sample_runs import rewrite
from tiny_runs import assert_same, train_tiny, train_until
from trade_runs import train_trade

import ucb_moppo
from ucb_moppo.policy.networks import PAPER_NETWORK, Network, apply_mlp
from ucb_moppo.store.layout import CONFIG, PROBLEM
from ucb_moppo.training.reporter import Silent
from ucb_moppo.training.resume import resume_run

OTHER = {"cells": 6, "layers": 3, "activation": "elu"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ucb_moppo.Run:
    return train_trade(tmp_path_factory.mktemp("networks") / "run", **OTHER)


def test_a_run_says_how_its_networks_act_and_holds_their_layers(run: ucb_moppo.Run) -> None:
    assert run.network == Network("elu", 3)
    assert json.loads((run.path / PROBLEM).read_text())["network"]["hidden_layers"] == 3
    # One observed number and two weights go in; both weights join again before the head.
    shapes = {name: array.shape[1:] for name, array in run.tensors().items() if name.endswith("kernel")}
    assert shapes == {
        **{f"{part}.hidden1.kernel": (3, 6) for part in ("actor", "critic")},
        **{f"{part}.hidden{layer}.kernel": (6, 6) for part in ("actor", "critic") for layer in (2, 3)},
        "actor.head.kernel": (8, 1),
        "critic.head.kernel": (8, 2),
    }


def test_a_policy_does_in_numpy_what_jax_has_trained_also_after_it_was_saved(
    run: ucb_moppo.Run, tmp_path: Path
) -> None:
    policy = run.policy([0.7, 0.3])
    loaded = ucb_moppo.load(policy.save(tmp_path / "policy.safetensors"))
    assert isinstance(loaded, ucb_moppo.Policy)
    assert loaded.network == run.network
    observations = np.linspace(-0.5, 0.5, 7, dtype=np.float32)[:, None]
    actors = policy.actors
    stats = actors.observation_stats
    inputs = np.clip((observations - stats.mean) / np.sqrt(stats.variance), -10, 10)
    weight = jnp.broadcast_to(jnp.float32([0.7, 0.3]), (7, 2))
    output = apply_mlp(jax.tree.map(jnp.asarray, actors.params), jnp.asarray(inputs), weight, Network("elu", 3))
    for deployed in (policy, loaded):
        np.testing.assert_allclose(deployed(observations), np.clip(output, -1, 1), rtol=1e-4, atol=1e-5)


def test_a_run_of_the_usual_network_does_not_mention_it(tmp_path: Path) -> None:
    """So that its files are those of versions which knew no other."""
    usual = train_trade(tmp_path / "run")
    assert "network" not in json.loads((usual.path / PROBLEM).read_text())
    assert usual.network == PAPER_NETWORK


def test_a_run_of_another_network_is_continued_to_the_same_bits(tmp_path: Path) -> None:
    whole = train_tiny(tmp_path / "whole", **OTHER)
    broken = train_until(tmp_path / "broken", 5, **OTHER)
    assert_same(resume_run(broken, Silent()).path, whole.path)


def test_a_run_begun_before_these_were_settings_is_continued(tmp_path: Path) -> None:
    broken = train_until(tmp_path / "run", 5)
    config = json.loads((broken / CONFIG).read_text())
    assert (config["ppo"].pop("layers"), config["ppo"].pop("activation")) == (2, "tanh")
    rewrite(broken, CONFIG, json.dumps(config).encode())
    assert resume_run(broken, Silent()).summary["finished"] is True
