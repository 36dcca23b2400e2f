"""Settings: what is refused and with what advice, presets, the JSON round trip, and what is decided when."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucb_moppo.algos.ppo.ppo_settings import PPOSettings
from ucb_moppo.config import (
    default_settings,
    from_json,
    make_settings,
    override,
    resolve,
)
from ucb_moppo.envs import PROBLEMS
from ucb_moppo.errors import ConfigError
from ucb_moppo.spec import ActionSpec, EnvSpec


def make_spec(num_objectives: int = 2, horizon: int = 1000) -> EnvSpec:
    names = tuple(f"objective {j}" for j in range(num_objectives))
    action = ActionSpec(False, 1, (-1.0,), (1.0,))
    return EnvSpec("fake", names, 3, action, horizon, (0.0,) * num_objectives)


# --- checks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        *((name, value, r"\[0, 1\]") for name in ("gamma", "gae_lambda") for value in (-0.1, 1.1)),
        ("gamma", float("nan"), r"\[0, 1\]"),
        *((name, 0, "at least 1") for name in ("epochs", "minibatch", "samples", "cells")),
        *(
            (name, value, "positive")
            for name in ("clip", "learning_rate", "adam_epsilon", "max_grad_norm")
            for value in (0.0, -1.0, float("inf"), float("nan"))
        ),
        *(
            (name, 0, "at least 1")
            for name in ("policies", "candidates", "active", "replicas", "stage_iterations", "probes")
        ),
        ("ensemble", 1, "at least 2"),
        *((name, -1, "negative") for name in ("warmup", "resample_iterations")),
        ("selection", "topn", "did you mean top_n"),
        ("candidate_values", "simulated", "did you mean simulate"),
        ("method", "usb", "did you mean ucb"),
        ("steps", 0, "at least 1"),
        ("episodes", 0, "at least 1"),
        ("seed", -1, "2\\*\\*32"),
        ("threads", -2, "negative"),
        ("horizon", 0, "at least 1"),
    ],
)
def test_checks_name_the_setting_the_value_and_the_remedy(name: str, value: Any, remedy: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}.*{value}.*{remedy}"):
        override(default_settings("Swimmer-v2"), **{name: value})


@pytest.mark.parametrize("name", ["policies", "probes", "evaluations", "steps", "episodes"])
def test_another_method_s_settings_are_checked_too(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is 0; it must be at least 1"):
        make_settings("Swimmer-v2", "pdmorl", **{name: 0})


def test_more_active_weights_than_candidates() -> None:
    with pytest.raises(ConfigError, match=r"active is 11 .*10 candidates.*lower --active or raise --candidates"):
        override(default_settings("Swimmer-v2"), active=11, candidates=10, samples=1100)


def test_samples_must_be_shared_evenly() -> None:
    """2,500 samples among 8 environments would be 312.5 steps each."""
    with pytest.raises(ConfigError, match=r"samples \(2500\) must be a multiple of active \(8\)"):
        override(default_settings("Swimmer-v2"), active=8)
    assert override(default_settings("Swimmer-v2"), active=8, samples=2400).rollout_steps == 300


# --- presets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "problem", ["Swimmer-v2", "HalfCheetah-v2", "Walker2d-v2", "Ant-v2", "Hopper-v2", "Hopper-v3"]
)
def test_paper_preset_is_the_paper_s_table(problem: str) -> None:
    """SPEC §4 and §5, to the letter: 2·10⁶ samples for each of 10 policies, or of 36 for three objectives."""
    config = default_settings(problem, "paper")
    table = {
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "clip": 0.2,
        "epochs": 10,
        "minibatch": 64,
        "learning_rate": 3e-4,
        "adam_epsilon": 1e-5,
        "decay": True,
        "value_coefficient": 0.5,
        "entropy_coefficient": 0.0,
        "samples": 2500,
        "max_grad_norm": 0.5,
        "cells": 64,
        "log_std": 0.0,
    }
    assert {name: getattr(config.ppo, name) for name in table} == table
    objectives = 3 if problem == "Hopper-v3" else 2
    resolved = resolve(config, make_spec(objectives))
    assert resolved.steps == resolved.num_policies * 2_000_000
    assert resolved.num_policies == {2: 10, 3: 36}[objectives]
    assert resolved.search.candidates == {2: 100, 3: 117}[objectives]
    assert resolved.search.active == 10
    assert resolved.rollout_steps == 250
    assert resolved.num_iterations == 800
    assert (resolved.search.stage_iterations, resolved.search.warmup) == (20, 100)


def test_tuned_preset_departs_where_measured() -> None:
    paper = PPOSettings()
    assert default_settings("Swimmer-v2").ppo == dataclasses.replace(paper, gamma=0.999)
    assert default_settings("Ant-v2").ppo == dataclasses.replace(paper, log_std=-1.0)
    assert default_settings("HalfCheetah-v2").ppo == paper
    assert default_settings("ucb_moppo/Swimmer-v2").ppo.gamma == 0.999
    assert default_settings("ucb_moppo/Swimmer-v2").problem == "Swimmer-v2"


def test_quick_preset_is_tuned_but_short() -> None:
    quick, tuned = default_settings("Swimmer-v2", "quick"), default_settings("Swimmer-v2")
    assert quick.ppo == tuned.ppo
    assert quick.steps < tuned.steps
    assert resolve(quick, make_spec()).num_iterations >= 10


@pytest.mark.parametrize("preset", ["tuned", "paper", "quick"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_by_default_evaluation_stays_under_a_quarter_of_training(problem: str, preset: str) -> None:
    config = resolve(default_settings(problem, preset), make_spec(3 if problem == "Hopper-v3" else 2))
    search = config.search
    boundaries = config.num_stages + 1
    evaluated = boundaries * config.num_policies * search.probes * config.episodes * 1000
    assert evaluated < 0.25 * config.num_iterations * config.steps_per_iteration


def test_unknown_preset() -> None:
    with pytest.raises(ConfigError, match=r"unknown preset 'papr'; did you mean paper"):
        default_settings("Swimmer-v2", "papr")


# --- override -----------------------------------------------------------------------------------------


def test_override_finds_the_section() -> None:
    base = default_settings("Swimmer-v2")
    changed = override(base, seed=3, gamma=0.5, probes=4, warmup=None)
    assert (changed.seed, changed.ppo.gamma, changed.search.probes) == (3, 0.5, 4)
    assert (base.seed, base.ppo.gamma, base.search.probes) == (0, 0.999, 10)
    assert changed.search.warmup is None
    assert override(changed, seed=None) == changed  # None leaves a setting alone
    assert override(base, decay=False).ppo.decay is False  # but False is a value
    assert override(base, warmup=0).search.warmup == 0  # and so is 0


def test_override_turns_lists_into_tuples() -> None:
    changed = override(default_settings("Swimmer-v2"), reference_point=[1, 2], pivots=[[0.5, 0.5], [0.1, 0.9]])
    assert changed.reference_point == (1, 2)
    assert changed.search.pivots == ((0.5, 0.5), (0.1, 0.9))


@pytest.mark.parametrize(
    ("name", "nearest"), [("gama", "gamma"), ("learning_rte", "learning_rate"), ("polices", "policies")]
)
def test_unknown_setting_is_answered_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=rf"unknown setting '{name}'; did you mean .*\b{nearest}\b"):
        override(default_settings("Swimmer-v2"), **{name: 1})


# --- JSON ---------------------------------------------------------------------------------------------

changes = st.fixed_dictionaries(
    {},
    optional={
        "method": st.sampled_from(["ucb", "mean", "random", "fixed"]),
        "seed": st.integers(0, 2**31),
        "steps": st.integers(1, 10**8),
        "horizon": st.integers(1, 5000),
        "reference_point": st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=3),
        "gamma": st.floats(0, 1),
        "learning_rate": st.floats(1e-6, 1),
        "decay": st.booleans(),
        "log_std": st.floats(-3, 1),
        "normalise_observations": st.booleans(),
        "policies": st.integers(1, 50),
        "candidates": st.integers(10, 200),
        "pivots": st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=4),
        "warmup": st.integers(0, 50),
        "selection": st.sampled_from(["sequential", "top_n"]),
        "candidate_values": st.sampled_from(["probes", "simulate"]),
    },
)


@settings(max_examples=60, deadline=None)
@given(
    problem=st.sampled_from(["Swimmer-v2", "Ant-v2", "minecart-v0", "package.module:own-v0"]),
    preset=st.sampled_from(["tuned", "paper", "quick"]),
    changes=changes,
)
def test_json_round_trip(problem: str, preset: str, changes: dict[str, Any]) -> None:
    config = override(default_settings(problem, preset), **changes)
    assert from_json(json.loads(json.dumps(config.to_json()))) == config
    resolvable = config.steps >= (config.search.policies or 36) * config.ppo.samples
    if resolvable and config.search.pivots is None and config.reference_point is None:
        resolved = resolve(config, make_spec())
        assert resolve(from_json(json.loads(json.dumps(resolved.to_json()))), make_spec()) == resolved


def test_json_may_be_flat_and_partial() -> None:
    flat = from_json({"problem": "Swimmer-v2", "gamma": 0.9, "active": 5})
    assert flat == override(default_settings("Swimmer-v2"), gamma=0.9, active=5)
    assert from_json({"problem": "Swimmer-v2", "preset": "paper"}) == default_settings("Swimmer-v2", "paper")


def test_json_without_a_problem_or_with_an_unknown_setting() -> None:
    with pytest.raises(ConfigError, match="names no 'problem'"):
        from_json({"gamma": 0.9})
    with pytest.raises(ConfigError, match=r"unknown setting 'gama'; did you mean gamma"):
        from_json({"problem": "Swimmer-v2", "ppo": {"gama": 0.9}})


# --- what is decided ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "iterations", "stage", "warmup"),
    [
        (20_000_000, 800, 20, 100),  # an eighth of 800 is 5 stages of 20
        (5_000_000, 200, 20, 20),  # an eighth of 200 is 25: nearest to 1 stage
        (2_500_000, 100, 20, 20),  # 12.5 is nearest to 1 stage
        (500_000, 20, 4, 4),  # a fifth of 20; an eighth is 2.5, but never less than a stage
        (25_000, 1, 1, 1),
        (49_999, 1, 1, 1),  # what is left over of an iteration is not run
    ],
)
def test_stages_and_warmup_follow_the_length_of_the_run(
    steps: int, iterations: int, stage: int, warmup: int
) -> None:
    """Ten policies of 2,500 samples: 25,000 steps per iteration."""
    config = resolve(override(default_settings("HalfCheetah-v2"), steps=steps), make_spec())
    assert config.num_iterations == iterations
    search = config.search
    assert (search.stage_iterations, search.warmup, search.resample_iterations) == (stage, warmup, stage)
    assert (search.policies, search.candidates) == (10, 100)


def test_given_settings_stand() -> None:
    base = override(default_settings("HalfCheetah-v2"), policies=4, candidates=30, stage_iterations=7, warmup=0)
    config = resolve(override(base, resample_iterations=3, replicas=3), make_spec(horizon=50))
    search = config.search
    assert (search.policies, search.candidates, search.stage_iterations) == (4, 30, 7)
    assert (search.warmup, search.resample_iterations) == (0, 3)
    assert config.num_policies == 12
    assert config.steps_per_iteration == 12 * 2500
    assert (config.horizon, config.reference_point) == (50, (0.0, 0.0))
    assert resolve(config, make_spec(horizon=50)) == config  # deciding twice changes nothing


def test_candidates_are_never_fewer_than_active() -> None:
    config = resolve(override(default_settings("HalfCheetah-v2"), active=250), make_spec())
    assert config.search.candidates == 250


def test_warmup_never_outlasts_the_run() -> None:
    config = resolve(override(default_settings("HalfCheetah-v2"), steps=250_000, warmup=99), make_spec())
    assert config.search.warmup == config.num_iterations == 10


def test_pivots_decide_the_number_of_policies() -> None:
    three = override(default_settings("HalfCheetah-v2"), pivots=[(0.2, 0.8), (0.5, 0.5), (0.9, 0.1)])
    assert resolve(three, make_spec()).search.policies == 3
    with pytest.raises(ConfigError, match=r"policies is 4 but 3 pivots.*leave --policies out"):
        resolve(override(three, policies=4), make_spec())


def test_too_few_steps() -> None:
    with pytest.raises(
        ConfigError, match=r"steps is 24999, too few.*10 policies × 2500 samples need --steps 25000"
    ):
        resolve(override(default_settings("HalfCheetah-v2"), steps=24_999), make_spec())


def test_reference_point_of_the_wrong_length() -> None:
    with pytest.raises(ConfigError, match=r"\(0, 0, 0\) has 3 numbers, but fake has 2 objectives"):
        resolve(override(default_settings("HalfCheetah-v2"), reference_point=(0, 0, 0)), make_spec())


def test_left_over_samples_take_another_turn() -> None:
    """2,500 samples in minibatches of 64: 39 gradient steps per epoch; a minibatch larger than all: one."""
    assert PPOSettings().num_minibatches == 39
    assert PPOSettings(samples=10, minibatch=64).num_minibatches == 1
