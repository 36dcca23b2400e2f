"""The adapter against environments whose every number is known."""

import random
import re
import sys
import warnings
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary
from numpy.random import mtrand

from ucb_moppo.envs import MAX_SHOWN, list_mo_gymnasium_ids, make_batch, make_spec
from ucb_moppo.envs.adapter import GymBatch, make_env, physics_warning_once, read_names, warn_once
from ucb_moppo.envs.flattening import MAX_NUMBERS, count_values, describe_observation
from ucb_moppo.envs.streams import python_draws
from ucb_moppo.errors import ConfigError, EnvironmentFault, UcbMoppoWarning
from ucb_moppo.spec import ActionSpec


def probe(name: str, num_envs: int = 2, **kwargs) -> GymBatch:
    batch = GymBatch(f"probe_envs:probe/{name}-v0", num_envs, **kwargs)
    return batch


def started(name: str, num_envs: int = 2, **kwargs) -> GymBatch:
    batch = probe(name, num_envs, **kwargs)
    batch.reset(np.arange(num_envs), range(num_envs))
    return batch


# --- stepping and resetting --------------------------------------------------------------------------------


def test_no_action_is_ignored_after_an_episode():
    """Counter pays (1, action). A vector environment that autoresets would pay (0, 0) on the step after."""
    batch = started("Counter")
    for time in range(1, 13):
        step = batch.step(np.array([1, 2]))
        np.testing.assert_array_equal(step.reward, [[1.0, 1.0], [1.0, 2.0]])
        done = step.terminated | step.truncated
        assert done.all() == (time % 5 == 0)
        if done.any():
            batch.reset(np.flatnonzero(done), [time, time + 1])


def test_the_final_observation_is_the_one_that_ended_the_episode():
    batch = started("Counter")
    for _ in range(5):
        step = batch.step(np.array([0, 0]))
    assert step.terminated.all()
    assert step.observation[:, 0].tolist() == [5, 5]
    assert batch.reset(np.array([1]), [7])[0, 0] == 0
    assert step.observation[:, 0].tolist() == [5, 5], "a reset must not write into what a step returned"


def test_only_the_named_environments_step_and_reset():
    batch = started("Counter", 3)
    before = batch.reset(np.arange(3), [0, 1, 2])
    step = batch.step(np.array([2, 1]), ids=np.array([2, 0]))
    np.testing.assert_array_equal(step.reward, [[1, 2], [1, 1]])
    np.testing.assert_array_equal(step.observation, [[1, before[2, 1]], [1, before[0, 1]]])
    batch.reset(np.array([2]), [2])
    everyone = batch.step(np.array([0, 0, 0]))
    assert everyone.observation[:, 0].tolist() == [2, 1, 1]


def test_the_problem_terminates_and_the_horizon_truncates():
    ended = started("Counter", 1, horizon=5)
    cut = started("Endless", 1, horizon=5)
    own = started("SelfCutting", 1, horizon=5)
    flags = [[], [], []]
    for _ in range(5):
        for kept, batch in zip(flags, (ended, cut, own), strict=True):
            step = batch.step(np.array([0]))
            kept.append((bool(step.terminated[0]), bool(step.truncated[0])))
    going = (False, False)
    # Terminating on the last step of the horizon is a termination, not both.
    assert flags[0] == [going] * 4 + [(True, False)]
    assert flags[1] == [going] * 4 + [(False, True)]
    assert flags[2][:3] == [going, going, (False, True)]


@pytest.mark.parametrize(("horizon", "expected"), [(None, 4), (2, 2), (7, 7)])
def test_a_given_horizon_replaces_the_registered_time_limit(horizon, expected):
    batch = started("Limited", 1, horizon=horizon)
    assert batch.spec.horizon == expected
    truncated = [bool(batch.step(np.array([0])).truncated[0]) for _ in range(expected)]
    assert truncated == [False] * (expected - 1) + [True]


def test_the_horizon_is_a_thousand_where_none_is_registered():
    assert probe("Endless").spec.horizon == 1000


