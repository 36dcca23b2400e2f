"""PD-MORL behind the peers' interface: find the key solutions, then train one policy for every preference."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.algos.stacked import arrays_under, stack_states
from ucb_moppo.compile_cache import use_compile_cache
from ucb_moppo.config import PeerConfig
from ucb_moppo.cores import one_blas_thread
from ucb_moppo.engine.environments import MakeEnvs
from ucb_moppo.engine.evaluation import evaluate
from ucb_moppo.engine.learner import Snapshot
from ucb_moppo.envs.base import BatchEnv
from ucb_moppo.errors import ConfigError, DivergenceError
from ucb_moppo.peers.base import Counts
from ucb_moppo.peers.pdmorl.interpolation import (
    better_solutions,
    fit_interpolation,
    key_preferences,
)
from ucb_moppo.peers.pdmorl.networks import ACTOR, count_parameters
from ucb_moppo.peers.pdmorl.pdmorl_settings import PDMORLSettings
from ucb_moppo.peers.pdmorl.phase import ChoosePreferences, Phase, Schedule, Streams, join_states
from ucb_moppo.peers.pdmorl.preferences import draw_from_part, make_parts, spread_preferences
from ucb_moppo.peers.pdmorl.update import (
    UpdateRule,
    init_learner,
    pretraining_rule,
    training_rule,
)
from ucb_moppo.policy.actors import actors_to_tensors
from ucb_moppo.spec import EnvSpec

PRETRAINING, TRAINING = 0, 1


class PDMORL:
    """One run of PD-MORL."""

    @staticmethod
    def check(spec: EnvSpec, config: PeerConfig) -> None:
        """Refuse choices for actions, and a budget in which not every environment steps once."""
        if spec.action.chosen:
            raise ConfigError(
                f"method pdmorl needs Box actions, but {spec.name} has "
                f"{spec.action.num_outputs} choices (Discrete): "
                f"train it with one of our methods, e.g. --method ucb"
            )
        make_schedules(PDMORLSettings(**config.settings), config.steps, len(key_preferences(spec.num_objectives)))

    def __init__(self, spec: EnvSpec, config: PeerConfig, make_envs: MakeEnvs, weights: NDArray) -> None:
        self.check(spec, config)
        use_compile_cache()
        self.spec, self.seed, self.threads, self.weights = spec, config.seed, config.threads, weights
        self.make_envs, self.settings = make_envs, PDMORLSettings(**config.settings)
        self.discount = config.evaluation_discount
        self.keys = key_preferences(spec.num_objectives)
        self.solutions: NDArray | None = None  # [k, m] the best returns known at the key preferences
        self.counts = Counts()
        self.pretraining_schedule, self.training_schedule = make_schedules(
            self.settings, config.steps, len(self.keys)
        )
        self.training = self._make_training()
        self.pretraining: Phase | None = None  # while it lasts
        self.evaluated = 0
        """Episodes of the phase at the last evaluation of the key preferences."""

    def train(self) -> Generator[Counts, None, None]:
        """Pre-train, then train; yields after every round."""
        with one_blas_thread():
            if not self.training.num_rounds:
                yield from self.pretrain()
            yield from self.train_policy()

    def pretrain(self) -> Generator[Counts, None, None]:
        """A policy per key preference; what the best of each has earned is its key solution."""
        interval, episodes = self.settings.key_interval, self.settings.key_pretraining_episodes
        phase = self.pretraining = self.pretraining or self._make_pretraining()
        no_guidance = fit_interpolation(self.keys, self.keys)  # its angle has no weight here
        with closing(phase.env), closing(self._make_evaluation_envs(episodes)) as envs:
            while phase.num_rounds < self.pretraining_schedule.rounds:
                phase.advance(no_guidance)
                self.counts = self.counts._replace(pretraining=phase.steps)
                if phase.finished_episodes >= self.evaluated + interval:
                    self.evaluated += interval
                    self._evaluate_keys(phase, envs, episodes)
                yield self.counts
            self._evaluate_keys(phase, envs, episodes)
        self.pretraining, self.evaluated = None, 0

    def train_policy(self) -> Generator[Counts, None, None]:
        """One policy for every preference, guided by the key solutions; better ones replace them as they appear."""
        assert self.solutions is not None, "pretrain() finds the key solutions first"
        phase, episodes = self.training, self.settings.key_episodes
        interpolation = fit_interpolation(self.keys, self.solutions)
        with closing(phase.env), closing(self._make_evaluation_envs(episodes)) as envs:
            while phase.num_rounds < self.training_schedule.rounds:
                phase.advance(interpolation)
                self.counts = self.counts._replace(training=phase.steps)
                if phase.finished_episodes > self.evaluated:
                    self.evaluated = phase.finished_episodes
                    self._evaluate_keys(phase, envs, episodes)
                    interpolation = fit_interpolation(self.keys, self.solutions)
                yield self.counts

    def _make_evaluation_envs(self, episodes: int) -> BatchEnv:
        """Environments to evaluate all key preferences in at once."""
        return self.make_envs(len(self.keys) * episodes, self.threads)

    def _evaluate_keys(self, phase: Phase, env: BatchEnv, episodes: int) -> None:
        """Evaluate the key preferences and keep what is better than before."""
        # K key policies with a preference each, or one policy with all of them.
        weights = self.keys.reshape(phase.num_learners, -1, self.spec.num_objectives)
        evaluation = evaluate(phase.actors(), weights, env, episodes, discount=self.discount)
        found = evaluation.returns.reshape(self.keys.shape)
        self.counts = self.counts._replace(evaluation=self.counts.evaluation + evaluation.steps)
        if self.solutions is not None:
            self.solutions = better_solutions(self.keys, self.solutions, found)
        elif np.isfinite(found).all():
            self.solutions = found
        else:
            raise DivergenceError("PD-MORL's key policies have diverged in pre-training: lower learning_rate")

    def _make_pretraining(self) -> Phase:
        """A learner per key preference."""
        count = len(self.keys)
        return self._make_phase(PRETRAINING, count, count, pretraining_rule(self.settings))

    def _make_training(self) -> Phase:
        """One learner for every preference."""
        return self._make_phase(TRAINING, 1, self.settings.workers, training_rule(self.settings))

    def _make_phase(self, phase: int, num_learners: int, num_envs: int, rule: UpdateRule) -> Phase:
        streams = Streams(self.seed, phase)
        rng = streams.generator()
        learners = [init_learner(rng, self.spec, self.settings.cells, rule) for _ in range(num_learners)]
        schedule = self.training_schedule if phase == TRAINING else self.pretraining_schedule
        env = self.make_envs(num_envs, self.threads)
        return Phase(stack_states(learners), env, self._chooser(phase), schedule, rule, streams)

    def _chooser(self, phase: int) -> ChoosePreferences:
        """Pre-training acts around the key preferences; training draws from each worker's part, once an episode."""
        if phase == PRETRAINING:
            return lambda rng, weight, just_begun: spread_preferences(rng, self.keys, self.settings.key_spread)
        parts = make_parts(self.spec.num_objectives, self.settings.workers)

        def draw(rng: np.random.Generator, weight: NDArray, just_begun: NDArray) -> NDArray:
            return np.array(
                [draw_from_part(rng, parts[i]) if new else weight[i] for i, new in enumerate(just_begun)]
            )

        return draw

    def get_state(self) -> dict[str, NDArray]:
        """Give everything needed to continue, replay buffers included."""
        phases = {"training": self.training} | ({"pretraining": self.pretraining} if self.pretraining else {})
        own = {"counts": np.array(self.counts), "evaluated": np.array(self.evaluated)}
        own |= {} if self.solutions is None else {"solutions": self.solutions}
        return own | join_states({name: phase.get_state() for name, phase in phases.items()})

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned."""
        self.counts, self.evaluated = Counts(*map(int, state["counts"])), int(state["evaluated"])
        self.solutions = state.get("solutions")
        self.training.set_state(arrays_under("training.", state))
        pretraining = arrays_under("pretraining.", state)
        if pretraining:
            self.pretraining = self._make_pretraining()
            self.pretraining.set_state(pretraining)

    def snapshot(self) -> Snapshot:
        """The one policy; until pre-training is over it has not learnt anything."""
        # Copies: the next update reuses the learner's memory.
        tensors = {name: np.array(a) for name, a in actors_to_tensors(self.training.actors()).items()}
        learner = self.training.learners
        return Snapshot(tensors, ACTOR, self.weights[None], count_parameters(learner.actor, learner.critics))


def make_schedules(settings: PDMORLSettings, steps: int, num_keys: int) -> tuple[Schedule, Schedule]:
    """Pre-training's and training's share of ``steps``, in whole rounds of all environments."""
    key_rounds = int(steps * settings.pretraining_share) // num_keys
    rounds = (steps - key_rounds * num_keys) // settings.workers
    if min(key_rounds, rounds) < 1:
        raise ConfigError(
            f"steps is {steps}, too few for {num_keys} key preferences and {settings.workers} workers to step "
            f"once: raise --steps"
        )
    updates = max(1, round(settings.updates_per_step * settings.workers))

    def schedule(rounds: int, rounds_per_update: int, batch: int, replay: int, relabels: int) -> Schedule:
        at_random = round(rounds * settings.random_share)
        noise = settings.exploration_noise
        return Schedule(rounds, at_random, rounds_per_update, updates, batch, replay, relabels, noise)

    return (
        schedule(key_rounds, settings.workers, settings.key_batch, settings.key_replay, 0),
        schedule(rounds, 1, settings.batch, settings.replay, settings.relabels),
    )
