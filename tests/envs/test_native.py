"""The native batch against Gymnasium's own environments, and its rewards against hand-derived numbers."""

import gymnasium
import numpy as np
import pytest
from mujoco.batch import SimulationError
from native_batches import NATIVE, actions_for, make, started
from problem_sizes import MO_PROBLEM_SIZES, PROBLEM_SIZES

from ucb_moppo.envs import PROBLEMS, describe_problems, make_batch, make_spec
from ucb_moppo.envs.native import NativeBatch
from ucb_moppo.envs.problems import Motion, load_model
from ucb_moppo.errors import ConfigError, EnvironmentFault

# Gymnasium keeps its v4 environments, whose models and rules these are, but calls them out of date.
pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")

NAMES = list(PROBLEMS)
GYMNASIUM = {name: name.split("-")[0] + "-v4" for name in NAMES}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """MuJoCo writes its log into the working directory, and Gymnasium's half cheetah makes it write one."""
    monkeypatch.chdir(tmp_path)


# --- the six, as specified ---------------------------------------------------------------------------------


def test_the_six_have_the_sizes_of_the_specification():
    specs = describe_problems()
    sizes = {s.name: (s.observation_size, s.action.size, s.num_objectives) for s in specs}
    assert sizes == PROBLEM_SIZES | MO_PROBLEM_SIZES
    assert [spec.name for spec in specs[:6]] == NAMES
    for spec in specs[:6]:
        assert spec.horizon == 1000
        assert spec.reference_point == (0.0,) * spec.num_objectives
        assert set(spec.action.low) == {-1.0}
        assert set(spec.action.high) == {1.0}


# A step of 0.5 s in which x moves from 1 to 1.5 (v_x = 1) and, for the Ant, y from 2 to 1 (v_y = -2);
# Hopper's torso ends at 1.35 with h_init = 1.25 (rise 0.1); a = (0.5, -0.5), so Σa² = 0.5.
#   Swimmer      1                             0.3 - 0.15·0.5 = 0.225
#   HalfCheetah  min(1, 4) + 1 = 2             4 - 0.5 + 1 = 4.5
#   Walker2d     1 + 1 = 2                     4.5
#   Ant          C = 1 - 0.25 = 0.75: 1.75     -2 + 0.75 = -1.25
#   Hopper-v2    C = 1 - 1e-4 = 0.9999: 2.4999 12·0.1 + C = 2.1999
#   Hopper-v3    1.5 + 1 = 2.5                 1.2 + 1 = 2.2            4.5
HAND_DERIVED = {
    "Swimmer-v2": [1.0, 0.225],
    "HalfCheetah-v2": [2.0, 4.5],
    "Walker2d-v2": [2.0, 4.5],
    "Ant-v2": [1.75, -1.25],
    "Hopper-v2": [2.4999, 2.1999],
    "Hopper-v3": [2.5, 2.2, 4.5],
}


@pytest.mark.parametrize("name", NAMES)
def test_rewards_derived_by_hand(name):
    planar = name == "Ant-v2"
    before = np.array([[1.0, 2.0 if planar else 1.25, 0.0]])
    after = np.array([[1.5, 1.0 if planar else 1.35, 0.0]])
    motion = Motion(before, after, np.array([[0.5, -0.5]]), 0.5, np.array([0.0, 1.25, 0.0]))
    np.testing.assert_allclose(PROBLEMS[name].reward(motion), [HAND_DERIVED[name]], rtol=1e-12)


def test_half_cheetah_is_paid_for_at_most_four_metres_a_second():
    """5 m in 0.5 s is 10 m/s: min(10, 4) + 1 = 5; backwards there is no floor: -10 + 1 = -9."""
    for end, paid in ((5.0, 5.0), (-5.0, -9.0)):
        motion = Motion(np.zeros((1, 3)), np.array([[end, 0, 0]]), np.zeros((1, 6)), 0.5, np.zeros(3))
        np.testing.assert_array_equal(PROBLEMS["HalfCheetah-v2"].reward(motion), [[paid, 5.0]])


# --- when an episode goes on -------------------------------------------------------------------------------


def healthy(name: str, qpos: list[float], qvel: list[float]) -> bool:
    rule = PROBLEMS[name].healthy
    assert rule is not None
    # A second, healthy row: one sick environment must not be hidden by the others, nor infect them.
    well = {"Walker2d-v2": [0, 1.2, 0, 0], "Ant-v2": [0, 0, 0.7, 0]}.get(name, [0, 1.2, 0, 0])
    both = rule(np.array([qpos, well], dtype=float), np.array([qvel, [0, 0]], dtype=float))
    assert both[1]
    return bool(both[0])


