"""One gradient step of PD-MORL: who moves, when, and how far."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ucb_moppo.algos.stacked import stack_states
from ucb_moppo.peers.pdmorl.interpolation import fit_interpolation, key_preferences
from ucb_moppo.peers.pdmorl.networks import apply_actor, apply_critics, count_parameters
from ucb_moppo.peers.pdmorl.pdmorl_settings import PDMORLSettings
from ucb_moppo.peers.pdmorl.replay import Samples
from ucb_moppo.peers.pdmorl.update import (
    actor_turns,
    init_learner,
    make_targets,
    make_update,
    pretraining_rule,
    training_rule,
    update_actor,
    update_critics,
    update_learner,
)
from ucb_moppo.spec import ActionSpec, EnvSpec

SPEC = EnvSpec("tiny", ("a", "b"), 3, ActionSpec(False, 2, (-1.0,) * 2, (1.0,) * 2), 5, (0.0, 0.0))
RULE = training_rule(PDMORLSettings(policy_delay=3, tau=0.25))
KEYS = key_preferences(2)
INTERPOLATION = fit_interpolation(KEYS, np.array([[3.0, 1.0], [0.0, 2.0], [2.0, 2.0]]))
NOISE = np.random.default_rng(2).standard_normal((8, 2)).astype(np.float32)


def learner(seed=0):
    return jax.tree.map(jnp.asarray, init_learner(np.random.default_rng(seed), SPEC, 16, RULE))


def batch(seed=1, size=8):
    rng = np.random.default_rng(seed)
    normal = [rng.standard_normal((size, n)).astype(np.float32) for n in (3, 2, 2, 3)]
    weight = rng.dirichlet([1, 1], size).astype(np.float32)
    return jax.tree.map(jnp.asarray, Samples(*normal, np.arange(size) % 2 * np.float32(1), weight))


def moved(before, after):
    return {name: bool(jnp.any(before[name] != after[name])) for name in before}


def test_parameters_are_those_of_two_relu_layers():
    # actor (3+2)·16+16 + 16·16+16 + 16·2+2; each critic (3+2+2)·16+16 + 16·16+16 + 16·2+2
    made = learner()
    assert count_parameters(made.actor) == 96 + 272 + 34
    assert count_parameters(made.critics) == 2 * (128 + 272 + 34)
    action = apply_actor(made.actor, jnp.ones((4, 3)), jnp.ones((4, 2)))
    assert action.shape == (4, 2)
    assert jnp.abs(action).max() <= 1
    assert apply_critics(made.critics, jnp.ones((4, 3)), action, jnp.ones((4, 2))).shape == (2, 4, 2)


def test_the_twins_begin_apart():
    kernels = learner().critics["hidden1.kernel"]
    assert jnp.any(kernels[0] != kernels[1])


def test_targets_come_from_the_target_networks_and_the_twin_with_the_smaller_utility():
    other, data = learner(5), batch()
    mixed = learner()._replace(target_actor=other.actor, target_critics=other.critics)
    action = apply_actor(other.actor, data.next_observation, data.weight)
    smoothed = np.clip(action + np.clip(0.2 * NOISE, -0.5, 0.5), -1, 1)
    values = np.asarray(apply_critics(other.critics, data.next_observation, smoothed, data.weight))
    expected = []
    for row in range(8):
        utilities = [float(np.dot(data.weight[row], values[twin, row])) for twin in range(2)]
        future = values[int(np.argmin(utilities)), row] * (1 - data.terminated[row])
        expected.append(np.asarray(data.reward[row]) + 0.995 * future)
    assert_allclose(make_targets(mixed, data, NOISE, RULE), expected, rtol=1e-4, atol=1e-5)


def test_a_critic_update_moves_the_critics_alone():
    before = learner()
    after = update_critics(before, batch(), NOISE, INTERPOLATION, rule=RULE)
    assert all(moved(before.critics, after.critics).values())
    for part in ("actor", "target_actor", "target_critics"):
        assert not any(moved(getattr(before, part), getattr(after, part)).values())


def test_an_actor_update_moves_the_actor_and_a_quarter_of_the_way_the_targets():
    before = learner()
    ahead = before._replace(critics=learner(7).critics)
    after = update_actor(ahead, batch(), INTERPOLATION, rule=RULE)
    assert any(moved(before.actor, after.actor).values())
    assert not any(moved(ahead.critics, after.critics).values())
    for name in before.actor:
        assert_allclose(
            after.target_actor[name], 0.25 * after.actor[name] + 0.75 * before.actor[name], rtol=1e-5, atol=1e-7
        )
        assert_allclose(
            after.target_critics[name],
            0.25 * ahead.critics[name] + 0.75 * before.critics[name],
            rtol=1e-5,
            atol=1e-7,
        )


@pytest.mark.parametrize("limit", [1e-3, 1e6])
def test_gradients_longer_than_the_limit_are_cut(limit):
    # Adam divides a gradient's size out again, unless its ε of 1e-8 is felt: cut to 1e-3 the many small
    # components of the gradient change; left alone they do not.
    clipped = update_critics(learner(), batch(), NOISE, INTERPOLATION, rule=replace(RULE, max_grad_norm=limit))
    first_moment = clipped.critic_state[1][0].mu
    norm = float(jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in first_moment.values())))
    assert (norm == pytest.approx(0.1 * limit, rel=1e-3)) == (limit == 1e-3)  # mu = (1 − β₁) · gradient


def test_the_actor_waits_for_its_turn():
    assert_array_equal(actor_turns(0, 7, 3), [False, False, True, False, False, True, False])
    assert_array_equal(actor_turns(7, 3, 3), [False, True, False])  # the 9th of all


def test_gradient_steps_in_a_scan_are_those_taken_one_by_one():
    count = 4
    batches, noise = [batch(seed) for seed in range(count)], [NOISE * (i + 1) for i in range(count)]
    turns = actor_turns(0, count, RULE.policy_delay)
    expected = learner()
    for data, draw, turn in zip(batches, noise, turns, strict=True):
        expected = update_critics(expected, data, draw, INTERPOLATION, rule=RULE)
        if turn:
            expected = update_actor(expected, data, INTERPOLATION, rule=RULE)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *batches)
    found = update_learner(learner(), stacked, jnp.stack(noise), turns, INTERPOLATION, rule=RULE)
    jax.tree.map(lambda one, other: assert_allclose(one, other, rtol=2e-4, atol=1e-5), found, expected)


def test_learners_side_by_side_do_not_meet():
    data = jax.tree.map(lambda leaf: leaf[None], batch())
    turns = np.array([True])
    update = make_update(RULE)
    alone = [
        update(
            stack_states([learner(seed)]),
            jax.tree.map(lambda a: a[None], data),
            NOISE[None, None],
            turns,
            INTERPOLATION,
        )
        for seed in (0, 1)
    ]
    both = update(
        stack_states([learner(0), learner(1)]),
        jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), data),
        np.stack([NOISE[None]] * 2),
        turns,
        INTERPOLATION,
    )
    for i in range(2):
        for name, params in both.actor.items():
            assert_allclose(params[i], alone[i].actor[name][0], rtol=1e-4, atol=1e-6)


def test_pretraining_has_no_angle_and_its_own_settings():
    rule = pretraining_rule(PDMORLSettings())
    assert (rule.critic_angle, rule.actor_angle) == (0.0, 0.0)
    assert (rule.gamma, rule.policy_delay, rule.tau) == (0.99, 2, 0.005)
    elsewhere = fit_interpolation(KEYS, np.array([[0.0, 1.0], [9.0, 2.0], [-2.0, 2.0]]))
    here = update_critics(learner(), batch(), NOISE, INTERPOLATION, rule=rule)
    there = update_critics(learner(), batch(), NOISE, elsewhere, rule=rule)
    assert not any(moved(here.critics, there.critics).values())
