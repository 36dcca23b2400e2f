"""K·N environments in lockstep -> transitions [T, K, N, …]. Acting is numpy; nothing here learns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.algos.base import Transitions
from ucb_moppo.algos.stacked import arrays_under
from ucb_moppo.cores import one_blas_thread
from ucb_moppo.engine.ledger import Ledger
from ucb_moppo.envs.base import BatchEnv, Step
from ucb_moppo.errors import EnvironmentFault
from ucb_moppo.objectives.utility import LINEAR_GOAL, Goal
from ucb_moppo.policy.actors import ActingFunction
from ucb_moppo.policy.networks import greedy_action
from ucb_moppo.seeding import EpisodeSeeds
from ucb_moppo.spec import EnvSpec

SeedOfEpisode = Callable[[int, int], int]
"""(environment, episode), both counted from 0 -> the seed that the episode begins from."""


class Lockstep:
    """N environments for each of K policies, stepped together; knows where their episodes stand."""

    def __init__(self, env: BatchEnv, num_policies: int, seed_of_episode: SeedOfEpisode) -> None:
        self.env, self._seed_of_episode = env, seed_of_episode
        self.episodes = np.zeros((num_policies, env.num_envs // num_policies), np.int64)
        """[K, N] begun so far."""
        self.observation = self._reset(np.arange(env.num_envs)).reshape(*self.episodes.shape, -1)
        """[K, N, d] to act on next."""

    def step(self, action: NDArray) -> Step:
        """Step all of them with actions [K, N, …], and begin new episodes where one has ended: [K, N, …] each.

        The step's own observation is the final one where an episode ended.
        """
        shape = self.episodes.shape
        flat = self.env.step(action.reshape(self.env.num_envs, *action.shape[2:]))
        observation, reward = flat.observation.reshape(*shape, -1), flat.reward.reshape(*shape, -1)
        self.observation = observation.copy()
        ended = np.flatnonzero(flat.terminated | flat.truncated)
        if ended.size:
            self.observation.reshape(self.env.num_envs, -1)[ended] = self._reset(ended)
        return Step(observation, reward, flat.terminated.reshape(shape), flat.truncated.reshape(shape))

    def _reset(self, ids: NDArray) -> NDArray:
        episodes = self.episodes.ravel()  # a view: the environments of one policy after those of another
        seeds = [self._seed_of_episode(i, int(episodes[i])) for i in ids.tolist()]
        episodes[ids] += 1
        return self.env.reset(ids, seeds)

    def get_state(self) -> dict[str, NDArray]:
        """Episode counters, observations and the environments' own state."""
        own = {"episodes": self.episodes.copy(), "observation": self.observation.copy()}
        return own | {f"env.{name}": array for name, array in self.env.get_state().items()}

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned."""
        self.episodes, self.observation = state["episodes"].copy(), state["observation"].copy()
        self.env.set_state(arrays_under("env.", state))


class Collector:
    """Makes rollouts of K policies in N environments each, every one from where the last has stopped."""

    def __init__(self, env: BatchEnv, policy_ids: Sequence[int], seed: int, goal: Goal = LINEAR_GOAL) -> None:
        self.env, self.policy_ids, self.seed = env, tuple(policy_ids), seed
        # The seeds of a policy's own environments, whatever company it trains in.
        self.seeds = EpisodeSeeds(seed, self.policy_ids, self.num_envs)
        self.lockstep = Lockstep(env, len(self.policy_ids), self.seeds.of)
        self.ledger = (
            None if goal.is_linear else Ledger(goal, self.lockstep.episodes.shape, self.spec.num_objectives)
        )
        """None where the utility of an episode is the sum of that of its steps: there is nothing to keep of it."""
        self.steps_taken = 0

    @property
    def spec(self) -> EnvSpec:
        return self.env.spec

    @property
    def num_envs(self) -> int:
        """N, environments of each policy."""
        return self.env.num_envs // len(self.policy_ids)

    def collect(self, act: ActingFunction, weight: NDArray, noise: NDArray) -> Transitions:
        """A rollout under weights [K, N, m] with noise [T, K, N, a] -> transitions [T, K, N, …]."""
        with one_blas_thread():
            rollout = self._collect(act, weight, noise)
        self._check(rollout)
        self.steps_taken += len(noise)
        return rollout

    def _collect(self, act: ActingFunction, weight: NDArray, noise: NDArray) -> Transitions:
        conditioning = weight.astype(np.float32)
        shape = (len(noise), *self.lockstep.episodes.shape)
        rollout = empty_transitions(self.spec, shape, kept=self.ledger is not None)
        if self.ledger is not None:
            self.ledger.begin(weight)
        for t in range(len(noise)):
            if self.ledger is not None:
                conditioning = self.ledger.preference.astype(np.float32)
            rollout.observation[t] = self.lockstep.observation
            output = act(rollout.observation[t], conditioning, noise[t])
            with self._policy_named(t):
                step = self._step(rollout, t, greedy_action(output, self.spec.action.discrete))
            if self.ledger is not None:
                self.ledger.enter(rollout, t, step, weight)
        return rollout

    def _step(self, rollout: Transitions, t: int, action: NDArray) -> Step:
        rollout.action[t] = action
        # A policy that diverges may act with NaN: its environments stand still until the update finds it out
        # from the rollout, where the action stays as it was.
        step = self.lockstep.step(np.where(np.isfinite(action), action, 0))
        rollout.next_observation[t] = step.observation
        rollout.reward[t, ..., : step.reward.shape[-1]] = step.reward
        rollout.terminated[t], rollout.truncated[t] = step.terminated, step.truncated
        return step

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
        """Where the episodes stand, and how many steps it took to get there."""
        kept = {} if self.ledger is None else self.ledger.get_state()
        ledger = {f"ledger.{name}": array for name, array in kept.items()}
        return self.lockstep.get_state() | ledger | {"steps": np.array(self.steps_taken)}

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned."""
        self.lockstep.set_state(state)
        if self.ledger is not None:
            self.ledger.set_state(arrays_under("ledger.", state))
        self.steps_taken = int(state["steps"])


def empty_transitions(spec: EnvSpec, shape: tuple[int, ...], kept: bool = False) -> Transitions:
    """Room for transitions of ``shape`` [T, K, N], with nothing in it yet; ``kept``: with what a ledger keeps."""
    size, action = spec.input_size, spec.action
    returns = np.empty((*shape, spec.num_objectives)) if kept else None
    return Transitions(
        observation=np.empty((*shape, size), np.float32),
        next_observation=np.empty((*shape, size), np.float32),
        action=np.empty(shape, np.int32) if action.discrete else np.empty((*shape, action.size), np.float32),
        reward=np.empty((*shape, spec.num_values), np.float32),
        terminated=np.empty(shape, bool),
        truncated=np.empty(shape, bool),
        preference=None if returns is None else np.empty_like(returns),
        accrued=returns,
    )
