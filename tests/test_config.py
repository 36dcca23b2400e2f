"""Settings: what is refused and with what advice, presets, the JSON round trip, and what is decided when."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucb_moppo import envs
from ucb_moppo.algos.ppo.ppo_settings import PPOSettings
from ucb_moppo.config import (
    MoppoConfig,
    MoppoSettings,
    default_settings,
    from_json,
    make_settings,
    override,
    resolve,
    setting_types,
)
from ucb_moppo.config.elsewhere import ELSEWHERE
from ucb_moppo.config.resolved import MIN_ITERATIONS, Effort, decide_evaluation, decide_learning
from ucb_moppo.envs import PROBLEMS
from ucb_moppo.errors import ConfigError
from ucb_moppo.spec import ActionSpec, EnvSpec
from ucb_moppo.training.train import describe_unsearched


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
        *((name, 0, "at least 1") for name in ("epochs", "minibatch", "cells", "layers")),
        *(
            (name, value, "positive")
            for name in ("clip", "learning_rate", "adam_epsilon", "max_grad_norm")
            for value in (0.0, -1.0, float("inf"), float("nan"))
        ),
        *(
            (name, 0, "at least 1")
            for name in ("policies", "candidates", "active", "samples", "replicas", "stage_iterations", "probes")
        ),
        ("ensemble", 1, "at least 2"),
        *((name, -1, "negative") for name in ("warmup", "together", "resample_iterations", "held_out")),
        ("resample_iterations", 0, "at least 1: leave it out"),
        ("layers", 17, "16 at most"),
        ("activation", "tahn", "did you mean tanh"),
        ("layout", "statik", "did you mean static"),
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
    base = default_settings("Swimmer-v2")
    with pytest.raises(ConfigError, match=r"samples \(2500\) must be a multiple of active \(8\)"):
        override(base, active=8, samples=2500)
    assert resolve(override(base, active=8, samples=2400), make_spec()).rollout_steps == 300


@pytest.mark.parametrize("given", [{"samples": 2510}, {"candidates": 10}])
def test_what_is_given_must_fit_what_is_decided(given: dict[str, int]) -> None:
    """25 environments a sub-space (100 among 4): 2,510 samples cannot be shared by them, nor 10 candidates."""
    with pytest.raises(ConfigError, match=r"samples.*active|active.*candidates"):
        resolve(override(default_settings("Swimmer-v2"), **given), make_spec())


# --- presets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "problem", ["Swimmer-v2", "HalfCheetah-v2", "Walker2d-v2", "Ant-v2", "Hopper-v2", "Hopper-v3"]
)
def test_paper_preset_is_the_paper_s_table(problem: str) -> None:
    """SPEC §2, §4 and §5: 2·10⁶ samples for each of 3 · 10 policies, or of 3 · 36 for three objectives.

    What the paper leaves open is as in Stable-Baselines3, which it uses: no decay, observations as they come.
    """
    config = default_settings(problem, "paper")
    ppo = {
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "clip": 0.2,
        "epochs": 10,
        "minibatch": 64,
        "learning_rate": 3e-4,
        "adam_epsilon": 1e-5,
        "decay": False,
        "value_coefficient": 0.5,
        "entropy_coefficient": 0.0,
        "max_grad_norm": 0.5,
        "cells": 64,
        "layers": 2,
        "activation": "tanh",
        "log_std": 0.0,
        "normalise_observations": False,
    }
    objectives = 3 if problem == "Hopper-v3" else 2
    resolved = resolve(config, make_spec(objectives))
    assert {name: getattr(resolved.ppo, name) for name in ppo} == ppo
    search = {
        "layout": "static",
        "policies": {2: 10, 3: 36}[objectives],
        "replicas": 3,
        "candidates": {2: 100, 3: 117}[objectives],
        "active": 10,
        "samples": 2500,
        "probes": 10,
        "candidate_values": "simulate",
        "surrogate": "elastic_net",
        "confidence": "objectives",
        "acquisition": "hypervolume",
        "selection": "sequential",
        "ensemble": 10,
    }
    assert {name: getattr(resolved.search, name) for name in search} == search
    assert resolved.num_subspaces == {2: 30, 3: 108}[objectives]
    assert resolved.steps == resolved.num_subspaces * 2_000_000
    assert resolved.shared_iterations == 0
    assert (resolved.rollout_steps, resolved.episodes, resolved.num_iterations) == (250, 1, 800)


@pytest.mark.parametrize(
    ("action", "horizon", "expected"),
    [
        (ActionSpec(False, 2, (-1.0,) * 2, (1.0,) * 2), 1000, (0.99, 3e-4, 0.0)),
        (ActionSpec(True, 4), 1000, (0.998, 1e-3, 0.2)),
        (ActionSpec(True, 4), 100, (0.995, 1e-3, 0.2)),
        (ActionSpec(False, 5, (0.0,) * 5, choices=(4,) * 5), 100, (0.995, 1e-3, 0.04)),
    ],
)
def test_choices_are_learnt_otherwise_than_quantities(
    action: ActionSpec, horizon: int, expected: tuple[float, float, float]
) -> None:
    """γ = 1 − 2/H from 400 steps on; the entropies of several choices add up, so each has a share of the bonus."""
    spec = dataclasses.replace(make_spec(), action=action, horizon=horizon)
    ppo = resolve(default_settings("my_lab:Env-v0"), spec).ppo
    assert (ppo.gamma, ppo.learning_rate, ppo.entropy_coefficient) == pytest.approx(expected)


def test_a_lander_is_weighed_as_it_is_published_by_every_method() -> None:
    """Its engines' costs vary a fourteenth as much as the rest by random actions, but are in the same unit."""
    for problem, method in (
        ("mo-lunar-lander-v3", "ucb"),
        ("mo-lunar-lander-continuous-v3", "ucb"),
        ("mo-lunar-lander-continuous-v3", "capql"),
    ):
        assert make_settings(problem, method).objective_scales == (1.0,) * 4