def test_a_reset_is_a_function_of_its_seed():
    one, other = probe("Counter", 3), probe("Counter", 3)
    first = one.reset(np.arange(3), [4, 5, 4])
    np.testing.assert_array_equal(first, other.reset(np.arange(3), [4, 5, 4]))
    np.testing.assert_array_equal(first[0], first[2])
    assert first[0, 1] != first[1, 1]


# --- observations and actions ------------------------------------------------------------------------------


def test_discrete_observations_become_one_hot():
    batch = probe("Number", 1)
    assert (batch.spec.observation_size, batch.spec.discrete_observation) == (4, True)
    np.testing.assert_array_equal(batch.reset(np.array([0]), [0]), [[1, 0, 0, 0]])
    step = batch.step(np.array([1]))
    np.testing.assert_array_equal(step.observation, [[0, 1, 0, 0]])
    # Its two actions are called 5 and 6.
    np.testing.assert_array_equal(step.reward, [[1, 6]])


def test_a_dict_is_flattened_in_the_order_of_its_space():
    """Sorted: door one-hot of 3, lamps, the pair (one-hot of 2 + 3; a small integer as it is), place."""
    batch = probe("Room", 1)
    paths = [part.path for part in batch.spec.observation_parts]
    assert paths == [("door",), ("lamps",), ("pair", 0), ("pair", 1), ("place",)]
    first = batch.reset(np.array([0]), [0])
    np.testing.assert_array_equal(first, [[1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0.5, 0]])
    step = batch.step(np.array([0]))
    np.testing.assert_array_equal(step.observation, [[0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1, 0.5, -0.1]])


@pytest.mark.parametrize(
    ("space", "choices"),
    [
        (Box(0, 63, (2,), np.int32), (64, 64)),
        (Box(np.array([-9, 4]), np.array([9, 5]), dtype=np.int64), (19, 2)),
        (Box(0, 127, (2,), np.int32), (128, 128)),
        (Box(0, 128, (2,), np.int32), ()),  # 258 numbers are too many
        (Box(0, 12, (3,), np.int8), (13, 13, 13)),
        (Box(0, 11, (3,), np.int8), ()),  # and 12 values too few
        (Box(0, 255, (2, 3), np.uint8), ()),
        (Box(-np.inf, np.inf, (2,), np.int64), ()),
        (Box(0, 40, (2,), np.float32), ()),
        (MultiBinary(40), ()),
    ],
)
def test_integers_of_some_dozens_of_values_are_worth_one_hot_vectors(space, choices):
    assert count_values(space) == choices


def test_fruit_tree_shows_where_it_is_as_one_hot_and_as_numbers():
    """Depth 6: level and place are two integers of 64 values."""
    batch = make_batch("fruit-tree-v0", 1)
    assert batch.spec.observation_size == 130
    batch.reset(np.array([0]), [0])
    batch.step(np.array([1]))
    shown = batch.step(np.array([1])).observation[0]  # level 2, its fourth place
    assert np.flatnonzero(shown[:128]).tolist() == [2, 64 + 3]
    assert shown[128:].tolist() == [2, 3]


def test_few_values_are_shown_as_they_are():
    assert make_spec("deep-sea-treasure-v0").observation_size == 2


def test_an_observation_outside_its_space_is_reported():
    batch = started("Outside", 2)
    batch.step(np.array([0, 0]))
    batch.step(np.array([0]), ids=np.array([1]))
    with pytest.raises(
        EnvironmentFault, match=r"environment 1 failed after 2 steps.* \[21\] lies outside its space"
    ):
        batch.step(np.array([0, 0]))


