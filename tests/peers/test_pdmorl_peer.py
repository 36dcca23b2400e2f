"""PD-MORL from end to end on problems whose fronts are known."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ucb_moppo.config import PeerConfig, make_settings, resolve
from ucb_moppo.engine.environments import environments_of
from ucb_moppo.engine.evaluation import evaluate
from ucb_moppo.envs import make_batch, make_spec
from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives.pareto import hypervolume
from ucb_moppo.objectives.weights import even_weights
from ucb_moppo.peers.base import Counts
from ucb_moppo.peers.pdmorl.interpolation import fit_interpolation, key_preferences
from ucb_moppo.peers.pdmorl.networks import apply_actor
from ucb_moppo.peers.pdmorl.pdmorl_settings import PDMORLSettings, published
from ucb_moppo.peers.pdmorl.peer import PDMORL, make_schedules

TRADE = "probe_envs:probe/Trade-v0"
BALL = "probe_envs:probe/Ball-v0"
TINY: dict[str, Any] = {"workers": 4, "cells": 16, "batch": 16, "key_batch": 16, "random_share": 0.1}
STRAIGHT = fit_interpolation(key_preferences(2), key_preferences(2))
QUICK: dict[str, Any] = {
    "workers": 8,
    "cells": 64,
    "batch": 64,
    "key_batch": 64,
    "gamma": 0.8,
    "key_gamma": 0.8,
    "learning_rate": 3e-3,
    "tau": 0.05,
    "policy_delay": 2,
    "key_interval": 50,
    "random_share": 0.1,
}


def peer_config(problem: str, **settings: Any) -> PeerConfig:
    config = resolve(make_settings(problem, "pdmorl", **settings), make_spec(problem))
    assert isinstance(config, PeerConfig)
    return config


def peer(problem: str = TRADE, steps: int = 300, seed: int = 0, **settings: Any) -> PDMORL:
    values = {**vars(published(problem)), **(settings or TINY)}
    config = peer_config(problem, seed=seed, steps=steps, threads=1, **values)
    make_envs = environments_of(config)
    env = make_envs(1)
    return PDMORL(env.spec, config, make_envs, even_weights(env.spec.num_objectives, 11))


def returns(trained: PDMORL) -> np.ndarray:
    """Undiscounted returns [W, m] of the one policy at the weights that the peer was made with."""
    weights = trained.snapshot().weights
    env = trained.make_envs(weights.shape[1])
    return evaluate(trained.training.actors(), weights, env).returns[0]


@pytest.fixture(scope="module")
def short_run() -> tuple[PDMORL, list[Counts]]:
    counts: list[Counts] = []
    trained = peer(steps=300)
    counts.extend(trained.train())
    return trained, counts


def test_steps_are_counted_to_the_last_one(short_run):
    _, counts = short_run
    # 37.5% of 300 in rounds of 3 keys: 37 rounds, 111 steps; the other 189 in rounds of 4 workers: 47, 188 steps.
    assert counts[-1][:2] == (188, 111)
    assert [c.budgeted for c in counts] == [*range(3, 112, 3), *range(115, 300, 4)]
    # Ten episodes of five steps per key after pre-training; then three per key whenever every worker has
    # finished an episode of five steps: nine times in 47.
    assert counts[-1].evaluation == 3 * 10 * 5 + 9 * 3 * 3 * 5


def test_gradient_steps_follow_the_environment_steps(short_run):
    training = short_run[0].training
    # The buffer has 2·16 transitions after 8 rounds of 4; every round from then on takes 4 gradient steps.
    assert training.num_updates == (47 - 7) * 4
    assert len(training.buffers[0]) == 188
    assert training.buffers[0].num_preferences == 4


def test_the_same_seed_gives_the_same_bits(short_run):
    again, other = peer(steps=300), peer(steps=300, seed=1)
    for run in (again, other):
        list(run.train())
    first, second, third = (run.snapshot().tensors for run in (short_run[0], again, other))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert not np.array_equal(first["actor.hidden1.kernel"], third["actor.hidden1.kernel"])


def test_it_learns_the_front_of_a_known_problem():
    # The best u for a weight is w_1, and 5 (1 − (1 − u)², 1 − u²) its return. The angle moves u a little: key
    # solutions (5, 0), (0, 5) and (3.75, 3.75) point where the front lies only at the keys themselves.
    trained = peer(TRADE, steps=6000, **QUICK)
    best = hypervolume(front_of_trade(), np.zeros(2))
    before = hypervolume(returns(trained), np.zeros(2))
    list(trained.train())
    after = hypervolume(returns(trained), np.zeros(2))
    assert before < 0.75 * best
    assert after > 0.9 * best
    assert trained.solutions is not None
    assert_allclose(trained.solutions, [[5, 0], [0, 5], [3.75, 3.75]], atol=0.8)


def front_of_trade() -> np.ndarray:
    u = even_weights(2, 11)[:, 0]
    return 5 * np.column_stack([1 - (1 - u) ** 2, 1 - u**2])


def test_three_objectives_have_four_key_solutions():
    trained = peer(BALL, steps=100)
    list(trained.train())
    assert trained.solutions is not None
    assert trained.solutions.shape == (4, 3)
    snapshot = trained.snapshot()
    assert snapshot.weights.shape == (1, *even_weights(3, 11).shape)
    assert snapshot.tensors["actor.hidden1.kernel"].shape == (1, 1 + 3, 16)


def test_the_deployed_actor_is_the_trained_one(short_run):
    trained = short_run[0]
    rng = np.random.default_rng(0)
    observation = rng.uniform(-1, 1, (1, 6, 1)).astype(np.float32)
    weight = rng.dirichlet([1, 1], (1, 6)).astype(np.float32)
    learnt = {name: params[0] for name, params in trained.training.learners.actor.items()}
    expected = apply_actor(learnt, jnp.asarray(observation[0]), jnp.asarray(weight[0]))
    assert_allclose(trained.training.actors()(observation, weight)[0], expected, rtol=1e-5, atol=1e-6)


def test_a_truncated_episode_has_a_future_and_a_terminated_one_has_none():
    for problem, ends in ((TRADE, 0.0), ("probe_envs:probe/Echo-v0", 1.0)):  # cut at 5 steps; ended at 5 steps
        trained = peer(problem, steps=100, **TINY | {"batch": 100})  # too large to learn from
        for _ in range(10):
            trained.training.advance(STRAIGHT)
        stored = trained.training.buffers[0].sample(np.random.default_rng(0), (500,)).terminated
        assert_array_equal(np.unique(stored), np.unique([0.0, ends]))


def test_a_worker_keeps_its_preference_for_an_episode_and_stays_in_its_part():
    trained = peer(steps=1000)
    seen = []
    for _ in range(40):
        seen.append(trained.training.weight.copy())
        trained.training.advance(STRAIGHT)
    weights = np.array(seen)[..., 0].reshape(8, 5, 4)  # [episode, step, worker]
    assert (weights == weights[:, :1]).all()
    assert len(np.unique(weights)) > 16
    for worker, part in enumerate(weights.reshape(40, 4).T):
        assert worker / 4 - 0.01 <= part.min() <= part.max() <= (worker + 1) / 4 + 0.01


def test_discrete_actions_are_refused_with_the_remedy():
    config = peer_config("probe_envs:probe/Counter-v0")
    spec = make_batch(config.problem, 1).spec
    with pytest.raises(ConfigError, match=r"needs Box actions.*3 choices.*--method ucb"):
        PDMORL(spec, config, environments_of(config), even_weights(2))


def test_too_few_steps_are_refused():
    with pytest.raises(ConfigError, match="steps is 9, too few"):
        make_schedules(PDMORLSettings(), 9, 3)


def test_settings_are_the_published_ones_and_checked():
    assert (published("HalfCheetah-v2").policy_delay, published("Hopper-v2").policy_delay) == (10, 20)
    assert published("Swimmer-v2").pretraining_share == pytest.approx(3 / 13)
    # 2.5M: 3 keys × 312,500 steps, 10 workers × 156,250.
    keys, training = make_schedules(published("HalfCheetah-v2"), 2_500_000, 3)
    assert (keys.rounds, training.rounds, training.random_rounds) == (312_500, 156_250, 1562)
    for name, value in (("workers", 0), ("gamma", 1.5), ("pretraining_share", 1.0), ("updates_per_step", 0)):
        with pytest.raises(ConfigError, match=f"{name} is {value}"):
            PDMORLSettings(**{name: value})
