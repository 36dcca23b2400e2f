"""The six as Gymnasium environments, against the native batch."""

import subprocess
import sys

import gymnasium
import mo_gymnasium
import numpy as np
import pytest
from mo_gymnasium.wrappers.vector import MOSyncVectorEnv

from ucb_moppo.envs import PROBLEMS
from ucb_moppo.envs.adapter import GymBatch
from ucb_moppo.envs.native import NativeBatch
from ucb_moppo.envs.registration import gymnasium_id, register_problems

# Hopper-v3 is no newer Hopper-v2; pytest undoes the filter that registering installs.
pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")

NAMES = list(PROBLEMS)


@pytest.mark.parametrize("name", NAMES)
def test_one_environment_agrees_with_the_batch_to_the_bit(name):
    env = mo_gymnasium.make(gymnasium_id(name))
    batch = NativeBatch(PROBLEMS[name], 3, num_threads=1)
    observation = batch.reset(np.arange(3), [7, 8, 9])
    np.testing.assert_array_equal(env.reset(seed=8)[0], observation[1])
    actions = np.random.default_rng(0).uniform(-1.2, 1.2, (100, 3, batch.spec.action.size)).astype(np.float32)
    for time, action in enumerate(actions):
        seen, reward, terminated, truncated, _ = env.step(action[1])
        step = batch.step(action)
        np.testing.assert_array_equal(seen, step.observation[1])
        np.testing.assert_array_equal(reward, step.reward[1])
        assert (terminated, truncated) == (step.terminated[1], step.truncated[1])
        if terminated:
            fresh = batch.reset(np.array([1]), [time])
            np.testing.assert_array_equal(env.reset(seed=time)[0], fresh[0])


@pytest.mark.parametrize("name", NAMES)
def test_an_environment_declares_what_it_returns(name):
    env = gymnasium.make(gymnasium_id(name))
    problem = PROBLEMS[name]
    m = len(problem.objectives)
    assert env.spec.max_episode_steps == 1000
    assert env.unwrapped.reward_dim == m
    assert env.unwrapped.reward_space.shape == (m,)
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space
    observation, reward, _, _, info = env.step(env.action_space.sample())
    assert observation in env.observation_space
    assert reward in env.unwrapped.reward_space
    assert info == dict(zip(problem.objectives, reward, strict=True))


def test_the_time_limit_truncates():
    env = gymnasium.make(gymnasium_id("Swimmer-v2"), max_episode_steps=3)
    env.reset(seed=0)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_mo_gymnasiums_vector_environment_runs_them():
    envs = MOSyncVectorEnv([lambda: mo_gymnasium.make(gymnasium_id("Hopper-v3")) for _ in range(2)])
    observation, _ = envs.reset(seed=[3, 4])
    batch = NativeBatch(PROBLEMS["Hopper-v3"], 2, num_threads=1)
    np.testing.assert_array_equal(observation, batch.reset(np.arange(2), [3, 4]))
    action = np.full((2, 3), 0.25, dtype=np.float32)
    rewards = envs.step(action)[1]
    assert rewards.shape == (2, 3)
    np.testing.assert_array_equal(rewards, batch.step(action).reward.astype(np.float32))


def test_the_adapter_and_the_native_batch_are_the_same_problem():
    slow, fast = GymBatch(gymnasium_id("Hopper-v2"), 2), NativeBatch(PROBLEMS["Hopper-v2"], 2, num_threads=1)
    assert slow.spec.objectives == fast.spec.objectives
    assert slow.spec.action == fast.spec.action
    np.testing.assert_array_equal(slow.reset(np.arange(2), [5, 6]), fast.reset(np.arange(2), [5, 6]))
    for action in np.random.default_rng(2).uniform(-1, 1, (10, 2, 3)):
        single = action.astype(np.float32)  # the precision of the environment's action space
        for one, other in zip(slow.step(single), fast.step(single), strict=True):
            np.testing.assert_array_equal(one, other)


def test_registering_twice_changes_nothing(recwarn):
    before = dict(gymnasium.registry)
    register_problems()
    assert dict(gymnasium.registry) == before
    assert not recwarn


def run_program(program: str) -> tuple[str, str]:
    """What a fresh interpreter prints: stdout and stderr."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip(), done.stderr


def test_a_program_that_imports_only_gymnasium_can_make_one():
    program = """
import gymnasium
env = gymnasium.make("ucb_moppo.envs.registration:ucb_moppo/Hopper-v2")
env.reset(seed=0)
print(env.step(env.action_space.sample())[1].shape)
"""
    assert run_program(program) == ("(2,)", "")


def test_registering_is_cheap():
    program = """
import sys, ucb_moppo.envs.registration
print({"mujoco", "mo_gymnasium"} & set(sys.modules))
"""
    assert run_program(program) == ("set()", "")


def test_rendering_gives_a_picture():
    env = gymnasium.make(gymnasium_id("Swimmer-v2"), render_mode="rgb_array", width=64, height=48)
    env.reset(seed=0)
    try:
        picture = env.render()
    except Exception as fault:
        pytest.skip(f"no OpenGL here: {fault}")
    assert picture.shape == (48, 64, 3)
    assert picture.std() > 0


@pytest.mark.parametrize("name", NAMES)
def test_the_camera_follows_what_runs_away(name):
    """After ten metres along x the body stands where it stood in the picture: the camera has gone along."""
    env = gymnasium.make(gymnasium_id(name), render_mode="rgb_array", width=64, height=48)
    one = env.unwrapped
    try:
        env.reset(seed=0)
        try:
            env.render()
        except Exception as fault:
            pytest.skip(f"nothing can be drawn here: {fault}")
        before = one.mujoco_renderer.viewer.scn.camera[0].pos.copy()
        positions = one.data.qpos.copy()
        positions[0] += 10.0
        one.set_state(positions, one.data.qvel.copy())
        env.render()
        moved = one.mujoco_renderer.viewer.scn.camera[0].pos - before
    finally:
        env.close()
    np.testing.assert_allclose(moved, [10.0, 0.0, 0.0], atol=1e-4)