def test_what_is_given_is_not_decided() -> None:
    spec = dataclasses.replace(make_spec(), action=ActionSpec(True, 4))
    given = {"gamma": 0.5, "learning_rate": 0.25, "entropy_coefficient": 0.0}
    ppo = resolve(override(default_settings("my_lab:Env-v0"), **given), spec).ppo
    assert (ppo.gamma, ppo.learning_rate, ppo.entropy_coefficient) == (0.5, 0.25, 0.0)


@pytest.mark.parametrize("preset", ["tuned", "paper"])
def test_esr_has_no_discount_whatever_the_preset_has_for_a_sum(preset: str) -> None:
    """The swimmer's is 0.9999, the paper's 0.99; one that is given stands."""
    for given_gamma, expected in ((None, 1.0), (0.9, 0.9)):
        settings = make_settings(
            "Swimmer-v2", preset=preset, utility="floors", floors=("1=2",), criterion="esr", gamma=given_gamma
        )
        assert decide_learning(settings.ppo, make_spec(), settings.goal).gamma == expected


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("decay", "off", "true or false"),
        ("normalise_observations", "False", "true or false"),
        ("steps", 2e6, "a whole number"),
        ("steps", "2M", "a whole number"),
        ("policies", 4.5, "a whole number"),
        ("gamma", "high", "a number"),
        ("reference_point", 5, "a list"),
    ],
)
def test_a_setting_of_another_kind_is_refused(name: str, value: Any, wanted: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is {value!r}; it must be {wanted}"):
        override(default_settings("Swimmer-v2"), **{name: value})


def test_numbers_of_numpy_are_numbers() -> None:
    found = override(default_settings("Swimmer-v2"), steps=np.int64(60_000), gamma=np.float32(0.5))
    assert (found.steps, found.ppo.gamma, type(found.steps)) == (60_000, 0.5, int)


@pytest.mark.parametrize(
    ("problem", "policies"),
    [("mo-hopper-v5", 36), ("minecart-v0", 36), ("mo-ant-2obj-v5", 10), ("their.own:env-v0", 10)],
)
def test_paper_preset_has_steps_for_the_policies_of_any_problem(problem: str, policies: int) -> None:
    """2·10⁶ samples for each of 3 · 10 policies of two objectives, or of 3 · 36 of three, where these are known."""
    assert default_settings(problem, "paper").steps == 3 * policies * 2_000_000


def test_paper_preset_has_steps_for_the_policies_that_are_asked_for() -> None:
    """2·10⁶ for each of R · K, where K is 10 for two objectives; steps that are given or read stand."""

    def steps(method: str = "ucb", **given: Any) -> int:
        return make_settings("Hopper-v2", method, "paper", **given).steps

    assert steps(replicas=1) == 20_000_000
    assert steps(replicas=2, policies=5) == 20_000_000
    assert steps(pivots=[[0.2, 0.8], [0.8, 0.2]]) == 3 * 2 * 2_000_000
    assert steps(replicas=1, steps=7_000_000) == 7_000_000
    assert steps("pdmorl", policies=5) == steps(policies=5) == 30_000_000
    assert make_settings("Hopper-v2", replicas=2).steps == 5_000_000
    assert from_json({"problem": "Hopper-v2", "preset": "paper", "replicas": 1}).steps == 20_000_000
    longer = make_settings("Hopper-v2", preset="paper", replicas=1, steps=60_000_000)
    assert from_json(json.loads(json.dumps(longer.to_json()))) == longer


def test_paper_preset_has_no_entropy_bonus_for_choices_either() -> None:
    choices = dataclasses.replace(make_spec(), action=ActionSpec(True, 4))
    assert resolve(default_settings("minecart-v0", "paper"), choices).ppo.entropy_coefficient == 0.0


def test_paper_preset_has_the_paper_s_stages() -> None:
    """SPEC §5: stages of 20 iterations, the first 100 of 800 on the pivots."""
    search = resolve(default_settings("HalfCheetah-v2", "paper"), make_spec()).search
    assert (search.stage_iterations, search.warmup) == (20, 100)


def test_tuned_preset_departs_where_measured() -> None:
    paper = PPOSettings()
    assert default_settings("Swimmer-v2").ppo == dataclasses.replace(paper, gamma=0.9999, cells=64)
    ant = dataclasses.replace(paper, log_std=-1.0, entropy_coefficient=0.005, target_kl=0.02)
    assert default_settings("Ant-v2").ppo == default_settings("mo-ant-v5").ppo == ant
    assert default_settings("HalfCheetah-v2").ppo == dataclasses.replace(paper, gae_lambda=0.9, log_std=-0.7)
    assert default_settings("Walker2d-v2").ppo == dataclasses.replace(paper, gae_lambda=0.9)
    assert default_settings("mo-walker2d-v5").ppo == default_settings("Walker2d-v2").ppo
    humanoid = {"gamma": 0.97, "gae_lambda": 0.9, "log_std": -1.5, "minibatch": 256, "target_kl": 0.02}
    assert default_settings("mo-humanoid-v5").ppo == dataclasses.replace(paper, **humanoid)
    assert default_settings("ucb_moppo/Swimmer-v2").ppo.gamma == 0.9999
    assert default_settings("ucb_moppo/Swimmer-v2").problem == "Swimmer-v2"


def test_quick_preset_is_tuned_but_short() -> None:
    quick, tuned = default_settings("Swimmer-v2", "quick"), default_settings("Swimmer-v2")
    assert quick.ppo == tuned.ppo
    assert quick.steps < tuned.steps
    assert resolve(quick, make_spec()).num_iterations >= 10


BUDGETS = (50_000, 100_000, 300_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 20_000_000)


def evaluated_steps(config: MoppoConfig) -> int:
    """Steps of all evaluations, every episode to the horizon: one before training and one after every stage."""
    search = config.search
    per_policy = search.probes + (search.candidates if search.candidate_values == "simulate" else 0)
    return (config.num_stages + 1) * config.num_subspaces * per_policy * config.episodes * config.horizon


def assert_evaluation_is_a_quarter_at_most(config: MoppoConfig) -> None:
    assert evaluated_steps(config) < 0.25 * config.num_iterations * config.steps_per_iteration


@pytest.mark.parametrize("preset", ["tuned", "quick"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_by_default_evaluation_stays_under_a_quarter_of_training(problem: str, preset: str) -> None:
    spec = make_spec(3 if problem == "Hopper-v3" else 2)
    assert_evaluation_is_a_quarter_at_most(resolve(default_settings(problem, preset), spec))


@pytest.mark.parametrize("steps", BUDGETS)
@pytest.mark.parametrize(
    ("problem", "num_objectives", "horizon"),
    [
        *((problem, 3 if problem == "Hopper-v3" else 2, 1000) for problem in PROBLEMS),
        ("deep-sea-treasure-v0", 2, 100),
        ("resource-gathering-v0", 3, 100),
        ("minecart-v0", 3, 1000),
        ("own:Four-v0", 4, 200),
        ("fruit-tree-v0", 6, 6),
    ],
)
def test_any_budget_leaves_three_quarters_to_training(
    problem: str, num_objectives: int, horizon: int, steps: int
) -> None:
    config = resolve(override(default_settings(problem), steps=steps), make_spec(num_objectives, horizon))
    assert_evaluation_is_a_quarter_at_most(config)
    search = config.search
    # As good as all of the budget is trained with, in enough iterations to learn from.
    assert 0.9 * steps <= config.num_iterations * config.steps_per_iteration <= steps
    assert search.samples == search.active * config.rollout_steps
    assert 1 <= search.active <= search.candidates
    assert search.stage_iterations <= config.num_iterations
    assert search.warmup % search.stage_iterations == 0 or search.warmup == config.num_iterations


@pytest.mark.parametrize(
    ("problem", "steps"),
    [
        *(
            (p, 50_000)
            for p in ("Walker2d-v2", "Hopper-v2", "minecart-v0", "Swimmer-v2", "HalfCheetah-v2", "Ant-v2")
        ),
        ("Swimmer-v2", 300_000),
    ],
)
def test_a_short_run_is_updated_often_enough(problem: str, steps: int) -> None:
    config = resolve(override(default_settings(problem), steps=steps), make_spec())
    assert config.num_iterations >= MIN_ITERATIONS


@pytest.mark.parametrize("problem", ["Walker2d-v2", "HalfCheetah-v2", "Ant-v2"])
def test_active_can_be_given_alone(problem: str) -> None:
    """On any problem: samples follow, unless they are given too."""
    assert resolve(override(default_settings(problem), active=10), make_spec()).search.active == 10


def test_fruit_tree_s_own_spec_leaves_three_quarters_to_training() -> None:
    """It names no limit of its steps, so its horizon is what is taken for one."""
    spec = envs.make_spec("fruit-tree-v0")
    assert spec.num_objectives == 6
    config = resolve(override(default_settings("fruit-tree-v0"), steps=50_000), spec)
    assert_evaluation_is_a_quarter_at_most(config)


@pytest.mark.parametrize(
    ("steps", "effort"),
    [
        # Four sub-spaces, episodes of 1,000 steps, a fifth of the steps for them: probes × episodes × (stages + 1)
        # × 4,000 of them.
        (20_000_000, Effort(8, 2, 20)),  # 62 evaluations could be paid; 20 stages are enough
        (2_500_000, Effort(8, 2, 6)),  # 500,000 / 64,000 = 7.8 evaluations
        (1_000_000, Effort(8, 1, 5)),  # 8 × 2 for 4 evaluations would be 256,000; 200,000 / 32,000 = 6.25
        (500_000, Effort(5, 1, 4)),  # 8 × 1 would be 128,000; 100,000 / 20,000 = 5
        (200_000, Effort(2, 1, 4)),  # 3 × 1 would be 48,000; 40,000 / 8,000 = 5
        (100_000, Effort(1, 1, 4)),  # 2 × 1 would be 32,000; 20,000 / 4,000 = 5
        (50_000, Effort(1, 1, 1)),  # 1 × 1 would be 16,000; 10,000 / 4,000 = 2.5
        (20_000, Effort(1, 1, 1)),  # never less than a stage of one probe
    ],
)
def test_evaluation_is_as_thorough_as_a_fifth_of_the_steps_pays_for(steps: int, effort: Effort) -> None:
    settings = override(default_settings("HalfCheetah-v2"), steps=steps)
    assert decide_evaluation(settings, subspaces=4, horizon=1000, iterations=100) == effort


def test_evaluation_that_is_given_stands_and_stages_follow() -> None:
    """20 probes × 3 episodes × 4 sub-spaces × 1,000 steps = 240,000; a fifth of 5M pays for 4.17 evaluations."""
    settings = override(default_settings("HalfCheetah-v2"), steps=5_000_000, probes=20, episodes=3)
    assert decide_evaluation(settings, subspaces=4, horizon=1000, iterations=100) == Effort(20, 3, 3)
    # Two iterations cannot have more than two stages, however much could be paid.
    assert decide_evaluation(settings, subspaces=4, horizon=10, iterations=2) == Effort(20, 3, 2)


@pytest.mark.parametrize(
    "given",
    [
        {"candidates": 40},
        {},
    ],
)
def test_simulated_candidates_are_part_of_what_evaluation_costs(given: dict[str, int]) -> None:
    """40 candidates, or the 100 that there are where none are given, beside the probes of each sub-space."""
    settings = override(default_settings("HalfCheetah-v2"), steps=20_000_000, candidate_values="simulate", **given)
    assert_evaluation_is_a_quarter_at_most(resolve(settings, make_spec()))


def test_unknown_preset() -> None:
    with pytest.raises(ConfigError, match=r"unknown preset 'papr'; did you mean paper"):
        default_settings("Swimmer-v2", "papr")


# --- override -----------------------------------------------------------------------------------------


def test_override_finds_the_section() -> None:
    base = default_settings("Swimmer-v2")
    changed = override(base, seed=3, gamma=0.5, probes=4, warmup=None)
    assert (changed.seed, changed.ppo.gamma, changed.search.probes) == (3, 0.5, 4)
    assert (base.seed, base.ppo.gamma, base.search.probes) == (0, 0.9999, None)
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


@pytest.mark.parametrize(
    ("name", "ours"), [("total_timesteps", "steps"), ("ent_coef", "entropy_coefficient"), ("lr", "learning_rate")]
)
def test_a_setting_of_another_library_is_answered_with_its_name_here(name: str, ours: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown setting '{name}'; here it is {ours}$"):
        override(default_settings("Swimmer-v2"), **{name: 1})


def test_what_another_library_calls_a_setting_is_no_setting_here() -> None:
    """Every name on the right can be given; none on the left can, or it would be refused for nothing."""
    known = {*setting_types(MoppoSettings), "out", "tensorboard", "wandb"}
    assert set(ELSEWHERE.values()) <= known
    assert not known & set(ELSEWHERE)


class Made:
    """An environment that somebody has made, which knows its id."""

    spec = SimpleNamespace(id="mo-hopper-v5")


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (Made(), "problem is a Made; give its id as text, 'mo-hopper-v5', or 'package.module:id'"),
        (Made, "problem is a Made; give its id as text, 'mo-hopper-v5'"),
        (None, "problem is a NoneType; give its id as text, e.g. 'mo-hopper-v5'"),
    ],
)
def test_an_environment_is_asked_for_by_its_id(problem: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_settings(problem)


def test_arrays_are_taken_as_lists_are() -> None:
    settings = make_settings("Hopper-v2", reference_point=np.array([0.0, -1.0]), steps=np.int64(50_000))
    assert (settings.reference_point, settings.steps) == ((0.0, -1.0), 50_000)


# --- what has no effect ---------------------------------------------------------------------------------

NO_EFFECT: list[tuple[dict[str, Any], str]] = [
    ({"layout": "static", "together": 5}, "together is 5, but in layout static .* give --layout parting"),
    ({"preset": "paper", "together": 5}, "together is 5, but in layout static"),
    ({"rollout": 30, "samples": 400}, "rollout is 30, but samples is 400, .* leave --rollout out"),
    ({"preset": "paper", "rollout": 30}, "rollout is 30, but samples is 2500"),
    ({"nadir": (0.0, 0.0)}, "nadir is .*, which utility linear does not look at; did you mean --utility chebyshev"),
    ({"rho": 0.1}, "rho is 0.1, which utility linear does not look at; did you mean --utility chebyshev"),
    ({"floor_penalty": 2.0}, "floor_penalty is 2.0, which utility linear .* did you mean --utility floors"),
    ({"utility": "floors", "floors": ("1=2",), "rho": 0.1}, "rho is 0.1, which utility floors does not look at"),
]


@pytest.mark.parametrize(("given", "message"), NO_EFFECT)
def test_what_is_given_without_effect_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_settings("Swimmer-v2", **given)


@pytest.mark.parametrize(
    "given",
    [
        {"layout": "static", "together": 0},
        {"together": 5, "samples": 400},
        {"utility": "floors", "floors": ("1=2",), "nadir": (0.0, 0.0), "floor_penalty": 2.0},
        {"utility": "chebyshev", "ideal": (1.0, 1.0), "rho": 0.1},
    ],
)
def test_what_is_given_with_effect_is_not(given: dict[str, Any]) -> None:
    make_settings("Swimmer-v2", **given)


@pytest.mark.parametrize(("given", "message"), NO_EFFECT)
def test_what_a_run_has_decided_is_read_again(given: dict[str, Any], message: str) -> None:
    """Every value stands in its config.json, also one that had no effect in a run of an older version."""
    preset = given.get("preset", "tuned")
    older = override(default_settings("Swimmer-v2", preset), **given)
    config = resolve(older, make_spec())
    stored = from_json(json.loads(json.dumps(config.to_json())))
    assert resolve(stored, make_spec()) == config


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
        "candidates": st.integers(100, 200),
        "pivots": st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=4),
        "warmup": st.integers(0, 50),
        "selection": st.sampled_from(["sequential", "top_n"]),
        "candidate_values": st.sampled_from(["probes", "simulate"]),
        "layout": st.sampled_from(["parting", "static"]),
        "held_out": st.integers(0, 50),
        "episodes": st.integers(1, 9),
        "probes": st.integers(1, 30),
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
    resolvable = config.steps >= (config.search.policies or 36) * config.search.replicas * 2500
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


STATIC: dict[str, Any] = {
    **{"layout": "static", "policies": 10, "active": 10, "samples": 2500, "probes": 10, "episodes": 1}
}
"""What a run is that trains policies apart from the start, as the paper does."""


@pytest.mark.parametrize(
    ("steps", "iterations", "stage", "warmup"),
    [
        # An evaluation is 10 policies × 10 probes × 1,000 steps = 100,000, of a fifth of the steps.
        (20_000_000, 800, 40, 80),  # 20 stages at most; an eighth of 800 is 2.5 of them, nearest to 2
        (5_000_000, 200, 23, 23),  # 10 evaluations, 9 stages; an eighth of 200 is 25: nearest to 1 stage
        (2_500_000, 100, 25, 25),  # 5 evaluations; 12.5 is half a stage, but never less than one
        (500_000, 20, 10, 10),  # one could be paid: there are three, so that one stage searches
        (25_000, 1, 1, 1),
        (49_999, 1, 1, 1),  # what is left over of an iteration is not run
    ],
)
def test_stages_and_warmup_follow_the_length_of_the_run(
    steps: int, iterations: int, stage: int, warmup: int
) -> None:
    """Ten policies of 2,500 samples: 25,000 steps per iteration."""
    config = resolve(override(default_settings("HalfCheetah-v2"), **STATIC, steps=steps), make_spec())
    assert config.num_iterations == iterations
    search = config.search
    assert (search.stage_iterations, search.warmup, search.resample_iterations) == (stage, warmup, stage)
    assert (search.policies, search.candidates, config.shared_iterations) == (10, 100, 0)


@pytest.mark.parametrize(
    ("num_objectives", "steps", "policies"),
    [
        (2, 50_000, 4),
        (3, 50_000, 5),
        (3, 60_000, 6),
        (9, 50_000, 5),
        (9, 100_000, 10),
        (9, 180_000, 18),
        (9, 9_000, 4),
    ],
)
def test_sub_spaces_are_as_many_as_can_be_evaluated(num_objectives: int, steps: int, policies: int) -> None:
    """Two per objective, as far as two episodes of 1,000 steps in each are a fifth of the steps; four at least."""
    config = resolve(override(default_settings("own:Own-v0"), steps=steps), make_spec(num_objectives))
    assert config.search.policies == policies
    if steps >= 50_000:
        episodes = (config.num_stages + 1) * policies * config.search.probes * config.episodes
        assert episodes * 1000 < steps / 4


SIMULATE = {"candidate_values": "simulate"}


@pytest.mark.parametrize(
    ("preset", "given", "boundaries"),
    [
        ("tuned", SIMULATE, [0, 1000, 2000]),  # of 5M: 4 × 101 × 1,000 steps an evaluation, 1.2M for three
        ("tuned", SIMULATE | {"steps": 4_000_000}, [0, 800, 1600]),  # more than a quarter, but asked for
        ("paper", {"steps": 60_000_000}, [0, 100, 800]),
        ("paper", {"steps": 5_000_000}, [0, 20, 66]),
        ("paper", {"steps": 500_000}, [0, 1, 6]),  # an eighth of six, in stages of 20
        ("tuned", {"steps": 50_000}, [0, 25, 50]),  # 4 × 1,000 steps an evaluation, three are 12,000
        ("tuned", {"steps": 40_000}, [0, 40]),  # of 40,000 they would be more than a quarter, two are less
        ("tuned", {"steps": 20_000}, [0, 10, 20]),  # of 20,000 both are more
        ("tuned", {"steps": 40_000, "stage_iterations": 40}, [0, 10, 40]),  # asked for
        ("tuned", {"steps": 1000}, [0, 1]),
        ("tuned", {"steps": 2000}, [0, 1, 2]),
        ("tuned", {"steps": 5_000_000, "warmup": 9999}, [0, 2000]),
        ("tuned", {"steps": 20_000, "warmup": 5}, [0, 5, 20]),
    ],
)
def test_something_is_left_to_search(preset: str, given: dict[str, Any], boundaries: list[int]) -> None:
    """Two stages at least, unless one alone keeps evaluation under a quarter, or a warm-up is given that is all."""
    config = resolve(override(default_settings("HalfCheetah-v2", preset), **given), make_spec())
    assert config.boundaries == boundaries
    stored = from_json(json.loads(json.dumps(config.to_json())))
    assert resolve(stored, make_spec()) == config


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"steps": 40_000}, "all 40 iterations of the run, which trains as method random does; give --warmup 10,"),
        ({"steps": 1000}, "as method random does; give --steps 2000 or more"),
        ({"layout": "static", "warmup": 99, "steps": 50_000}, "which trains as method fixed does"),
        ({"method": "fixed", "steps": 40_000}, "which trains as method random does"),
        ({"method": "random", "steps": 40_000}, None),
        ({"method": "fixed", "layout": "static", "warmup": 99, "steps": 50_000}, None),
        ({"steps": 50_000}, None),
        ({}, None),
    ],
)
def test_a_method_that_chooses_no_weights_is_told(given: dict[str, Any], told: str | None) -> None:
    config = resolve(override(default_settings("HalfCheetah-v2"), **given), make_spec())
    found = describe_unsearched(config)
    assert found is None if told is None else told in str(found)


