"""What utilities change in training: preferences hold, returns accrue, directions follow the mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_runs import assert_same, tiny_settings, train_tiny, train_until

from ucb_moppo.config import MoppoConfig, resolve
from ucb_moppo.engine.archive import Archive
from ucb_moppo.engine.environments import environments_of
from ucb_moppo.engine.held_out import serve_best
from ucb_moppo.engine.population import Population, find_directions, note_episodes
from ucb_moppo.engine.recent import RecentReturns
from ucb_moppo.engine.rollout import Collector
from ucb_moppo.engine.shard import Shard
from ucb_moppo.envs import make_batch
from ucb_moppo.envs.accrued import AccruedBatch
from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives.goal_settings import GoalSettings
from ucb_moppo.objectives.utility import make_goal
from ucb_moppo.training.reporter import Silent
from ucb_moppo.training.resume import resume_run
from ucb_moppo.training.train import as_seen, spec_of

COUNTER = "probe_envs:probe/Counter-v0"
"""Episodes of 5 steps that pay (1, action), action 0, 1 or 2."""
CHEBYSHEV: dict[str, Any] = {"utility": "chebyshev", "ideal": (5.0, 10.0), "nadir": (0.0, 0.0), "rho": 0.0}
FLOORS: dict[str, Any] = {"utility": "floors", "floors": ("2=6",)}


def always(action: int) -> Any:
    """An actor that chooses one action, whatever it is shown."""

    def act(observation: NDArray, weight: NDArray, noise: NDArray | None = None) -> NDArray:
        return np.broadcast_to(np.eye(3)[action], (*observation.shape[:2], 3))

    return act


def config_of(problem: str = COUNTER, **settings: Any) -> MoppoConfig:
    chosen = tiny_settings(problem, horizon=5, active=2, samples=14, **settings)
    return resolve(chosen, spec_of(chosen))


def collector_of(config: MoppoConfig) -> Collector:
    env = environments_of(config)(2 * config.search.active)
    return Collector(env, (0, 1), config.seed, config.make_goal(env.spec))


def weights_of(config: MoppoConfig, first: float) -> NDArray:
    return np.broadcast_to([first, 1 - first], (2, config.search.active, 2))


def test_accrued_returns_and_time_stand_behind_the_observation() -> None:
    env = AccruedBatch(make_batch(COUNTER, 2, horizon=5), (2.0, 4.0))
    assert env.spec.input_size == env.spec.observation_size + 3
    shown = env.reset(np.arange(2), [1, 2])
    np.testing.assert_array_equal(shown[:, -3:], np.zeros((2, 3)))
    env.step(np.array([1, 2]))
    shown = env.step(np.array([2]), np.array([1])).observation
    # The second has earned (1, 2) twice in two of five steps; over the scales (2, 4) that is (1, 1).
    np.testing.assert_allclose(shown[0, -3:], [1.0, 1.0, 0.4])
    state = env.get_state()
    after = env.step(np.array([0, 1])).observation
    env.reset(np.array([0]), [5])
    env.set_state(state)
    np.testing.assert_array_equal(env.step(np.array([0, 1])).observation, after)


def test_a_preference_holds_until_its_episode_ends() -> None:
    config = config_of(**CHEBYSHEV)
    collector = collector_of(config)
    noise = np.zeros((3, 2, config.search.active, 3))
    first = collector.collect(always(1), weights_of(config, 0.2), noise)
    second = collector.collect(always(1), weights_of(config, 0.7), noise)
    np.testing.assert_allclose(first.preference[..., 0], 0.2)
    # Steps 4 and 5 end the episode that was begun for 0.2; the sixth begins the one that is wanted now.
    np.testing.assert_allclose(second.preference[:, 0, 0, 0], [0.2, 0.2, 0.7])
    np.testing.assert_allclose(second.accrued[:, 0, 0], [[4, 4], [5, 5], [1, 1]])


@pytest.mark.parametrize("utility", [CHEBYSHEV, FLOORS])
def test_what_is_paid_by_episode_adds_up_to_the_utility_of_its_return(utility: dict[str, Any]) -> None:
    config = config_of(**utility, criterion="esr")
    collector = collector_of(config)
    rollout = collector.collect(always(2), weights_of(config, 0.2), np.zeros((5, 2, config.search.active, 3)))
    goal, preference = config.make_goal(collector.spec), np.array([0.2, 0.8])
    gained = goal.utility(np.array([5.0, 10.0]), preference) - goal.utility(np.zeros(2), preference)
    np.testing.assert_allclose(rollout.reward[..., -1].sum(axis=0), gained, rtol=1e-5)
    np.testing.assert_array_equal(rollout.reward[..., :2], np.broadcast_to([1.0, 2.0], (5, 2, 2, 2)))


def test_by_episode_the_horizon_ends_the_future() -> None:
    """The utility is that of the return by then: there is nothing to come that it would count."""
    problem = "probe_envs:probe/Trade-v0"  # which only the horizon ends
    for criterion, ended in (("esr", True), ("ser", False)):
        config = config_of(problem, **CHEBYSHEV, criterion=criterion)
        collector = collector_of(config)
        act = Population(config, collector.spec, (0, 1), 1).actors
        rollout = collector.collect(act, weights_of(config, 0.5), np.zeros((5, 2, config.search.active, 1)))
        assert rollout.truncated[4].all()
        assert (rollout.terminated[4] == ended).all()


def test_by_episode_the_critic_tells_one_value_more_and_both_see_what_accrued() -> None:
    config = config_of(**CHEBYSHEV, criterion="esr")
    spec = as_seen(spec_of(config), config)
    tensors = Population(config, spec, (0, 1), 1).tensors()
    assert tensors["critic.head.bias"].shape == (2, 3)
    # Counter shows 2 numbers, m + 1 = 3 accrue, and the preference has 2.
    assert tensors["actor.hidden1.kernel"].shape[1] == tensors["critic.hidden1.kernel"].shape[1] == 7
    assert config.ppo.gamma == 1.0


def test_the_mean_return_near_a_preference_forgets_what_is_old_and_far() -> None:
    recent = RecentReturns(1, 3, 1, 2, width=0.1)
    here, there = np.array([0.2, 0.8]), np.array([0.9, 0.1])
    assert np.isnan(recent.estimate(0, here[None])).all()
    recent.note(0, np.array([here, here]), np.array([[1.0, 0.0], [3.0, 0.0]]))
    np.testing.assert_allclose(recent.estimate(0, here[None]), [[2.0, 0.0]])
    recent.note(0, np.array([there, here]), np.array([[100.0, 50.0], [5.0, 0.0]]))
    # The first is forgotten, the third is seven widths away: 3 and 5 are left.
    np.testing.assert_allclose(recent.estimate(0, here[None]), [[4.0, 0.0]], atol=1e-3)


def test_what_exploring_costs_is_added_until_the_next_evaluation() -> None:
    recent = RecentReturns(1, 4, 1, 2, width=0.1)
    here = np.array([[0.5, 0.5]])
    recent.correct(0, here, np.array([[9.0, 9.0]]))
    # Nothing is known but the evaluation.
    np.testing.assert_allclose(recent.estimate(0, here), [[9.0, 9.0]])
    recent.note(0, here, np.array([[4.0, 6.0]]))
    recent.correct(0, here, np.array([[5.0, 8.0]]))
    recent.note(0, np.repeat(here, 4, axis=0), np.full((4, 2), 10.0))
    np.testing.assert_allclose(recent.estimate(0, here), [[11.0, 12.0]])


def test_directions_follow_who_is_worst_off() -> None:
    config = config_of(**CHEBYSHEV)
    spec = spec_of(config)
    goal = config.make_goal(spec)
    recent = RecentReturns(1, 4, 1, 2, width=0.1)
    recent.note(0, np.array([[0.5, 0.5]]), np.array([[5.0, 0.0]]))
    preference = np.full((3, 1, 2, 2), 0.5)
    # The second lacks all of its ideal: only more of it, a tenth of a unit, is worth anything.
    found = find_directions(goal, recent, preference)
    np.testing.assert_allclose(found, np.broadcast_to([0, 0.1], (3, 1, 2, 2)), atol=1e-6)


def test_episodes_are_noted_where_they_end() -> None:
    config = config_of(**CHEBYSHEV)
    collector = collector_of(config)
    rollout = collector.collect(always(1), weights_of(config, 0.2), np.zeros((7, 2, config.search.active, 3)))
    recent = RecentReturns(2, 10, 1, 2, width=0.1)
    note_episodes(recent, rollout)
    assert recent.counts.tolist() == [2, 2]
    np.testing.assert_array_equal(recent.returns[:, :2], np.full((2, 2, 2), 5.0))


def test_a_direction_takes_the_place_of_the_weight_and_nothing_else() -> None:
    """An update along the weights themselves is the linear update, to the bit."""
    config = config_of(method="fixed")
    collector = collector_of(config)
    population = Population(config, collector.spec, (0, 1), 1)
    weights = weights_of(config, 0.3).astype(np.float32)
    rollout = collector.collect(population.actors, weights, population.draw_noise())
    algorithm = population.algorithm
    states = [algorithm.init_policies(collector.spec, 0, (0, 1)) for _ in range(2)]
    plain, _ = algorithm.update(states[0], rollout, weights)
    stretched = np.broadcast_to(weights, (*rollout.terminated.shape, 2))
    directed, _ = algorithm.update(states[1], rollout, stretched, stretched)
    for one, other in zip(jax.tree.leaves(plain), jax.tree.leaves(directed), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_serves_preferences_better_is_kept() -> None:
    goal = make_goal(GoalSettings(**CHEBYSHEV), spec_of(config_of(**CHEBYSHEV)))
    kept = Archive((0.0, 0.0), goal)
    ends = np.array([[[5.0, 0.0]], [[0.0, 10.0]]])
    kept.take(ends, {"name": np.zeros(2)}, ends[:, :, None])
    # The first sub-space loses its end for a point that leaves everybody with less, the second wins the middle.
    news = np.array([[[2.0, 0.0]], [[2.5, 5.0]]])
    taken = kept.take(news, {"name": np.ones(2)}, news[:, :, None])
    assert kept.outcomes is not None
    assert not taken[0]
    np.testing.assert_array_equal(kept.outcomes[:, :, 0], kept.returns)
    again = Archive((0.0, 0.0), goal)
    again.set_state(kept.get_state())
    np.testing.assert_array_equal(again.outcomes, kept.outcomes)


def test_who_serves_some_preference_best_is_measured_too() -> None:
    goal = make_goal(GoalSettings(**CHEBYSHEV, criterion="esr"), spec_of(config_of(**CHEBYSHEV)))
    # By the mean the first beats the second everywhere; of its episodes none has anything of both.
    gambling, steady = [[5.5, 0.0], [0.0, 11.0]], [[2.5, 5.0], [2.5, 5.0]]
    outcomes = np.array([[gambling, steady, [[np.nan, 1.0], [1.0, 1.0]]]])
    assert serve_best(outcomes, goal).tolist() == [[True, True, False]]


# --- whole runs --------------------------------------------------------------------------------------------

SWIMMER_BY = {
    "ser": {"utility": "chebyshev", "ideal": (5.0, 6.0), "criterion": "ser"},
    "esr": {"utility": "floors", "floors": ("2=3",), "criterion": "esr"},
}


@pytest.mark.parametrize("criterion", ["ser", "esr"])
@pytest.mark.parametrize("layout", ["static", "parting"])
def test_a_run_is_continued_to_the_same_bits(criterion: str, layout: str, tmp_path: Path) -> None:
    own = {**SWIMMER_BY[criterion], "layout": layout, "together": 6, "horizon": 15}
    whole = train_tiny(tmp_path / "whole", **own)
    broken = train_until(tmp_path / "broken", 5, **own)
    assert_same(resume_run(broken, Silent()).path, whole.path)


@pytest.mark.parametrize("criterion", ["ser", "esr"])
def test_processes_give_the_same_bits(criterion: str, tmp_path: Path) -> None:
    own = {**SWIMMER_BY[criterion], "layout": "parting", "together": 6, "shards": 2, "checkpoint_seconds": 99.0}
    here = train_tiny(tmp_path / "here", **own, executor="local")
    there = train_tiny(tmp_path / "there", **own, executor="processes")
    for name in ("front.csv", "evaluations.csv", "policies.safetensors"):
        assert (here.path / name).read_bytes() == (there.path / name).read_bytes()


def test_led_shards_act_with_the_network_that_learns(tmp_path: Path) -> None:
    """Where one policy is shared, shards are sent its parameters: what they mean is for the settings to say."""
    config = config_of("probe_envs:probe/Trade-v0", activation="relu", layers=1, layout="parting")
    shard = Shard(config, (0, 1), led=True)
    lead = Population(config, shard._collector.spec, (0, 1), group=2)
    weights = weights_of(config, 0.3).astype(np.float32)
    noise = np.zeros((3, 2, config.search.active, 1), np.float32)
    rollout = shard.collect(lead.tensors(), weights, noise)
    expected = lead.actors(rollout.observation[0].reshape(1, -1, 1), weights.reshape(1, -1, 2))
    np.testing.assert_allclose(rollout.action[0].reshape(1, -1, 1), expected, rtol=1e-6)
    shard.close()


def test_a_discounted_evaluation_is_refused() -> None:
    with pytest.raises(ConfigError, match="taken of undiscounted returns"):
        config_of(**CHEBYSHEV, evaluation_discount=0.9)
