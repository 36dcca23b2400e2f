"""K learners at work in E environments each: act, store, relabel, update. Pre-training is one, training another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ucb_moppo.envs.base import BatchEnv
from ucb_moppo.errors import DivergenceError, EnvironmentFault
from ucb_moppo.peers.pdmorl.interpolation import Interpolation
from ucb_moppo.peers.pdmorl.networks import ACTOR, apply_actor
from ucb_moppo.peers.pdmorl.preferences import draw_relabels
from ucb_moppo.peers.pdmorl.replay import Batch, ReplayBuffer
from ucb_moppo.peers.pdmorl.update import Learner, Rule, actor_turns, make_update
from ucb_moppo.policy.actors import Actors
from ucb_moppo.policy.normaliser import init_statistics
from ucb_moppo.seeding import PEER, episode_seed


@dataclass(frozen=True)
class Pace:
    """How much is done when. A round is one step of every environment."""

    rounds: int
    random_rounds: int
    """The first rounds, which act at random."""
    rounds_per_update: int
    updates: int
    """Gradient steps after so many rounds."""
    batch: int
    replay: int
    """Stored samples per learner, relabelled ones counted."""
    relabels: int
    exploration_noise: float


ChoosePreferences = Callable[[np.random.Generator, NDArray, NDArray], NDArray]
"""(rng, preferences [K·E, m] so far, which episodes have just begun [K·E]) -> preferences [K·E, m] to act on."""


class Streams(NamedTuple):
    """Where a phase's random numbers come from: the run's seed and the number of the phase."""

    seed: int
    phase: int

    def generator(self) -> np.random.Generator:
        return np.random.default_rng((self.seed, PEER, self.phase))

    def episode(self, environment: int, episode: int) -> int:
        return episode_seed(self.seed, PEER, self.phase, environment, episode)


class Phase:
    """Learners, their environments and what they remember."""

    def __init__(
        self, learners: Learner, env: BatchEnv, choose: ChoosePreferences, pace: Pace, rule: Rule, streams: Streams
    ) -> None:
        self.learners, self.env, self.choose, self.pace, self.rule = learners, env, choose, pace, rule
        self.streams, self.rng = streams, streams.generator()
        self.num_learners = len(learners.actor["head.bias"])
        self.num_rounds = self.num_updates = 0
        self.episodes = np.zeros(env.num_envs, np.int64)
        per_learner = env.num_envs // self.num_learners
        transitions = max(1, min(pace.replay // (pace.relabels + 1), pace.rounds * per_learner))
        self.buffers = [ReplayBuffer(env.spec, transitions, pace.relabels + 1) for _ in range(self.num_learners)]
        self._update = make_update(rule)
        self.observation = np.empty((env.num_envs, env.spec.observation_size))
        self.weight = np.zeros((env.num_envs, env.spec.num_objectives), np.float32)
        self._begin(np.arange(env.num_envs))

    @property
    def steps(self) -> int:
        """Environment steps taken."""
        return self.num_rounds * self.env.num_envs

    @property
    def finished_episodes(self) -> int:
        """What every environment has finished at least."""
        return int(self.episodes.min()) - 1

    def actors(self) -> Actors:
        """The actors on the host, for evaluation."""
        params = jax.tree.map(np.asarray, self.learners.actor)
        stats = init_statistics(self.env.spec.observation_size)  # PD-MORL does not normalise observations
        return Actors(params, jax.tree.map(lambda a: np.stack([a] * self.num_learners), stats), ACTOR)

    def advance(self, interpolation: Interpolation) -> None:
        """One round; then, after every few of them and once there is enough to sample from, an update."""
        action = self._act()
        step = self.env.step(action)
        if not np.isfinite(step.reward).all():
            raise EnvironmentFault(
                f"{self.env.spec.name} returned a reward that is not finite at step {self.steps} of PD-MORL; "
                f"check the environment's reward function"
            )
        self._store(action, step.reward, step.observation, step.terminated)
        self.observation = step.observation.copy()
        self.num_rounds += 1
        self._begin(np.flatnonzero(step.terminated | step.truncated))
        ready = len(self.buffers[0]) >= 2 * self.pace.batch
        if ready and self.num_rounds % self.pace.rounds_per_update == 0:
            self._learn(interpolation)

    def _begin(self, ended: NDArray) -> None:
        """New episodes where they ``ended``, and the preferences of the next round."""
        fresh = np.zeros(self.env.num_envs, bool)
        fresh[ended] = True
        if ended.size:
            seeds = [self.streams.episode(i, int(self.episodes[i])) for i in ended]
            self.observation[ended] = self.env.reset(ended, seeds)
            self.episodes[ended] += 1
        self.weight = self.choose(self.rng, self.weight, fresh).astype(np.float32)

    def _act(self) -> NDArray:
        """Actions [K·E, a] in [-1, 1], with noise to explore; at random in the first rounds."""
        size = (self.env.num_envs, self.env.spec.action.size)
        if self.num_rounds < self.pace.random_rounds:
            return self.rng.uniform(-1, 1, size).astype(np.float32)
        rows = (self.num_learners, -1)
        actor = jax.tree.map(np.asarray, self.learners.actor)
        inputs = self.observation.astype(np.float32).reshape(*rows, self.observation.shape[-1])
        action = apply_actor(actor, inputs, self.weight.reshape(*rows, self.weight.shape[-1])).reshape(size)
        if not np.isfinite(action).all():
            raise DivergenceError(
                f"PD-MORL's actions are no longer finite after {self.steps} steps of this phase: lower "
                f"learning_rate ({self.rule.learning_rate}) or max_grad_norm ({self.rule.max_grad_norm})"
            )
        noise = self.pace.exploration_noise * self.rng.standard_normal(size)
        return np.clip(action + noise, -1, 1).astype(np.float32)

    def _store(self, action: NDArray, reward: NDArray, following: NDArray, terminated: NDArray) -> None:
        """Each learner's transitions into its buffer, with the preference acted on and the relabelled ones."""
        others = draw_relabels(self.rng, (self.env.num_envs, self.pace.relabels), reward.shape[-1])
        weights = np.concatenate([self.weight[:, None], others], axis=1)
        made = Batch(self.observation, action, reward, following, terminated, weights)
        rows = np.arange(self.env.num_envs).reshape(self.num_learners, -1)
        for buffer, own in zip(self.buffers, rows, strict=True):
            buffer.add(Batch(*(array[own] for array in made)))

    def _learn(self, interpolation: Interpolation) -> None:
        shape = (self.pace.updates, self.pace.batch)
        samples = [buffer.sample(self.rng, shape) for buffer in self.buffers]
        batches = Batch(*(np.stack(arrays) for arrays in zip(*samples, strict=True)))
        size = (self.num_learners, *shape, self.env.spec.action.size)
        noise = self.rng.standard_normal(size, np.float32)
        turns = actor_turns(self.num_updates, self.pace.updates, self.rule.policy_delay)
        self.learners = self._update(self.learners, batches, noise, turns, interpolation)
        self.num_updates += self.pace.updates