def test_a_static_layout_has_the_paper_s_policies() -> None:
    """Where nothing else is said: 10 for two objectives, 36 for three; in a layout that parts two an objective."""
    for num_objectives, policies in ((2, 10), (3, 36)):
        static = override(default_settings("HalfCheetah-v2"), layout="static")
        assert resolve(static, make_spec(num_objectives)).search.policies == policies
        parting = default_settings("HalfCheetah-v2")
        assert resolve(parting, make_spec(num_objectives)).search.policies == 2 * num_objectives


def test_given_settings_stand() -> None:
    base = override(default_settings("HalfCheetah-v2"), policies=4, candidates=30, stage_iterations=7, warmup=0)
    given = {"resample_iterations": 3, "replicas": 3, "active": 10, "samples": 2500, "probes": 6, "episodes": 4}
    config = resolve(override(base, **given, together=21), make_spec(horizon=50))
    search = config.search
    assert (search.policies, search.candidates, search.stage_iterations) == (4, 30, 7)
    assert (search.warmup, search.resample_iterations) == (0, 3)
    assert (search.active, search.samples, search.probes, config.episodes) == (10, 2500, 6, 4)
    assert (search.together, config.shared_iterations) == (21, 21)
    assert config.num_subspaces == 12
    assert config.steps_per_iteration == 12 * 2500
    assert (config.horizon, config.reference_point) == (50, (0.0, 0.0))
    assert resolve(config, make_spec(horizon=50)) == config  # deciding twice changes nothing