def test_choices_of_several_heads_are_called_as_the_environment_calls_them():
    batch = started("Buttons")
    assert (batch.spec.action.choices, batch.spec.action.num_outputs) == ((3, 2), 5)
    step = batch.step(np.array([[2.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_array_equal(step.reward, [[3, 5], [1, 6]])


def test_switches_keep_their_shape():
    batch = started("Switches")
    assert batch.spec.action.choices == (2, 2, 2, 2)
    step = batch.step(np.array([[1, 1, 0, 1], [0, 0, 1, 0]]))
    np.testing.assert_array_equal(step.reward, [[3, 2], [1, 0]])


def test_pictures_are_flattened():
    batch = started("Picture", 1)
    step = batch.step(np.array([0]))
    np.testing.assert_array_equal(step.observation, np.ones((1, 6)))
    assert step.observation.dtype == np.float64


def test_box_actions_are_stretched_to_the_bounds_and_clipped_there():
    """[-1, 1] -> [-2, 2] × [0, 10]: 0.5 -> 1 and 7.5; beyond the end stays at the end."""
    batch = started("Echo")
    step = batch.step(np.array([[0.5, 0.5], [-3.0, 1.5]], dtype=np.float32))
    np.testing.assert_array_equal(step.reward, [[1.0, 7.5], [-2.0, 10.0]])


@pytest.mark.filterwarnings("error")
def test_unbounded_actions_pass_through_and_half_bounds_clip():
    batch = started("HalfBounded")
    step = batch.step(np.array([[30.0, 40.0], [-30.0, -40.0]]))
    np.testing.assert_array_equal(step.reward, [[30.0, 40.0], [-30.0, 0.0]])


@pytest.mark.filterwarnings("error")
def test_bounds_of_each_kind_side_by_side():
    spec = ActionSpec(discrete=False, size=3, low=(-np.inf, 0.0, -4.0), high=(np.inf, np.inf, 0.0))
    np.testing.assert_array_equal(spec.to_environment(np.array([5.0, -5.0, 0.5])), [5.0, 0.0, -1.0])


def test_actions_of_another_shape_are_refused():
    with pytest.raises(ConfigError, match=re.escape("shape (3,) for 2 environments")):
        started("Counter").step(np.array([0, 0, 0]))
    with pytest.raises(ConfigError, match=re.escape("shape (2, 2)")):
        started("Echo").step(np.zeros((2, 3)))


# --- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Scalar", "has no reward_space: it pays a single reward"),
        ("Undeclared", r"pays 2 rewards a step but has no reward_space: add `reward_space = Box\(low, high, \(2,"),
        ("Misnamed", r"pays 2 rewards, but its attribute `objectives` names 3 \(a, b, c\); name 2 there, or leave"),
        ("SecretScalar", "declares 2 objectives but a step paid 1.0"),
        ("Disagreeing", "declares 3 objectives but a step paid"),
        ("Chord", r"actions of Tuple\(Discrete\(2\), Discrete\(2\)\) are not supported; wrap"),
        ("Talker", r"observations of Sequence.* cannot be flattened into a vector; wrap"),
        ("Grid", r"declares the reward space Box\(.*\), which is no vector of two or more numbers; pick"),
    ],
)
def test_an_environment_that_cannot_be_trained_on_is_refused(name, message):
    with pytest.raises(ConfigError, match=message):
        probe(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        # 100 environments × 50 steps × 4 bytes × 9 are 180,000 bytes a number.
        ("Vast", "observations of 10,000,000,000 numbers would take 1,676,381 GiB with a rollout"),
        ("VastCode", "observations of 1,000,000,000,003 numbers would take 167,638,063 GiB"),
        ("VastChoice", "actions of 10,000,000,000 numbers would take 1,676,381 GiB"),
    ],
)
def test_more_numbers_than_memory_holds_are_refused_before_any_is_allocated(name, message):
    with pytest.raises(ConfigError, match=message) as fault:
        probe(name)
    assert "wrap the environment so that it" in str(fault.value)
    assert "(at most 47,721 numbers)" in str(fault.value)


def test_pictures_as_large_as_minecarts_are_refused_with_a_remedy():
    with pytest.raises(ConfigError, match=r"minecart-rgb-v0: observations of 691,200 numbers .*116 GiB.*features"):
        make_spec("minecart-rgb-v0")
    # What its name says to show instead of pictures can be had.
    assert make_spec("minecart-rgb-v0@image_observation=false").observation_size == 7


def test_as_many_numbers_as_there_is_room_for_are_not_refused():
    space = Box(0.0, 1.0, (MAX_NUMBERS,), np.float32)
    assert describe_observation("wide-v0", space)["observation_size"] == MAX_NUMBERS
    with pytest.raises(ConfigError, match="47,722 numbers would take 8 GiB"):
        describe_observation("wide-v0", Discrete(MAX_NUMBERS + 1))


def test_physics_that_are_not_installed_are_named_with_what_installs_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "Box2D", None)  # as if it were not there
    users = ("gymnasium.envs.box2d", "mo_gymnasium.envs.lunar_lander")
    for name in [name for name in sys.modules if name.startswith(users)]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigError, match=r"mo-lunar-lander-v3 needs Box2D.*pip install 'ucb-moppo\[box2d\]'"):
        make_spec("mo-lunar-lander-v3")


