"""One PD-MORL update: several gradient steps on samples of the replay buffer.

Written for one learner (an actor, twin critics and their targets), vmapped over K at the end: pre-training has one
per key preference, training has one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jax import Array

from ucb_moppo.peers.pdmorl.interpolation import Interpolation, interpolate
from ucb_moppo.peers.pdmorl.losses import actor_loss, choose_smaller, critic_loss, smooth_actions, td_target
from ucb_moppo.peers.pdmorl.networks import apply_actor, apply_critics, init_actor, init_critics
from ucb_moppo.peers.pdmorl.pdmorl_settings import PDMORLSettings
from ucb_moppo.peers.pdmorl.replay import Samples
from ucb_moppo.policy.networks import Params
from ucb_moppo.spec import EnvSpec


@dataclass(frozen=True)
class UpdateRule:
    """What an update depends on."""

    gamma: float
    policy_delay: int
    critic_angle: float
    actor_angle: float
    tau: float
    target_noise: float
    noise_clip: float
    learning_rate: float
    max_grad_norm: float


def training_rule(settings: PDMORLSettings) -> UpdateRule:
    """The update of the policy that knows every preference."""
    return UpdateRule(**{field.name: getattr(settings, field.name) for field in fields(UpdateRule)})


def pretraining_rule(settings: PDMORLSettings) -> UpdateRule:
    """The update of key policies: TD3 on w·Q, without the angle that they are there to find."""
    return replace(
        training_rule(settings),
        gamma=settings.key_gamma,
        policy_delay=settings.key_policy_delay,
        critic_angle=0.0,
        actor_angle=0.0,
    )


class LearnerState(NamedTuple):
    """Everything that training changes. A pytree; K learners have a leading axis K."""

    actor: Params
    critics: Params  # with a leading axis 2, the twins
    target_actor: Params
    target_critics: Params
    actor_state: Any
    critic_state: Any


def make_optimiser(rule: UpdateRule) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(rule.max_grad_norm), optax.adam(rule.learning_rate))


def init_learner(rng: np.random.Generator, spec: EnvSpec, cells: int, rule: UpdateRule) -> LearnerState:
    """A fresh learner, whose targets are copies of its networks."""
    actor, critics = init_actor(rng, spec, cells), init_critics(rng, spec, cells)
    optimiser = make_optimiser(rule)
    return LearnerState(actor, critics, actor, critics, optimiser.init(actor), optimiser.init(critics))


def make_targets(learner: LearnerState, batch: Samples, noise: Array, rule: UpdateRule) -> Array:
    """What the critics should say of a batch: [B, m], from smoothed target actions with noise [B, a]."""
    action = apply_actor(learner.target_actor, batch.next_observation, batch.weight)
    action = smooth_actions(action, noise, rule.target_noise, rule.noise_clip)
    values = apply_critics(learner.target_critics, batch.next_observation, action, batch.weight)
    return td_target(batch.reward, batch.terminated, choose_smaller(values, batch.weight), rule.gamma)


def update_critics(
    learner: LearnerState, batch: Samples, noise: Array, interpolation: Interpolation, *, rule: UpdateRule
) -> LearnerState:
    """A gradient step of both twins."""
    target, direction = make_targets(learner, batch, noise, rule), interpolate(interpolation, batch.weight)

    def loss(critics: Params) -> Array:
        values = apply_critics(critics, batch.observation, batch.action, batch.weight)
        return critic_loss(values, target, direction, rule.critic_angle)

    critics, state = _descend(loss, learner.critics, learner.critic_state, rule)
    return learner._replace(critics=critics, critic_state=state)


def update_actor(
    learner: LearnerState, batch: Samples, interpolation: Interpolation, *, rule: UpdateRule
) -> LearnerState:
    """A gradient step of the actor, judged by the first twin; then all targets follow a little."""
    first_twin = {name: params[0] for name, params in learner.critics.items()}
    direction = interpolate(interpolation, batch.weight)

    def loss(actor: Params) -> Array:
        action = apply_actor(actor, batch.observation, batch.weight)
        value = apply_critics(first_twin, batch.observation, action, batch.weight)
        return actor_loss(value, batch.weight, direction, rule.actor_angle)

    actor, state = _descend(loss, learner.actor, learner.actor_state, rule)
    return learner._replace(
        actor=actor,
        actor_state=state,
        target_actor=optax.incremental_update(actor, learner.target_actor, rule.tau),
        target_critics=optax.incremental_update(learner.critics, learner.target_critics, rule.tau),
    )


def _descend(loss: Callable[[Params], Array], params: Params, state: Any, rule: UpdateRule) -> tuple[Params, Any]:
    changes, state = make_optimiser(rule).update(jax.grad(loss)(params), state, params)
    return optax.apply_updates(params, changes), state


def update_learner(
    learner: LearnerState,
    samples: Samples,
    noise: Array,
    turns: Array,
    interpolation: Interpolation,
    *,
    rule: UpdateRule,
) -> LearnerState:
    """U gradient steps on samples [U, B, …] with noise [U, B, a]; the actor moves where it is its turn [U]."""

    def step(learner: LearnerState, inputs: tuple[Samples, Array, Array]) -> tuple[LearnerState, None]:
        batch, noise, turn = inputs
        learner = update_critics(learner, batch, noise, interpolation, rule=rule)
        move = partial(update_actor, batch=batch, interpolation=interpolation, rule=rule)
        return jax.lax.cond(turn, move, lambda unmoved: unmoved, learner), None

    return jax.lax.scan(step, learner, (samples, noise, turns))[0]


def actor_turns(num_updates_before: int, count: int, policy_delay: int) -> np.ndarray:
    """Which of the next ``count`` gradient steps move the actor: every ``policy_delay``-th of all, bool [count]."""
    return (num_updates_before + 1 + np.arange(count)) % policy_delay == 0


UpdateFunction = Callable[[LearnerState, Samples, Any, Any, Interpolation], LearnerState]


@cache
def make_update(rule: UpdateRule) -> UpdateFunction:
    """The jitted update of K learners: samples [K, U, B, …], noise [K, U, B, a], turns [U]; compiled once."""
    # All learners' turns are the same array: were they mapped over, every step would pay for moving the actor.
    one = jax.vmap(partial(update_learner, rule=rule), in_axes=(0, 0, 0, None, None))
    return jax.jit(one, donate_argnums=0)
