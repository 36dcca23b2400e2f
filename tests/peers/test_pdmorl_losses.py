"""PD-MORL's losses against numbers derived by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from ucb_moppo.peers.pdmorl.losses import (
    actor_loss,
    angle_degrees,
    choose_smaller,
    critic_loss,
    smooth_actions,
    smooth_l1,
    td_target,
)

SMALLEST_ANGLE = float(np.rad2deg(np.arccos(0.9999)))  # 0.81°, of vectors that are parallel


@pytest.mark.parametrize(
    ("direction", "value", "degrees"),
    [
        ((1, 0), (0, 3), 90.0),
        ((1, 0), (2, 2), 45.0),
        ((1, 0), (1, np.sqrt(3)), 60.0),
        ((1, 1, 1), (1, 1, 0), np.rad2deg(np.arccos(2 / np.sqrt(6)))),
        ((0.6, 0.8), (6, 8), SMALLEST_ANGLE),
        ((1, 0), (-1, 0), 90.0),  # obtuse angles count as right ones
        ((1, 0), (0, 0), 90.0),
    ],
)
def test_angle_of_known_vectors(direction, value, degrees):
    assert_allclose(angle_degrees(jnp.array([direction], float), jnp.array([value], float)), [degrees], rtol=1e-4)


@pytest.mark.parametrize("value", [(3.0, 4.0), (-3.0, -4.0)])
def test_angle_has_no_gradient_where_the_arc_cosine_has_an_infinite_one(value):
    gradient = jax.grad(lambda v: angle_degrees(jnp.array([[0.6, 0.8]]), v).sum())(jnp.array([value]))
    assert_allclose(gradient, 0.0)


def test_angle_of_a_value_of_zero_has_a_finite_gradient():
    gradient = jax.grad(lambda v: angle_degrees(jnp.array([[0.6, 0.8]]), v).sum())(jnp.zeros((1, 2)))
    assert jnp.isfinite(gradient).all()


def test_angle_gradient_turns_the_value_towards_the_direction():
    # At (1, 1) the angle to (1, 0) is 45°; its gradient is 1/|v| rad = 180/π/√2 degrees, across the value.
    gradient = jax.grad(lambda v: angle_degrees(jnp.array([[1.0, 0.0]]), v).sum())(jnp.array([[1.0, 1.0]]))
    assert_allclose(gradient, [[-90 / np.pi, 90 / np.pi]], rtol=1e-4)


def test_smooth_l1_is_square_within_one_and_straight_beyond():
    # ½·0.5² = 0.125 and 3 − ½ = 2.5
    assert_allclose(smooth_l1(jnp.array([[0.5, 4.0]]), jnp.array([[0.0, 1.0]])), (0.125 + 2.5) / 2)


def test_smoothed_target_actions_are_clipped_twice():
    action, noise = jnp.array([[0.0, 0.0, 0.9, -0.9]]), jnp.array([[1.0, 10.0, 1.0, -10.0]])
    # 0.2·1; 0.2·10 cut to 0.5; 0.9 + 0.2 cut to 1; −0.9 − 0.5 cut to −1
    assert_allclose(smooth_actions(action, noise, 0.2, 0.5), [[0.2, 0.5, 1.0, -1.0]])


def test_target_takes_the_whole_vector_of_the_twin_with_the_smaller_utility():
    first, second = [[10.0, 0.0], [10.0, 0.0]], [[1.0, 4.0], [1.0, 4.0]]
    weight = jnp.array([[1.0, 0.0], [0.1, 0.9]])  # utilities 10 against 1, and 1 against 3.7
    assert_allclose(choose_smaller(jnp.array([first, second]), weight), [[1.0, 4.0], [10.0, 0.0]])


def test_only_termination_ends_the_future():
    reward, following = jnp.array([[1.0, 2.0], [1.0, 2.0]]), jnp.array([[10.0, 20.0], [10.0, 20.0]])
    assert_allclose(td_target(reward, jnp.array([0.0, 1.0]), following, 0.9), [[10.0, 20.0], [1.0, 2.0]])


def test_critic_loss_adds_distance_and_angle_of_both_twins():
    values, target = jnp.array([[[2.0, 2.0]], [[0.0, 1.0]]]), jnp.array([[2.0, 1.0]])
    direction = jnp.array([[1.0, 0.0]])
    # First twin: distance (0 + ½)/2 and 45°; second: (1½ + 0)/2 and 90°.
    assert_allclose(critic_loss(values, target, direction, 1.0), 0.25 + 45 + 0.75 + 90, rtol=1e-5)
    assert_allclose(critic_loss(values, target, direction, 0.0), 0.25 + 0.75, rtol=1e-5)


def test_actor_loss_is_the_negative_utility_and_ten_angles():
    value, weight = jnp.array([[3.0, 3.0], [4.0, 0.0]]), jnp.array([[0.5, 0.5], [1.0, 0.0]])
    direction = jnp.array([[1.0, 0.0], [0.0, 1.0]])
    # −3 + 10·45 and −4 + 10·90, on average
    assert_allclose(actor_loss(value, weight, direction, 10.0), (447 + 896) / 2, rtol=1e-5)