@pytest.mark.parametrize(("problem", "module", "extra"), [("mo-highway-v0", "highway_env", "highway")])
def test_modules_that_mo_gymnasium_needs_are_named_with_what_installs_them(problem, module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not there
    for name in [name for name in sys.modules if name.startswith(f"mo_gymnasium.envs.{extra}.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigError) as fault:
        make_spec(problem)
    assert str(fault.value) == (
        f"{problem} needs {module}, which is not installed: pip install 'mo-gymnasium[{extra}]'"
    )


def test_a_module_names_the_ids_that_it_registers_nearest_first(tmp_path, monkeypatch):
    code = "import gymnasium\nclass Hill(gymnasium.Env): ...\n"
    code += "gymnasium.register('Hill-v0', Hill)\ngymnasium.register('Valley-v0', 'hilly_envs:Hill')\n"
    (tmp_path / "hilly_envs.py").write_text(code)
    (tmp_path / "bare_envs.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    for env_id in ("Hill-v0", "Valley-v0"):  # registered by nobody once the test has ended
        monkeypatch.setitem(gymnasium.registry, env_id, None)
        del gymnasium.registry[env_id]
    for asked, registered in (("Hall-v0", "Hill-v0, Valley-v0"), ("Volley-v0@steps=3", "Valley-v0, Hill-v0")):
        with pytest.raises(ConfigError) as fault:
            make_batch(f"hilly_envs:{asked}", 1)
        assert str(fault.value).endswith(f" hilly_envs registers {registered}")
    with pytest.raises(ConfigError, match=r"'bare_envs:Nothing-v0': Environment `Nothing` doesn't exist\.$"):
        make_batch("bare_envs:Nothing-v0", 1)


def test_of_many_ids_the_nearest_are_named():
    with pytest.raises(ConfigError, match=r" probe_envs registers probe/Counter-v0, .*, …$") as fault:
        make_batch("probe_envs:probe/Countr-v0", 1)
    assert str(fault.value).partition("registers")[2].count("probe/") == MAX_SHOWN


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("hoper-v2", "did you mean Hopper-v2"),
        ("hoper-v2", "(one that a program of yours registers is named module:hoper-v2 to be found everywhere)"),
        ("deep-sea-tresure-v0", "did you mean deep-sea-treasure-v0"),
        ("no_such_module:some-v0", "No module named 'no_such_module'; install it, or put its folder on PYTHONPATH"),
        ("probe_envs:probe/Missing-v0", "unknown problem 'probe_envs:probe/Missing-v0'"),
    ],
)
def test_an_unknown_problem_is_refused_with_the_nearest_names(problem, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        make_batch(problem, 1)


def test_what_a_module_of_ones_own_lacks_is_not_taken_for_a_misspelling(tmp_path, monkeypatch):
    (tmp_path / "needy_envs.py").write_text("import no_such_simulator\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError) as fault:
        make_batch("needy_envs:needy-v0", 1)
    assert str(fault.value) == (
        "'needy_envs:needy-v0': its module needy_envs cannot be imported: No module named 'no_such_simulator'"
    )


@pytest.mark.parametrize("arguments", [{"num_envs": 0}, {"num_envs": 1, "horizon": 0}])
def test_counts_below_one_are_refused(arguments):
    with pytest.raises(ConfigError, match="is 0; it must be at least 1"):
        probe("Counter", **arguments)


def test_an_exception_of_the_environment_is_reported_with_its_place():
    batch = started("Raising")
    batch.step(np.array([0]), ids=np.array([1]))
    batch.step(np.array([0]), ids=np.array([1]))
    with pytest.raises(
        EnvironmentFault, match=r"probe/Raising-v0: environment 1 failed after 2 steps from seed \d+: Run.*burnt"
    ):
        batch.step(np.array([0, 0]))


def test_a_reward_that_is_not_a_number_is_reported():
    batch = started("NotANumber", 1)
    batch.step(np.array([0]))
    batch.step(np.array([0]))
    with pytest.raises(EnvironmentFault, match=r"environment 0 paid .*nan.* at step 3"):
        batch.step(np.array([0]))


def test_stepping_before_a_reset_is_reported():
    with pytest.raises(EnvironmentFault, match="environment 0 was stepped before its first reset"):
        probe("Counter").step(np.array([0, 0]))


# --- whatever is random follows the seed -------------------------------------------------------------------


def random_play(batch: GymBatch, steps: int) -> list[np.ndarray]:
    """Every array of random actions, the same for all; finished environments begin anew with seeds of their own."""
    rng, kept = np.random.default_rng(3), [batch.reset(np.arange(batch.num_envs), range(batch.num_envs))]
    for time in range(steps):
        step = batch.step(rng.integers(batch.spec.action.size, size=batch.num_envs))
        kept.extend(step)
        done = np.flatnonzero(step.terminated | step.truncated)
        kept.append(batch.reset(done, 100 * time + done))
    return kept


@pytest.mark.parametrize("name", ["minecart-v0", "four-room-v0", "probe_envs:probe/Borrowing-v0"])
def test_the_same_seeds_give_the_same_episodes_in_any_company(name):
    """Ore, the start of four-room and the probe's walk come from numpy's and Python's global generators."""
    one, other = random_play(GymBatch(name, 4), 300), random_play(GymBatch(name, 4), 300)
    for expected, actual in zip(one, other, strict=True):
        np.testing.assert_array_equal(expected, actual)
    many, alone = GymBatch(name, 3), GymBatch(name, 1)
    many.reset(np.arange(3), [7, 8, 9])
    alone.reset(np.array([0]), [8])
    for time in range(100):
        action = np.array([0, time % 4, 1]) % many.spec.action.size
        np.testing.assert_array_equal(many.step(action).reward[1], alone.step(action[[1]]).reward[0])


@pytest.mark.filterwarnings("error")
def test_minecart_continues_to_the_bit():
    """Its ore is drawn on the way, so some must have been delivered for this to mean anything."""
    batch, other = GymBatch("minecart-v0", 8), GymBatch("minecart-v0", 8)
    rewards = np.array(random_play(batch, 150)[2::5])
    assert (rewards[..., :2] > 0).any()
    other.set_state(batch.get_state())
    for expected, actual in zip(random_play(batch, 50), random_play(other, 50), strict=True):
        np.testing.assert_array_equal(expected, actual)


def test_global_generators_are_left_as_they_were():
    bits, before = mtrand.get_bit_generator(), repr(mtrand.get_bit_generator().state)
    pythons = random.getstate()
    random_play(probe("Borrowing"), 5)
    assert (mtrand.get_bit_generator(), repr(bits.state), random.getstate()) == (bits, before, pythons)


@pytest.mark.parametrize(
    ("name", "functions"),
    [("four-room-v0", {"reset"}), ("deep-sea-treasure-v0", set()), ("probe_envs:probe/Borrowing-v0", {"pay"})],
)
def test_who_draws_from_pythons_generator_is_known(name, functions):
    assert python_draws(make_env(name)) == functions


# --- saving and continuing ---------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
def test_a_new_batch_continues_from_a_saved_state_to_the_bit():
    batch = started("Walk", 3, horizon=10)
    for action in ([0, 1, 2], [2, 2, 0]):
        batch.step(np.array(action))
    batch.reset(np.array([1]), [9])
    batch.step(np.array([1, 2]), ids=np.array([0, 2]))
    other = probe("Walk", 3, horizon=10)
    other.set_state(batch.get_state())
    for _ in range(8):
        one, two = batch.step(np.array([0, 1, 2])), other.step(np.array([0, 1, 2]))
        for expected, actual in zip(one, two, strict=True):
            np.testing.assert_array_equal(expected, actual)
    assert one.truncated.tolist() == [True, False, True]


def test_box_actions_are_replayed_to_the_bit():
    batch = started("Echo", 2)
    batch.step(np.array([[0.1, 0.2], [0.3, 0.7]], dtype=np.float32))
    other = probe("Echo", 2)
    other.set_state(batch.get_state())
    state, again = batch.get_state(), other.get_state()
    assert state.keys() == again.keys()
    for name in state:
        np.testing.assert_array_equal(state[name], again[name])


@pytest.mark.filterwarnings("error")
def test_choices_of_several_heads_are_replayed_to_the_bit():
    batch = started("Buttons", 2)
    batch.step(np.array([[2, 0], [0, 1]]))
    other = probe("Buttons", 2)
    other.set_state(batch.get_state())
    np.testing.assert_array_equal(batch.get_state()["actions"], other.get_state()["actions"])


def test_a_batch_not_yet_started_can_be_saved():
    other = probe("Counter")
    other.set_state(probe("Counter").get_state())
    with pytest.raises(EnvironmentFault, match="before its first reset"):
        other.step(np.array([0, 0]))


def test_an_environment_that_its_seed_does_not_determine_is_pointed_out():
    batch = started("Forgetful", 1)
    batch.step(np.array([0]))
    with pytest.warns(UserWarning, match="did not come back to where it was saved"):
        probe("Forgetful", 1).set_state(batch.get_state())


def test_a_state_of_another_size_is_refused():
    with pytest.raises(ConfigError, match="make the batch with num_envs=2"):
        probe("Counter", 3).set_state(started("Counter", 2).get_state())


# --- reference points and specs ----------------------------------------------------------------------------


def test_reference_point_given_published_declared_or_measured():
    assert make_spec("deep-sea-treasure-v0", reference_point=[1, 2]).reference_point == (1.0, 2.0)
    assert make_spec("deep-sea-treasure-v0").reference_point == (0.0, -50.0)
    # No published one: the reward space's floor (-1, -1, 0) over 200 steps.
    assert make_spec("mo-mountaincar-3d-v0").reference_point == (-200.0, -200.0, 0.0)
    assert probe("Counter").spec.reference_point == (0.0, 0.0)


def test_a_measured_reference_point_lies_a_tenth_of_the_spread_below_random_play():
    """Echo pays its actions over 5 steps and declares no bounds: the point comes from 5 random episodes."""
    batch = probe("Echo", 1)
    returns = []
    space = batch._envs[0].action_space
    for seed in range(5):
        space.seed(seed)
        returns.append(np.sum([space.sample() for _ in range(5)], axis=0))
    low, high = np.min(returns, axis=0), np.max(returns, axis=0)
    np.testing.assert_allclose(batch.spec.reference_point, low - 0.1 * (high - low), rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("Grades", (-1000.0, 0.0)),  # a thousand steps of the worst of -1, 0, 1; of 0, 1, 2 the first
        ("Medals", (0.0, 0.0)),
    ],
)
def test_rewards_that_are_choices_have_bounds_too(name, point):
    batch = started(name, 1)
    assert batch.spec.reference_point == point
    np.testing.assert_array_equal(batch.step(np.array([1])).reward, [[1, 1]])


def test_rewards_of_a_space_without_bounds_are_measured():
    """Five steps pay (5, the sum of the actions): no spread in the first, whose point lies 1 below."""
    batch = probe("Unbounded", 1)
    sums = []
    for seed in range(5):
        actions = Discrete(3)
        actions.seed(seed)
        sums.append(sum(int(actions.sample()) for _ in range(5)))
    expected = [4.0, min(sums) - 0.1 * (max(sums) - min(sums))]
    np.testing.assert_allclose(batch.spec.reference_point, expected, rtol=1e-12)


def test_what_a_wrapper_declares_counts():
    """One reward of 1 a step, paid as (1, -1) by a wrapper inside another; so are the names of the objectives."""
    batch = started("PaidTwice", 1)
    assert batch.spec.objectives == ("gain", "loss")
    assert batch.spec.reference_point == (-1000.0, -1000.0)
    np.testing.assert_array_equal(batch.step(np.array([0])).reward, [[1, -1]])


def test_objectives_that_are_no_names_are_numbered():
    assert probe("Counted").spec.objectives == ("objective 1", "objective 2")


@pytest.mark.parametrize(
    ("declared", "names"),
    [
        (["speed", "thrift"], ("speed", "thrift")),
        (("speed", "thrift"), ("speed", "thrift")),
        ([0.5, 1.5], ()),
        ({"speed", "thrift"}, ()),  # in no order
        ("speed", ()),
        ([], ()),
        (None, ()),
    ],
)
def test_names_are_a_list_of_words(declared, names):
    assert read_names(declared) == names


def test_a_reference_point_of_the_wrong_length_is_refused():
    with pytest.raises(ConfigError, match="needs 2 finite numbers"):
        probe("Counter", reference_point=[0.0, 0.0, 0.0])


def test_deep_sea_treasure_end_to_end():
    """Down from the start is the nearest treasure: 0.7 (the convex map's first) at the price of one step."""
    batch = make_batch("deep-sea-treasure-v0", 2)
    assert batch.spec.objectives == ("treasure", "time")
    assert (batch.spec.action.discrete, batch.spec.action.size, batch.spec.horizon) == (True, 4, 100)
    batch.reset(np.arange(2), [0, 0])
    step = batch.step(np.array([1, 3]))  # down, right
    np.testing.assert_allclose(step.reward, [[0.7, -1.0], [0.0, -1.0]], rtol=1e-6)
    assert step.terminated.tolist() == [True, False]


def test_what_physics_says_of_a_known_model_is_not_printed_for_every_environment(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)  # MuJoCo would keep a log here
    with closing(GymBatch("mo-halfcheetah-v5", 2)):
        assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


FALLING = """
<mujoco><worldbody><body><freejoint/><geom size="1"/></body></worldbody></mujoco>
"""


def test_what_else_physics_says_is_told_once():
    import mujoco

    warn_once.cache_clear()
    model = mujoco.MjModel.from_xml_string(FALLING)

    def lose_it():
        data = mujoco.MjData(model)
        data.qpos[0] = np.nan
        mujoco.mj_step(model, data)

    with physics_warning_once():
        with pytest.warns(UcbMoppoWarning, match="[Nn]a[Nn]|unstable"):
            lose_it()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            lose_it()


def test_the_ids_listed_are_mo_gymnasiums_own():
    ids = list_mo_gymnasium_ids()
    assert {"deep-sea-treasure-v0", "minecart-v0", "mo-hopper-v5"} <= set(ids)
    assert not {"CartPole-v1", "Hopper-v4"} & set(ids)


def test_pictures_that_would_be_refused_are_not_listed():
    assert not [name for name in list_mo_gymnasium_ids() if "rgb" in name or "mario" in name]
    assert MAX_NUMBERS < 240 * 256 * 3  # a screen of supermario, which needs a package that is not installed here


def test_what_gymnasium_says_of_an_environment_is_said_once(recwarn):
    for _ in range(2):
        probe("Undescribed", 5, reference_point=(0, 0)).close()
    assert sum("render_modes" in str(each.message) for each in recwarn) == 1
