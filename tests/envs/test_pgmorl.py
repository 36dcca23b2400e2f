"""PGMORL's protocol: the table of facts, and every rule by hand."""

from pathlib import Path

import gymnasium
import mujoco
import numpy as np
import pytest

from ucb_moppo.config import default_settings, from_json, override
from ucb_moppo.envs import PROBLEMS, describe_problems, find_problem, make_batch, make_spec
from ucb_moppo.envs.native import NativeBatch
from ucb_moppo.envs.pgmorl import PGMORL_PROBLEMS
from ucb_moppo.envs.problems import load_model
from ucb_moppo.envs.registration import gymnasium_id
from ucb_moppo.errors import ConfigError

NAMES = list(PROBLEMS)
# From Xu et al.'s published models: gears, control bounds, damping of the driven joints, which joints are limited.
FACTS = {
    "Swimmer-v2": ([300, 300], [1, 1], 0.0, True),
    "HalfCheetah-v2": ([120, 90, 60, 120, 60, 30], [1] * 6, [6, 4.5, 3, 4.5, 3, 1.5], True),
    "Walker2d-v2": ([100] * 6, [1] * 6, 3.0, True),
    "Ant-v2": ([100] * 8, [1] * 8, 1.0, True),
    "Hopper-v2": ([200, 200, 300], [2, 2, 4], 40.0, False),
    "Hopper-v3": ([200, 200, 300], [2, 2, 4], 40.0, False),
}


@pytest.mark.parametrize("name", NAMES)
def test_models_are_those_of_the_table(name):
    gears, bounds, damping, limited = FACTS[name]
    model = load_model(PGMORL_PROBLEMS[name])
    driven = model.actuator_trnid[:, 0]
    np.testing.assert_array_equal(model.actuator_gear[:, 0], gears)
    np.testing.assert_array_equal(model.actuator_ctrlrange, np.array([[-b, b] for b in bounds], float))
    np.testing.assert_array_equal(
        model.dof_damping[model.jnt_dofadr[driven]], np.broadcast_to(damping, driven.shape)
    )
    assert (model.jnt_limited[driven] == limited).all()
    # The root joints move freely, as in Gymnasium's model.
    root = np.setdiff1d(np.arange(model.njnt), driven)
    np.testing.assert_array_equal(model.dof_damping[model.jnt_dofadr[root]], 0)


def test_walker2d_is_half_as_heavy_again():
    """Density 1500 instead of 1000, so every mass is 1.5 times Gymnasium's."""
    theirs, ours = (load_model(problems["Walker2d-v2"]) for problems in (PGMORL_PROBLEMS, PROBLEMS))
    np.testing.assert_allclose(theirs.body_mass, 1.5 * ours.body_mass)


def test_swimmer_has_no_contacts():
    model = load_model(PGMORL_PROBLEMS["Swimmer-v2"])
    assert not model.geom_contype.any()
    assert not model.geom_conaffinity.any()


@pytest.mark.filterwarnings("ignore:.*settotalmass")
def test_gymnasiums_models_are_left_as_they_are():
    for name, problem in PROBLEMS.items():
        path = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / problem.model
        plain = mujoco.MjSpec.from_file(str(path)).compile()
        np.testing.assert_array_equal(load_model(problem).dof_damping, plain.dof_damping, err_msg=name)


