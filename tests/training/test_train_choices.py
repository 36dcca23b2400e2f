"""A run on a problem of several choices and a dict to see, from training to the deployed policy."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest
from tiny_runs import assert_same, train_tiny, train_until

import ucb_moppo
from ucb_moppo.training.reporter import Silent
from ucb_moppo.training.resume import resume_run

LOCKS = "probe_envs:probe/Locks-v0"


def test_both_locks_are_opened(tmp_path: Path) -> None:
    """Every weight has the same best return, 5 of both; random choices earn 5/3 and 5/2."""
    settings = {"policies": 2, "candidates": 8, "active": 5, "samples": 250, "learning_rate": 3e-3, "gamma": 0.9}
    run = ucb_moppo.train(LOCKS, seed=0, steps=20_000, out=tmp_path / "run", quiet=True, **settings)
    assert run.front().returns.max(axis=0).tolist() == [5, 5]

    policy = ucb_moppo.load(run.policy([0.5, 0.5]).save(tmp_path / "policy.safetensors"))
    assert isinstance(policy, ucb_moppo.Policy)
    env = gymnasium.make(LOCKS, disable_env_checker=True)
    observation, _ = env.reset(seed=123)
    for _ in range(5):
        observation, reward, _, _, _ = env.step(policy(observation))
        assert np.array_equal(reward, [1, 1])


def test_an_interrupted_run_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole = train_tiny(tmp_path / "whole", problem=LOCKS)
    resume_run(train_until(tmp_path / "killed", 5, problem=LOCKS), Silent())
    assert_same(whole.path, tmp_path / "killed")


def test_several_choices_are_sampled_alike_every_time(tmp_path: Path) -> None:
    from ucb_moppo.training.reevaluate import evaluate_run

    run = train_tiny(tmp_path / "run", problem=LOCKS)
    sampled = evaluate_run(run.path, None, sampled=True)
    assert sampled["actions"] == "sampled"
    assert evaluate_run(run.path, None, sampled=True) == sampled
    assert evaluate_run(run.path, None)["actions"] == "deterministic"


@pytest.mark.parametrize(
    "problem", ["probe_envs:probe/Switches-v0", "probe_envs:probe/Room-v0", "breakable-bottles-v0"]
)
def test_every_kind_of_space_trains(tmp_path: Path, problem: str) -> None:
    """To the end, with returns that are numbers."""
    run = train_tiny(tmp_path / "run", problem=problem)
    assert np.isfinite(run.evaluated().returns).all()
    assert run.summary["finished"]