def test_a_stage_ends_with_the_warm_up_and_with_the_parting() -> None:
    """100 iterations in stages of 30, 20 of warm-up, 70 together: 20, 30, 20 and 30 of them."""
    given = {"stage_iterations": 30, "warmup": 20, "together": 70, "active": 10, "samples": 2500, "policies": 4}
    config = resolve(override(default_settings("HalfCheetah-v2"), **given, steps=1_000_000), make_spec())
    assert config.num_iterations == 100
    assert config.boundaries == [0, 20, 70, 100]
    assert config.num_stages == 4  # 1 + 2 + 1
    assert resolve(override(config, warmup=70), make_spec()).boundaries == [0, 70, 100]
    assert resolve(override(config, warmup=0, together=100), make_spec()).boundaries == [0, 100]
    static = resolve(override(config, layout="static"), make_spec())
    assert (static.boundaries, static.shared_iterations) == ([0, 20, 100], 0)


def test_candidates_are_never_fewer_than_active() -> None:
    config = resolve(override(default_settings("Walker2d-v2"), active=250), make_spec())
    assert config.search.candidates == 250


def test_warmup_never_outlasts_the_run() -> None:
    settings = override(default_settings("HalfCheetah-v2"), **STATIC, steps=250_000, warmup=99)
    config = resolve(settings, make_spec())
    assert config.search.warmup == config.num_iterations == 10
    apart = resolve(override(settings, layout="parting", together=99), make_spec())
    assert apart.search.together == apart.shared_iterations == 10


def test_pivots_decide_the_number_of_policies() -> None:
    three = override(default_settings("HalfCheetah-v2"), pivots=[(0.2, 0.8), (0.5, 0.5), (0.9, 0.1)])
    assert resolve(three, make_spec()).search.policies == 3
    with pytest.raises(ConfigError, match=r"policies is 4 but 3 pivots.*leave --policies out"):
        resolve(override(three, policies=4), make_spec())


def test_too_few_steps() -> None:
    with pytest.raises(
        ConfigError, match=r"steps is 24999, too few.*10 policies × 2500 samples need --steps 25000"
    ):
        resolve(override(default_settings("HalfCheetah-v2"), **STATIC, steps=24_999), make_spec())


def test_reference_point_of_the_wrong_length() -> None:
    with pytest.raises(ConfigError, match=r"\(0, 0, 0\) has 3 numbers, but fake has 2 objectives"):
        resolve(override(default_settings("HalfCheetah-v2"), reference_point=(0, 0, 0)), make_spec())
