"""A run of PD-MORL is an ordinary run: it loads, counts its steps and deploys its policy."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tiny_runs import DiesAt, Killed, assert_same
from trade_runs import train_trade

import ucb_moppo
from ucb_moppo.config import from_json, override
from ucb_moppo.errors import ConfigError
from ucb_moppo.peers.pdmorl.networks import ACTOR, apply_actor
from ucb_moppo.peers.pdmorl.phase import generator_state, set_generator_state
from ucb_moppo.report import write_report
from ucb_moppo.training.reporter import Reporter, Silent
from ucb_moppo.training.resume import resume_run
from ucb_moppo.training.train import train_run

TINY = {"workers": 4, "cells": 16, "batch": 16, "key_batch": 16, "random_share": 0.1}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> ucb_moppo.Run:
    out = tmp_path_factory.mktemp("pdmorl") / "run"
    settings = {**TINY, "evaluations": 2}
    return ucb_moppo.train("probe_envs:probe/Trade-v0", method="pdmorl", steps=299, out=out, quiet=True, **settings)


def test_the_summary_counts_every_step(run):
    summary = json.loads((run.path / "summary.json").read_text())
    # As for 300 steps, less one: 37 rounds of 3 keys, 47 rounds of 4 workers.
    assert (summary["training_steps"], summary["pretraining_steps"]) == (188, 111)
    # Its own: 3 keys × 10 episodes, then 9 × 3 keys × 3; ours: before, in between and at the end, 32 weights.
    assert summary["evaluation_steps"] == 3 * 10 * 5 + 9 * 3 * 3 * 5 + 3 * 32 * 5
    assert summary["policies"] == 1
    # Actor (1 + 2)·16+16 + 16·16+16 + 16+1, each critic (1 + 1 + 2)·16+16 + 16·16+16 + 16·2+2.
    assert summary["parameters"] == 64 + 272 + 17 + 2 * (80 + 272 + 34)


def test_the_one_policy_is_evaluated_on_every_weight(run):
    with (run.path / "evaluations.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 32


def test_a_loaded_policy_acts_in_numpy_as_the_jax_actor_does(run):
    policy = ucb_moppo.load(run.path).policy([0.3, 0.7])
    assert policy.network == ACTOR
    observation = np.linspace(-0.5, 0.5, 5, dtype=np.float32)[:, None]
    jnp = pytest.importorskip("jax.numpy")
    actor = {name: jnp.asarray(array) for name, array in policy.actors.params.items()}
    weight = jnp.broadcast_to(jnp.array([0.3, 0.7], jnp.float32), (5, 2))
    assert_allclose(policy(observation), apply_actor(actor, jnp.asarray(observation), weight), rtol=1e-5, atol=1e-6)


def test_it_is_reported_and_compared_with_ours(run, tmp_path):
    """Problem, horizon and reference point are the same: one section. A mean over one seed is that run's."""
    ours = train_trade(tmp_path / "ours", steps=299)
    page = write_report([run.path, ours.path], tmp_path / "report")
    assert "pdmorl" in page.read_text(encoding="utf-8")
    (table,) = (tmp_path / "report" / "tables").glob("comparison-*.csv")
    with table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["method"], row["seeds"]) for row in rows] == [("ucb", "0"), ("pdmorl", "0")]
    found = [(float(row["HV mean"]), float(row["EU mean"])) for row in rows]
    assert_allclose(found, [(one.summary["hypervolume"], one.summary["expected_utility"]) for one in (ours, run)])


def test_what_it_cannot_train_is_found_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match="needs Box actions"):
        ucb_moppo.train("probe_envs:probe/Counter-v0", method="pdmorl", out=tmp_path / "run", quiet=True)
    with pytest.raises(ConfigError, match=r"unknown setting 'worker'.*workers"):
        ucb_moppo.train("probe_envs:probe/Trade-v0", method="pdmorl", out=tmp_path / "run", worker=3, quiet=True)
    assert not (tmp_path / "run").exists()


# --- interrupted and continued -----------------------------------------------------------------------------

STEPS = 299
"""37 rounds of 3 keys, which are 111, then 47 rounds of 4 workers."""


def train_to_the_end(out: Path, reporter: Reporter) -> Path:
    settings = override(
        from_json({"problem": "probe_envs:probe/Trade-v0", "method": "pdmorl"}),
        **{**TINY, "evaluations": 2, "steps": STEPS, "checkpoint_seconds": 0.0},
    )
    train_run(settings, out, reporter)
    return out


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_to_the_end(tmp_path_factory.mktemp("whole") / "run", Silent())


@pytest.mark.parametrize("iteration", [3, 60, 108, 111, 115, 155, 295])
def test_what_is_resumed_ends_as_what_was_never_interrupted(whole: Path, tmp_path: Path, iteration: int) -> None:
    """In pre-training, at its last round, in the first of training, after a key was evaluated, and near the end."""
    with pytest.raises(Killed):
        train_to_the_end(tmp_path / "run", DiesAt(iteration))
    resume_run(tmp_path / "run", Silent())
    assert_same(tmp_path / "run", whole)


def test_a_generator_continues_where_it_stood() -> None:
    rng, other = np.random.default_rng(3), np.random.default_rng(4)
    rng.integers(10, size=3, dtype=np.uint32)  # half of a draw is kept for the next
    set_generator_state(other, generator_state(rng))
    assert_array_equal(rng.integers(2**31, size=9, dtype=np.uint32), other.integers(2**31, size=9, dtype=np.uint32))
    assert_array_equal(rng.standard_normal(9), other.standard_normal(9))
