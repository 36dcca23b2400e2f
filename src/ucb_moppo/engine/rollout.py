"""K·N environments in lockstep -> transitions [T, K, N, …]. Acting is numpy; nothing here learns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ucb_moppo.algos.ppo.update import PolicyState, Transitions
from ucb_moppo.envs.base import BatchEnv
from ucb_moppo.errors import EnvironmentFault
from ucb_moppo.policy.networks import OWN, Network, Params, add_noise, apply_mlp, sample_action
from ucb_moppo.policy.normaliser import Statistics, normalise
from ucb_moppo.seeding import TRAINING, episode_seed
from ucb_moppo.spec import EnvSpec


class Actors(NamedTuple):
    """What acting needs of K policies, as numpy arrays with a leading axis K."""

    params: Params
    observation_stats: Statistics
    network: Network = OWN

    def __call__(self, observation: NDArray, weight: NDArray, noise: NDArray | None = None) -> NDArray:
        """Means or logits [K, N, a] for raw observations [K, N, d] under weights [K, N, m], with noise if any."""
        output = apply_actors(self, observation, weight)
        return output if noise is None else add_noise(self.params, output, noise)


def make_actors(state: PolicyState) -> Actors:
    """The actors of K policies, on the host."""
    params = jax.tree.map(np.asarray, state.params["actor"])
    return Actors(params, jax.tree.map(np.asarray, state.observation_stats))


def named_actors(tensors: Mapping[str, NDArray], network: Network = OWN) -> Actors:
    """The actors among the named tensors [K, …] of a run."""
    params = {n.removeprefix("actor."): a for n, a in tensors.items() if n.startswith("actor.")}
    return Actors(params, Statistics(*(tensors[f"observation.{name}"] for name in Statistics._fields)), network)


def apply_actors(actors: Actors, observation: NDArray, weight: NDArray) -> NDArray:
    """Means or logits: raw observations [K, N, d], weights [K, N, m] -> [K, N, a]."""
    inputs = normalise(actors.observation_stats, observation.astype(np.float32))
    return apply_mlp(actors.params, inputs, weight, actors.network)


def draw_noise(key: jax.Array, *, steps: int, envs: int, action_size: int, discrete: bool) -> jax.Array:
    """The exploration noise of one policy's rollout, [T, N, a]: Gumbel for choices, normal otherwise."""
    draw = jax.random.gumbel if discrete else jax.random.normal
    return draw(key, (steps, envs, action_size), jnp.float32)


class Collector:
    """Runs K policies in N environments each and remembers where the episodes stand between rollouts."""

    def __init__(self, env: BatchEnv, policy_ids: Sequence[int], num_envs: int, seed: int) -> None:
        self.env, self.policy_ids, self.num_envs, self.seed = env, tuple(policy_ids), num_envs, seed
        self.episodes = np.zeros((len(self.policy_ids), num_envs), np.int64)
        self.steps_taken = 0
        self.observation = self._reset(np.arange(env.num_envs)).reshape(*self.episodes.shape, -1)

    @property
    def spec(self) -> EnvSpec:
        return self.env.spec

    def _reset(self, ids: NDArray) -> NDArray:
        seeds = []
        for i in ids:
            k, n = divmod(int(i), self.num_envs)
            seeds.append(episode_seed(self.seed, TRAINING, self.policy_ids[k], n, self.episodes[k, n]))
            self.episodes[k, n] += 1
        return self.env.reset(ids, seeds)

    def collect(self, actors: Actors, weight: NDArray, noise: NDArray) -> Transitions:
        """A rollout under weights [K, N, m] with noise [T, K, N, a] -> transitions [T, K, N, …]."""
        weight = weight.astype(np.float32)
        rollout = self._empty(len(noise))
        for t in range(len(noise)):
            action = sample_action(actors.params, apply_actors(actors, self.observation, weight), noise[t])
            with self._policy_named(t):
                self._step(rollout, t, action)
        self._check(rollout)
        self.steps_taken += len(noise)
        return rollout

    def _empty(self, steps: int) -> Transitions:
        lead = (steps, *self.episodes.shape)
        size, action = self.spec.observation_size, self.spec.action
        return Transitions(
            observation=np.empty((*lead, size), np.float32),
            next_observation=np.empty((*lead, size), np.float32),
            action=np.empty(lead, np.int32) if action.discrete else np.empty((*lead, action.size), np.float32),
            reward=np.empty((*lead, self.spec.num_objectives), np.float32),
            terminated=np.empty(lead, bool),
            truncated=np.empty(lead, bool),
        )

    def _step(self, rollout: Transitions, t: int, action: NDArray) -> None:
        # A policy that diverges may act with NaN: its environments stand still until the update finds it out
        # from the rollout, where the action stays as it was.
        safe = np.where(np.isfinite(action), action, 0)
        step = self.env.step(safe.reshape(self.env.num_envs, *action.shape[2:]))
        shape = self.episodes.shape
        rollout.observation[t], rollout.action[t] = self.observation, action
        rollout.reward[t] = step.reward.reshape(*shape, -1)
        rollout.terminated[t], rollout.truncated[t] = (
            step.terminated.reshape(shape),
            step.truncated.reshape(shape),
        )
        rollout.next_observation[t] = step.observation.reshape(*shape, -1)
        self.observation = step.observation.reshape(*shape, -1)
        finished = np.flatnonzero(step.terminated | step.truncated)
        if finished.size:
            self.observation.reshape(self.env.num_envs, -1)[finished] = self._reset(finished)

    @contextmanager
    def _policy_named(self, t: int) -> Iterator[None]:
        """Say whose environment failed, and when, where the batch only knows the environment's number."""
        try:
            yield
        except EnvironmentFault as fault:
            if fault.environment is None:
                raise
            k, n = divmod(fault.environment, self.num_envs)
            step = self.steps_taken + t
            raise EnvironmentFault(
                f"policy {self.policy_ids[k]} in environment {n} at its training step {step}: {fault}"
            ) from fault

    def _check(self, rollout: Transitions) -> None:
        """NaN or infinite rewards stop the run before they reach an update."""
        if np.isfinite(rollout.reward).all():
            return
        t, k, n, _ = np.argwhere(~np.isfinite(rollout.reward))[0]
        raise EnvironmentFault(
            f"{self.spec.name} (seed {self.seed}) returned the reward {rollout.reward[t, k, n].tolist()} to "
            f"policy {self.policy_ids[k]} in environment {n} at its training step {self.steps_taken + t}; "
            f"rewards must be finite: check the environment's reward function"
        )

    def get_state(self) -> dict[str, NDArray]:
        """Episode counters, observations and the environments' own state."""
        own = {
            "episodes": self.episodes.copy(),
            "observation": self.observation.copy(),
            "steps": np.array(self.steps_taken),
        }
        return own | {f"env.{name}": array for name, array in self.env.get_state().items()}

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned."""
        self.episodes, self.observation = state["episodes"].copy(), state["observation"].copy()
        self.steps_taken = int(state["steps"])
        prefix = "env."
        self.env.set_state({n.removeprefix(prefix): a for n, a in state.items() if n.startswith(prefix)})
