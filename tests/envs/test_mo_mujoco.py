"""MO-Gymnasium's MuJoCo problems natively, against ``mo_gymnasium.make``: every bit the same."""

import mo_gymnasium
import numpy as np
import pytest
from native_batches import actions_for, make, started

from ucb_moppo.envs import MO_PROBLEMS, PROTOCOLS, describe_problems, make_batch, make_spec
from ucb_moppo.envs.adapter import GymBatch
from ucb_moppo.envs.mo_mujoco import humanoid_healthy
from ucb_moppo.envs.native import NativeBatch
from ucb_moppo.errors import ConfigError

NAMES = list(MO_PROBLEMS)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """MuJoCo writes its log into the working directory, and Gymnasium's half cheetah makes it write one."""
    monkeypatch.chdir(tmp_path)


def own_action(batch, action):
    """What the environment itself is given for an actor's action."""
    taken = batch.spec.action.to_environment(action)
    return int(taken) if batch.spec.action.discrete else taken.astype(np.float32)


def with_ends(ours: NativeBatch, i: int, env, seed: int) -> None:
    observation, _ = env.reset(seed=seed)
    np.testing.assert_array_equal(ours.reset(np.array([i]), [seed])[0], observation)


@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_actions_agree_with_mo_gymnasium_to_the_bit(name):
    """Two environments, one thrown about and one moved gently so that its episodes last."""
    theirs = [mo_gymnasium.make(name) for _ in range(2)]
    ours = make(name, 2)
    for i, env in enumerate(theirs):
        with_ends(ours, i, env, 11 + i)
    gentle = 1 if ours.spec.action.discrete else np.array([[1.0], [0.05]], np.float32)
    falls = np.zeros(2, dtype=int)
    for time, action in enumerate(actions_for(name, 1000, 2) * gentle):
        step = ours.step(action)
        for i, env in enumerate(theirs):
            seen, paid, terminated, truncated, _ = env.step(own_action(ours, action[i]))
            np.testing.assert_array_equal(step.observation[i], seen)
            np.testing.assert_array_equal(step.reward[i], paid.astype(np.float64))
            np.testing.assert_array_equal(ours._qpos[i], env.unwrapped.data.qpos)
            np.testing.assert_array_equal(ours._qvel[i], env.unwrapped.data.qvel)
            assert (step.terminated[i], step.truncated[i]) == (terminated, truncated and not terminated)
            falls[i] += terminated
            if terminated or truncated:
                with_ends(ours, i, env, 1000 * i + time)
    assert (falls[0] > 0) == (MO_PROBLEMS[name].healthy is not None), "endings must be among what is compared"


@pytest.mark.parametrize("name", NAMES)
def test_it_is_described_as_the_adapter_describes_it(name):
    native, adapted = make_batch(name, 1), make_batch(f"adapter:{name}", 1)
    assert (type(native), type(adapted)) == (NativeBatch, GymBatch)
    assert native.spec == adapted.spec == make_spec(name) == make_spec(f"adapter:{name}")


@pytest.mark.parametrize("name", ["mo-ant-2obj-v5", "mo-humanoid-v5", "mo-reacher-v5"])
def test_batch_and_adapter_take_the_same_actions_to_the_same_bits(name):
    native, adapted = make_batch(name, 3, 2, horizon=20), make_batch(f"adapter:{name}", 3, horizon=20)
    batches = (native, adapted)
    for action in (None, *actions_for(name, 20, 3)):
        if action is None:
            results = [[batch.reset(np.arange(3), [4, 5, 6])] for batch in batches]
        else:
            results = [list(batch.step(action)) for batch in batches]
        for one, other in zip(*results, strict=True):
            np.testing.assert_array_equal(one, other)
    assert results[0][3].any(), "the horizon must have cut some"


@pytest.mark.parametrize(("height", "expected"), [(1.0, False), (1.01, True), (2.0, False), (np.nan, False)])
def test_humanoid_stands_strictly_inside_its_bounds(height, expected):
    assert humanoid_healthy(np.array([[0, 0, height]]), np.zeros((1, 3))).tolist() == [expected]


def test_contact_is_felt_after_the_first_step_and_shown_clipped():
    batch = make("mo-ant-2obj-v5", 1)
    assert not batch.reset(np.array([0]), [0])[0, 27:].any()
    felt = [batch.step(np.zeros((1, 8))).observation[0, 27:] for _ in range(40)]
    assert np.abs(felt).max() == 1.0, "falling on its feet it feels more than is shown"


def test_the_cmorl_protocol_cuts_at_500_steps_and_measures_from_minus_100():
    specs = {spec.name: spec for spec in describe_problems("cmorl")}
    assert set(specs) == set(NAMES) - {"mo-reacher-v5"}
    for spec in specs.values():
        assert (spec.horizon, set(spec.reference_point)) == (500, {-100.0})
    assert make_batch("mo-swimmer-v5", 1, protocol="cmorl").spec == specs["mo-swimmer-v5"]
    assert make_spec("mo-swimmer-v5").horizon == 1000
    assert list(PROTOCOLS) == ["gymnasium", "pgmorl", "cmorl"]
    with pytest.raises(ConfigError, match=r"'cmorl' is defined for mo-hopper-v5, .*not for 'Hopper-v2'"):
        make_spec("Hopper-v2", protocol="cmorl")


def test_a_state_that_the_adapter_saved_is_refused():
    adapted = make_batch("adapter:mo-swimmer-v5", 1)
    with pytest.raises(ConfigError, match="saved by the adapter"):
        make("mo-swimmer-v5", 1).set_state(adapted.get_state())


def test_choices_of_another_shape_are_refused():
    with pytest.raises(ConfigError, match=r"actions of shape \(2, 2\) for 2 environments; .*\(2,\)"):
        started("mo-reacher-v5", 2).step(np.zeros((2, 2)))
