"""K learners at work in E environments each: act, store, relabel, update. Pre-training is one, training another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ucb_moppo.algos.stacked import arrays_under, fill_leaves, name_leaves
from ucb_moppo.engine.rollout import Lockstep
from ucb_moppo.envs.base import BatchEnv, Step
from ucb_moppo.errors import DivergenceError, EnvironmentFault
from ucb_moppo.peers.pdmorl.interpolation import Interpolation
from ucb_moppo.peers.pdmorl.networks import ACTOR
from ucb_moppo.peers.pdmorl.preferences import draw_relabels
from ucb_moppo.peers.pdmorl.replay import ReplayBuffer, Samples
from ucb_moppo.peers.pdmorl.update import LearnerState, UpdateRule, actor_turns, make_update
from ucb_moppo.policy.actors import Actors
from ucb_moppo.policy.normaliser import init_statistics
from ucb_moppo.seeding import PEER, episode_seed


@dataclass(frozen=True)
class Schedule:
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
        self,
        learners: LearnerState,
        env: BatchEnv,
        choose: ChoosePreferences,
        schedule: Schedule,
        rule: UpdateRule,
        streams: Streams,
    ) -> None:
        self.learners, self.choose, self.schedule, self.rule = learners, choose, schedule, rule
        self.env, self.rng = env, streams.generator()
        self.num_learners = len(learners.actor["head.bias"])
        self.num_rounds = self.num_updates = 0
        per_learner = env.num_envs // self.num_learners
        transitions = max(1, min(schedule.replay // (schedule.relabels + 1), schedule.rounds * per_learner))
        self.buffers = [
            ReplayBuffer(env.spec, transitions, schedule.relabels + 1) for _ in range(self.num_learners)
        ]
        self._update = make_update(rule)
        self._lockstep = Lockstep(env, self.num_learners, streams.episode)
        self.weight = np.zeros((env.num_envs, env.spec.num_objectives), np.float32)
        self._choose_preferences(np.ones(env.num_envs, bool))

    @property
    def steps(self) -> int:
        """Environment steps taken."""
        return self.num_rounds * self.env.num_envs

    @property
    def finished_episodes(self) -> int:
        """What every environment has finished at least."""
        return int(self._lockstep.episodes.min()) - 1

    def actors(self) -> Actors:
        """The actors on the host."""
        params = jax.tree.map(np.asarray, self.learners.actor)
        stats = init_statistics(self.env.spec.observation_size)  # PD-MORL does not normalise observations
        return Actors(params, jax.tree.map(lambda a: np.stack([a] * self.num_learners), stats), ACTOR)

    def advance(self, interpolation: Interpolation) -> None:
        """One round; then, after every few of them and once there is enough to sample from, an update."""
        observation, action = self._lockstep.observation, self._act()
        step = self._lockstep.step(action)
        if not np.isfinite(step.reward).all():
            raise EnvironmentFault(
                f"{self.env.spec.name} returned a reward that is not finite at step {self.steps} of PD-MORL; "
                f"check the environment's reward function"
            )
        self._store(observation, action, step)
        self.num_rounds += 1
        self._choose_preferences((step.terminated | step.truncated).ravel())
        ready = len(self.buffers[0]) >= 2 * self.schedule.batch
        if ready and self.num_rounds % self.schedule.rounds_per_update == 0:
            self._learn(interpolation)

    def _choose_preferences(self, just_begun: NDArray) -> None:
        """The preferences of the next round."""
        self.weight = self.choose(self.rng, self.weight, just_begun).astype(np.float32)

    def _act(self) -> NDArray:
        """Actions [K, E, a] in [-1, 1], with noise to explore; at random in the first rounds."""
        rows = self._lockstep.episodes.shape
        size = (*rows, self.env.spec.action.size)
        if self.num_rounds < self.schedule.random_rounds:
            return self.rng.uniform(-1, 1, size).astype(np.float32)
        action = self.actors()(self._lockstep.observation, self.weight.reshape(*rows, -1))
        if not np.isfinite(action).all():
            raise DivergenceError(
                f"PD-MORL's actions are no longer finite after {self.steps} steps of this phase: lower "
                f"learning_rate ({self.rule.learning_rate}) or max_grad_norm ({self.rule.max_grad_norm})"
            )
        noise = self.schedule.exploration_noise * self.rng.standard_normal(size)
        return np.clip(action + noise, -1, 1).astype(np.float32)

    def _store(self, observation: NDArray, action: NDArray, step: Step) -> None:
        """Each learner's transitions into its buffer, with the preference acted on and the relabelled ones."""
        rows, num_objectives = self._lockstep.episodes.shape, step.reward.shape[-1]
        others = draw_relabels(self.rng, (*rows, self.schedule.relabels), num_objectives)
        weights = np.concatenate([self.weight.reshape(*rows, 1, num_objectives), others], axis=2)
        made = Samples(observation, action, step.reward, step.observation, step.terminated, weights)
        for k, buffer in enumerate(self.buffers):
            buffer.add(Samples(*(array[k] for array in made)))

    def _learn(self, interpolation: Interpolation) -> None:
        shape = (self.schedule.updates, self.schedule.batch)
        drawn = [buffer.sample(self.rng, shape) for buffer in self.buffers]
        samples = Samples(*(np.stack(arrays) for arrays in zip(*drawn, strict=True)))
        size = (self.num_learners, *shape, self.env.spec.action.size)
        noise = self.rng.standard_normal(size, np.float32)
        turns = actor_turns(self.num_updates, self.schedule.updates, self.rule.policy_delay)
        self.learners = self._update(self.learners, samples, noise, turns, interpolation)
        self.num_updates += self.schedule.updates

    def get_state(self) -> dict[str, NDArray]:
        """Give the learners, what they remember, where their environments stand and what is drawn next."""
        parts = {"lockstep": self._lockstep.get_state()}
        parts |= {f"buffer{k}": buffer.get_state() for k, buffer in enumerate(self.buffers)}
        return {
            **name_leaves("learners", self.learners),
            **join_states(parts),
            "rng": generator_state(self.rng),
            "weight": self.weight.copy(),
            "num_rounds": np.array(self.num_rounds),
            "num_updates": np.array(self.num_updates),
        }

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned."""
        self.learners = fill_leaves("learners", self.learners, state)
        self._lockstep.set_state(arrays_under("lockstep.", state))
        for k, buffer in enumerate(self.buffers):
            buffer.set_state(arrays_under(f"buffer{k}.", state))
        set_generator_state(self.rng, state["rng"])
        self.weight = state["weight"].copy()
        self.num_rounds, self.num_updates = int(state["num_rounds"]), int(state["num_updates"])


# --- states as named arrays --------------------------------------------------------------------------------


def join_states(parts: Mapping[str, Mapping[str, NDArray]]) -> dict[str, NDArray]:
    """The states of several things as one, each under its name."""
    return {f"{part}.{name}": array for part, state in parts.items() for name, array in state.items()}


_HALF = 1 << 64
"""PCG64 counts to 2^128, arrays to 2^64."""


def generator_state(rng: np.random.Generator) -> NDArray:
    """Where a generator of random numbers stands: uint64 [6]."""
    found: Any = rng.bit_generator.state
    wide = [half for name in ("state", "inc") for half in divmod(found["state"][name], _HALF)]
    return np.array([*wide, found["has_uint32"], found["uinteger"]], np.uint64)


def set_generator_state(rng: np.random.Generator, state: NDArray) -> None:
    """Continue drawing from where ``generator_state`` was asked."""
    high, low, high_inc, low_inc, has_uint32, uinteger = map(int, state)
    rng.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": high * _HALF + low, "inc": high_inc * _HALF + low_inc},
        "has_uint32": has_uint32,
        "uinteger": uinteger,
    }