@pytest.mark.parametrize("name", ["Swimmer-v2", "HalfCheetah-v2"])
def test_nothing_ends_a_swimmer_or_a_cheetah(name):
    assert PROBLEMS[name].healthy is None


@pytest.mark.parametrize(
    ("height", "pitch", "expected"),
    [
        (0.8, 0, False),
        (0.81, 0, True),
        (1.99, 0, True),
        (2.0, 0, False),
        (1, 1.0, False),
        (1, -1.0, False),
        (1, 0.99, True),
        (np.nan, 0, False),
        (1, np.nan, False),
    ],
)
def test_walker_stands_strictly_inside_its_bounds(height, pitch, expected):
    assert healthy("Walker2d-v2", [0, height, pitch, 0], [0, 0]) is expected


@pytest.mark.parametrize(
    ("height", "joint", "speed", "expected"),
    [
        (0.2, 0, 0, True),
        (1.0, 0, 0, True),
        (0.199, 0, 0, False),
        (1.001, 0, 0, False),
        (0.5, np.inf, 0, False),
        (0.5, 0, np.nan, False),
        (0.5, 1e6, -1e6, True),
    ],
)
def test_ant_stands_inside_its_bounds_ends_included(height, joint, speed, expected):
    assert healthy("Ant-v2", [0, 0, height, joint], [0, speed]) is expected


@pytest.mark.parametrize(
    ("height", "pitch", "joint", "speed", "expected"),
    [
        (0.7, 0, 0, 0, False),
        (0.71, 0, 0, 0, True),
        (np.inf, 0, 0, 0, False),
        (1, 0.2, 0, 0, False),
        (1, -0.2, 0, 0, False),
        (1, 0.19, 0, 0, True),
        (1, 0, 100, 0, False),
        (1, 0, -99.9, 99.9, True),
        (1, 0, 0, -100, False),
        (1, 0, 0, np.nan, False),
    ],
)
def test_hopper_stands_strictly_inside_its_bounds(height, pitch, joint, speed, expected):
    assert healthy("Hopper-v2", [0, height, pitch, joint], [0, speed]) is expected


# --- against Gymnasium -------------------------------------------------------------------------------------


def slow_reward(name, before, after, action, dt):
    """The table of rewards written out plainly, one environment at a time."""
    vx, vy = (after[0] - before[0]) / dt, (after[1] - before[1]) / dt
    cost = sum(float(a) ** 2 for a in action)
    match name:
        case "Swimmer-v2":
            return [vx, 0.3 - 0.15 * cost]
        case "HalfCheetah-v2":
            return [min(vx, 4) + 1, 4 - cost + 1]
        case "Walker2d-v2":
            return [vx + 1, 4 - cost + 1]
        case "Ant-v2":
            return [vx + 1 - 0.5 * cost, vy + 1 - 0.5 * cost]
        case "Hopper-v2":
            living = 1 - 2e-4 * cost
            return [1.5 * vx + living, 12 * (after[1] - 1.25) + living]
        case "Hopper-v3":
            return [1.5 * vx + 1, 12 * (after[1] - 1.25) + 1, 4 - cost + 1]


@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_actions_agree_with_gymnasium_to_the_bit(name):
    """Two environments, one thrown about and one moved gently so that its episodes last."""
    theirs = [gymnasium.make(GYMNASIUM[name]).unwrapped for _ in range(2)]
    ours = make(name, 2, horizon=2000)
    seeds = [11, 12]
    observation = ours.reset(np.arange(2), seeds)
    for env, seed, seen in zip(theirs, seeds, observation, strict=True):
        np.testing.assert_array_equal(env.reset(seed=seed)[0], seen)
    gentle = np.array([[1.0], [0.05]])
    falls = np.zeros(2, dtype=int)
    for time, action in enumerate(actions_for(name, 1000, 2) * gentle):
        befores = [env.data.qpos.copy() for env in theirs]
        step = ours.step(action)
        applied = np.clip(action, -1, 1)
        for i, env in enumerate(theirs):
            seen, _, ended, _, _ = env.step(applied[i])
            np.testing.assert_array_equal(step.observation[i], seen)
            assert step.terminated[i] == ended
            expected = slow_reward(name, befores[i], env.data.qpos, applied[i], env.dt)
            np.testing.assert_allclose(step.reward[i], expected, rtol=1e-12, atol=1e-12)
            np.testing.assert_array_equal(ours._qpos[i], env.data.qpos)
            np.testing.assert_array_equal(ours._qvel[i], env.data.qvel)
            if ended:
                falls[i] += 1
                fresh = ours.reset(np.array([i]), [1000 * i + time])
                np.testing.assert_array_equal(env.reset(seed=1000 * i + time)[0], fresh[0])
    if PROBLEMS[name].healthy is None:
        assert not falls.any()
    else:
        assert falls[0] > 0, "some episode must end for the comparison of endings to mean anything"