def test_episodes_take_500_steps_and_hopper_skips_5_frames():
    assert {spec.horizon for spec in describe_problems("pgmorl")} == {500}
    assert {spec.reference_point for spec in describe_problems("pgmorl")} == {(0.0, 0.0), (0.0, 0.0, 0.0)}
    skips = {name: problem.frame_skip for name, problem in PGMORL_PROBLEMS.items()}
    assert skips == {
        "Swimmer-v2": 4,
        "HalfCheetah-v2": 5,
        "Walker2d-v2": 4,
        "Ant-v2": 5,
        "Hopper-v2": 5,
        "Hopper-v3": 5,
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_episode_starts_in_the_models_initial_state(name):
    batch = NativeBatch(PGMORL_PROBLEMS[name], 2, num_threads=1)
    observation = batch.reset(np.arange(2), [3, 4])
    start = mujoco.MjData(load_model(PGMORL_PROBLEMS[name]))
    hidden = PGMORL_PROBLEMS[name].num_hidden_positions
    expected = np.concatenate([start.qpos[hidden:], start.qvel])
    np.testing.assert_array_equal(observation, [expected, expected])


def healthy(name: str, qpos: list[float], qvel: list[float] | None = None) -> bool:
    problem = PGMORL_PROBLEMS[name]
    assert problem.healthy is not None
    return bool(problem.healthy(np.array([qpos]), np.array([qvel if qvel is not None else [0.0] * len(qpos)]))[0])


def test_half_cheetah_ends_beyond_50_degrees_of_pitch():
    inside, outside = np.deg2rad(49.9), np.deg2rad(50.0)
    assert healthy("HalfCheetah-v2", [0, 0, -inside, 0, 0, 0, 0, 0, 0])
    assert not healthy("HalfCheetah-v2", [0, 0, outside, 0, 0, 0, 0, 0, 0])


def test_hopper_ends_low_or_with_an_angle_beyond_90_degrees():
    right = np.deg2rad(90)
    assert healthy("Hopper-v2", [0, 0.41, 1.5, -1.5, 1.5, -1.5])
    assert not healthy("Hopper-v2", [0, 0.4, 0, 0, 0, 0])
    for joint in range(2, 6):
        qpos = [0.0, 1.25, 0, 0, 0, 0]
        qpos[joint] = right
        assert not healthy("Hopper-v3", qpos)
    assert healthy("Hopper-v2", [0, 1.25, 0, 0, 0, 0], [500.0] * 6)  # velocities are no matter


def test_ant_ends_only_where_its_state_is_not_finite():
    assert healthy("Ant-v2", [0.0] * 15)  # on its belly, below Gymnasium's 0.2
    assert not healthy("Ant-v2", [np.nan] + [0.0] * 14)
    assert not healthy("Ant-v2", [0.0] * 15, [np.inf] * 14)


def test_walker2d_keeps_gymnasiums_rule_and_swimmer_never_ends():
    assert PGMORL_PROBLEMS["Walker2d-v2"].healthy is PROBLEMS["Walker2d-v2"].healthy
    assert PGMORL_PROBLEMS["Swimmer-v2"].healthy is None


def test_the_actors_range_is_stretched_to_hoppers_and_effort_reaches_24():
    """Full throttle is a = (2, 2, 4): Σa² = 24, so the third objective is 4 − 24 + 1 = −19."""
    batch = NativeBatch(PGMORL_PROBLEMS["Hopper-v3"], 2, num_threads=1)
    batch.reset(np.arange(2), [0, 0])
    step = batch.step(np.array([[1.0, 1.0, 1.0], [9.0, 9.0, 9.0]]))
    np.testing.assert_array_equal(step.reward[:, 2], [-19.0, -19.0])
    np.testing.assert_array_equal(step.observation[0], step.observation[1])


@pytest.mark.parametrize("name", NAMES)
def test_the_registered_environment_agrees_with_the_batch_to_the_bit(name):
    env = gymnasium.make(gymnasium_id(name, "pgmorl"))
    batch = make_batch(name, 1, 1, protocol="pgmorl")
    observation, _ = env.reset(seed=5)
    np.testing.assert_array_equal(batch.reset(np.arange(1), [5])[0], observation)
    rng = np.random.default_rng(0)
    for _ in range(500):
        action = rng.uniform(-1.2, 1.2, batch.spec.action.size)
        step = batch.step(action[None])
        observation, reward, terminated, truncated, _ = env.step(batch.spec.action.to_environment(action))
        np.testing.assert_array_equal(step.observation[0], observation)
        np.testing.assert_array_equal(step.reward[0], reward)
        assert step.terminated[0] == terminated
        if terminated or truncated:
            break
    assert bool(step.truncated[0]) == (truncated and not terminated)
    env.close()


def test_a_protocol_is_refused_where_it_does_not_exist():
    with pytest.raises(ConfigError, match=r"unknown protocol 'pgmorI'.*pgmorl"):
        make_spec("Hopper-v2", protocol="pgmorI")
    with pytest.raises(ConfigError, match=r"defined for Swimmer-v2, .*not for 'deep-sea-treasure-v0'"):
        find_problem("deep-sea-treasure-v0", "pgmorl")
    with pytest.raises(ConfigError, match="unknown protocol"):
        override(default_settings("Hopper-v2"), protocol="pgmoral")


def test_the_protocol_is_kept_in_the_config():
    config = override(default_settings("Hopper-v2"), protocol="pgmorl")
    assert from_json(config.to_json()) == config
    old = {name: value for name, value in config.to_json().items() if name != "protocol"}
    assert from_json(old).protocol == "gymnasium"