@pytest.mark.parametrize("name", NAMES)
def test_the_model_is_gymnasiums(name):
    """Compiled from a spec or from the file: every array of numbers the same."""
    theirs, ours = gymnasium.make(GYMNASIUM[name]).unwrapped.model, load_model(PROBLEMS[name])
    for field in ("body_mass", "body_inertia", "geom_friction", "dof_damping", "actuator_gear", "jnt_range"):
        np.testing.assert_array_equal(getattr(theirs, field), getattr(ours, field))


def test_loading_a_model_prints_nothing(capfd, recwarn, tmp_path):
    for name in NAMES:
        make(name, 1)
    printed = capfd.readouterr()
    assert (printed.out, printed.err, len(recwarn), list(tmp_path.iterdir())) == ("", "", 0, [])


# --- the batch itself --------------------------------------------------------------------------------------


def run(batch: NativeBatch, actions: np.ndarray) -> list[np.ndarray]:
    """Every array of every step, finished environments reset with seeds from the step's number."""
    kept = []
    for time, action in enumerate(actions):
        step = batch.step(action)
        kept.extend(step)
        done = np.flatnonzero(step.terminated | step.truncated)
        if done.size:
            kept.append(batch.reset(done, 100 * time + done))
    return kept


def assert_same(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    assert len(one) == len(other)
    for expected, actual in zip(one, other, strict=True):
        np.testing.assert_array_equal(expected, actual)


@pytest.mark.parametrize("name", NATIVE)
def test_the_number_of_threads_changes_nothing(name):
    actions = actions_for(name, 60, 7)
    runs = [run(started(name, 7, num_threads=n, horizon=25), actions) for n in (1, 2, 3)]
    assert_same(runs[0], runs[1])
    assert_same(runs[0], runs[2])


@pytest.mark.parametrize("name", NATIVE)
def test_an_environment_does_not_notice_how_many_others_there_are(name):
    actions = actions_for(name, 20, 9)
    many, alone, subset = started(name, 9), make(name, 1), started(name, 9)
    alone.reset(np.array([0]), [4])
    ids = np.array([4, 2])
    for action in actions:
        step, single, two = many.step(action), alone.step(action[[4]]), subset.step(action[ids], ids=ids)
        for all_rows, one_row, two_rows in zip(step, single, two, strict=True):
            np.testing.assert_array_equal(all_rows[[4]], one_row)
            np.testing.assert_array_equal(all_rows[ids], two_rows)


def test_no_environments_at_all():
    batch = started("Hopper-v2", 2)
    nobody = np.array([], dtype=int)
    assert batch.reset(nobody, []).shape == (0, 11)
    assert [len(array) for array in batch.step(np.zeros((0, 3)), ids=nobody)] == [0, 0, 0, 0]


def test_environments_that_are_not_named_stay_where_they_are():
    batch = started("Hopper-v2", 3, horizon=2)
    before = batch.get_state()["physics"]
    batch.step(np.zeros((1, 3)), ids=np.array([1]))
    after = batch.get_state()
    np.testing.assert_array_equal(before[[0, 2]], after["physics"][[0, 2]])
    assert after["elapsed"].tolist() == [0, 1, 0]


@pytest.mark.parametrize("name", NATIVE)
def test_a_new_batch_continues_from_a_saved_state_to_the_bit(name):
    """Whatever lags behind the state is saved too; how many threads there are changes nothing."""
    actions = actions_for(name, 60, 4)
    batch = started(name, 4, horizon=40)
    run(batch, actions[:30])
    other = make(name, 4, horizon=40, num_threads=2)
    other.set_state(batch.get_state())
    assert_same(run(batch, actions[30:]), run(other, actions[30:]))


def test_a_saved_state_is_a_copy():
    batch = started("Swimmer-v2", 2)
    state = batch.get_state()
    kept = {name: array.copy() for name, array in state.items()}
    batch.step(np.ones((2, 2)))
    for name in state:
        np.testing.assert_array_equal(state[name], kept[name])


def test_a_state_of_another_batch_is_refused():
    with pytest.raises(ConfigError, match=r"does not fit a batch of shape \(3, "):
        make("Swimmer-v2", 3).set_state(started("Swimmer-v2", 2).get_state())


def test_the_horizon_truncates_and_never_terminates():
    batch = started("Swimmer-v2", 2, horizon=3)
    flags = [batch.step(np.zeros((2, 2)))[2:] for _ in range(3)]
    assert [truncated.tolist() for _, truncated in flags] == [[False] * 2, [False] * 2, [True] * 2]
    assert not any(terminated.any() for terminated, _ in flags)
    batch.reset(np.array([1]), [0])
    assert batch.step(np.zeros((2, 2))).truncated.tolist() == [True, False]


def test_a_fall_on_the_last_step_is_a_termination():
    batch = started("Hopper-v2", 1, horizon=1)
    batch._qpos[0, 1] = 0.5  # lying on the floor
    step = batch.step(np.zeros((1, 3)))
    assert (step.terminated[0], step.truncated[0]) == (True, False)


@pytest.mark.parametrize("name", NAMES)
def test_a_reset_is_a_function_of_its_seed(name):
    batch = make(name, 3)
    first = batch.reset(np.arange(3), [4, 5, 4])
    run(batch, actions_for(name, 3, 3))
    np.testing.assert_array_equal(first, batch.reset(np.arange(3), [4, 5, 4]))
    np.testing.assert_array_equal(first[0], first[2])
    assert (first[0] != first[1]).any()


def test_what_a_step_returned_is_not_written_to_later():
    batch = started("Walker2d-v2", 2)
    step = batch.step(np.ones((2, 6)))
    kept = [array.copy() for array in step]
    batch.step(-np.ones((2, 6)))
    batch.reset(np.arange(2), [8, 9])
    assert_same(kept, list(step))


def test_velocities_are_shown_clipped_and_simulated_as_they_are():
    batch = started("Hopper-v2", 1)
    batch._qvel[0] = [0, 0, 0, 60, 0, 0]
    step = batch.step(np.zeros((1, 3)))
    assert np.abs(batch._qvel[0]).max() > 10
    assert np.abs(step.observation[0, 5:]).max() == 10


# --- what is refused ---------------------------------------------------------------------------------------


def test_an_action_that_is_not_a_number_is_reported_before_it_is_simulated(capfd):
    batch = started("Hopper-v2", 3)
    action = np.zeros((2, 3))
    action[1, 0] = np.nan
    with pytest.raises(EnvironmentFault, match=r"environment 2 was given action \[nan, 0\.0, 0\.0\] after 0 steps"):
        batch.step(action, ids=np.array([0, 2]))
    assert capfd.readouterr().err == ""


def test_a_simulation_that_mujoco_gives_up_on_is_named(monkeypatch):
    batch = started("Hopper-v2", 3)
    batch.step(np.zeros((3, 3)))

    def fail(**_):
        raise SimulationError(np.array([1]), "the stack overflowed")

    monkeypatch.setattr(batch._batch, "step", fail)
    with pytest.raises(EnvironmentFault, match="Hopper-v2: MuJoCo failed in environment 1 after 1 steps"):
        batch.step(np.zeros((3, 3)))


def test_actions_of_another_shape_are_refused():
    with pytest.raises(ConfigError, match=r"actions of shape \(1, 3\) for 2 environments; .*\(2, 3\)"):
        started("Hopper-v2", 2).step(np.zeros((1, 3)))


@pytest.mark.parametrize("arguments", [{"num_envs": 0}, {"num_envs": 1, "horizon": 0}])
def test_counts_below_one_are_refused(arguments):
    with pytest.raises(ConfigError, match="is 0; it must be at least 1"):
        make("Hopper-v2", **arguments)


def test_make_batch_takes_the_name_with_or_without_its_namespace():
    for name in ("Hopper-v3", "ucb_moppo/Hopper-v3"):
        batch = make_batch(name, 2, horizon=9, reference_point=[-1, -2, -3])
        assert isinstance(batch, NativeBatch)
        expected = make_spec(name, horizon=9, reference_point=[-1, -2, -3])
        assert batch.spec == expected
        assert (expected.name, expected.horizon, expected.reference_point) == ("Hopper-v3", 9, (-1, -2, -3))


@pytest.mark.parametrize("point", [[0.0], [0.0, np.nan]])
def test_a_reference_point_must_fit_the_objectives(point):
    with pytest.raises(ConfigError, match="needs 2 finite numbers"):
        make_spec("Hopper-v2", reference_point=point)
