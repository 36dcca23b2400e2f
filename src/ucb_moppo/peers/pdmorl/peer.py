"""PD-MORL behind the peers' interface: find the key solutions, then train one policy for every preference."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ucb_moppo.config import PeerConfig
from ucb_moppo.engine.evaluation import evaluate
from ucb_moppo.engine.learner import Snapshot
from ucb_moppo.envs.base import BatchEnv
from ucb_moppo.errors import ConfigError, DivergenceError
from ucb_moppo.peers.base import Counts, MakeEnvs
from ucb_moppo.peers.pdmorl.interpolation import (
    better_solutions,
    fit_interpolation,
    key_preferences,
)
from ucb_moppo.peers.pdmorl.networks import ACTOR, count_parameters
from ucb_moppo.peers.pdmorl.phase import ChoosePreferences, Pace, Phase, Streams
from ucb_moppo.peers.pdmorl.preferences import draw_from_part, make_parts, spread_preferences
from ucb_moppo.peers.pdmorl.settings import PDMORLSettings
from ucb_moppo.peers.pdmorl.update import (
    Rule,
    init_learner,
    pretraining_rule,
    stack_learners,
    training_rule,
)
from ucb_moppo.spec import EnvSpec

PRETRAINING, TRAINING = 0, 1


class PDMORL:
    """One run of PD-MORL."""

    @staticmethod
    def check(spec: EnvSpec, config: PeerConfig) -> None:
        """Refuse choices for actions, and a budget in which not every environment steps once."""
        if spec.action.discrete:
            raise ConfigError(
                f"method pdmorl needs Box actions, but {spec.name} has {spec.action.size} choices (Discrete): "
                f"train it with --method ucb, mean, random or fixed"
            )
        make_paces(PDMORLSettings(**config.settings), config.steps, len(key_preferences(spec.num_objectives)))

    def __init__(self, spec: EnvSpec, config: PeerConfig, make_envs: MakeEnvs, weights: NDArray) -> None:
        self.check(spec, config)
        self.spec, self.seed, self.threads, self.weights = spec, config.seed, config.threads, weights
        self.make_envs, self.settings = make_envs, PDMORLSettings(**config.settings)
        self.keys = key_preferences(spec.num_objectives)
        self.solutions: NDArray | None = None  # [k, m] the best returns known at the key preferences
        self.counts = Counts()
        self.pretraining_pace, self.training_pace = make_paces(self.settings, config.steps, len(self.keys))
        rule = training_rule(self.settings)
        self.training = self._make_phase(TRAINING, 1, self.settings.workers, rule)

    def train(self) -> Iterator[Counts]:
        """Pre-train, then train; yields after every round."""
        # Acting multiplies matrices of a few rows, where threads of BLAS only wait for each other.
        with threadpool_limits(limits=1, user_api="blas"):
            yield from self.pretrain()
            yield from self.train_policy()

    def pretrain(self) -> Iterator[Counts]:
        """A policy per key preference; what the best of each has earned is its key solution."""
        interval, episodes = self.settings.key_interval, self.settings.key_pretraining_episodes
        phase = self._make_phase(PRETRAINING, len(self.keys), len(self.keys), pretraining_rule(self.settings))
        untold = fit_interpolation(self.keys, self.keys)  # its angle has no weight here
        with closing(phase.env), closing(self._make_judge(episodes)) as judge:
            evaluated = 0
            while phase.num_rounds < self.pretraining_pace.rounds:
                phase.advance(untold)
                self.counts = self.counts._replace(pretraining=phase.steps)
                if phase.finished_episodes >= evaluated + interval:
                    evaluated += interval
                    self._judge_keys(phase, judge, episodes)
                yield self.counts
            self._judge_keys(phase, judge, episodes)

    def train_policy(self) -> Iterator[Counts]:
        """One policy for every preference, guided by the key solutions; better ones replace them as they appear."""
        assert self.solutions is not None, "pretrain() finds the key solutions first"
        phase, episodes = self.training, self.settings.key_episodes
        interpolation = fit_interpolation(self.keys, self.solutions)
        with closing(phase.env), closing(self._make_judge(episodes)) as judge:
            evaluated = 0
            while phase.num_rounds < self.training_pace.rounds:
                phase.advance(interpolation)
                self.counts = self.counts._replace(training=phase.steps)
                if phase.finished_episodes > evaluated:
                    evaluated = phase.finished_episodes
                    self._judge_keys(phase, judge, episodes)
                    interpolation = fit_interpolation(self.keys, self.solutions)
                yield self.counts

    def _make_judge(self, episodes: int) -> BatchEnv:
        """Environments to evaluate all key preferences in at once."""
        return self.make_envs(len(self.keys) * episodes, self.threads)

    def _judge_keys(self, phase: Phase, env: BatchEnv, episodes: int) -> None:
        """Evaluate the key preferences and keep what is better than before."""
        # K key policies with a preference each, or one policy with all of them.
        weights = self.keys.reshape(phase.num_learners, -1, self.spec.num_objectives)
        returns, steps = evaluate(phase.actors(), weights, env, episodes)
        found = returns.reshape(self.keys.shape)
        self.counts = self.counts._replace(evaluation=self.counts.evaluation + steps)
        if self.solutions is not None:
            self.solutions = better_solutions(self.keys, self.solutions, found)
        elif np.isfinite(found).all():
            self.solutions = found
        else:
            raise DivergenceError("PD-MORL's key policies have diverged in pre-training: lower learning_rate")

    def _make_phase(self, phase: int, num_learners: int, num_envs: int, rule: Rule) -> Phase:
        streams = Streams(self.seed, phase)
        rng = streams.generator()
        learners = [init_learner(rng, self.spec, self.settings.cells, rule) for _ in range(num_learners)]
        pace = self.training_pace if phase == TRAINING else self.pretraining_pace
        env = self.make_envs(num_envs, self.threads)
        return Phase(stack_learners(learners), env, self._chooser(phase), pace, rule, streams)

    def _chooser(self, phase: int) -> ChoosePreferences:
        """Pre-training acts around the key preferences; training draws from each worker's part, once an episode."""
        if phase == PRETRAINING:
            return lambda rng, weight, fresh: spread_preferences(rng, self.keys, self.settings.key_spread)
        parts = make_parts(self.spec.num_objectives, self.settings.workers)

        def draw(rng: np.random.Generator, weight: NDArray, fresh: NDArray) -> NDArray:
            return np.array([draw_from_part(rng, parts[i]) if new else weight[i] for i, new in enumerate(fresh)])

        return draw

    def snapshot(self) -> Snapshot:
        """The one policy; until pre-training is over it has not learnt anything."""
        actors = self.training.actors()
        stats = actors.observation_stats
        tensors = {f"actor.{name}": np.array(array) for name, array in actors.params.items()}
        tensors |= {f"observation.{name}": array for name, array in zip(stats._fields, stats, strict=True)}
        learner = self.training.learners
        return Snapshot(tensors, ACTOR, self.weights[None], count_parameters(learner.actor, learner.critics))


def make_paces(settings: PDMORLSettings, steps: int, num_keys: int) -> tuple[Pace, Pace]:
    """Pre-training's and training's share of ``steps``, in whole rounds of all environments."""
    key_rounds = int(steps * settings.pretraining_share) // num_keys
    rounds = (steps - key_rounds * num_keys) // settings.workers
    if min(key_rounds, rounds) < 1:
        raise ConfigError(
            f"steps is {steps}, too few for {num_keys} key preferences and {settings.workers} workers to step "
            f"once: raise --steps"
        )
    updates = max(1, round(settings.updates_per_step * settings.workers))

    def pace(rounds: int, rounds_per_update: int, batch: int, replay: int, relabels: int) -> Pace:
        at_random = round(rounds * settings.random_share)
        noise = settings.exploration_noise
        return Pace(rounds, at_random, rounds_per_update, updates, batch, replay, relabels, noise)

    return (
        pace(key_rounds, settings.workers, settings.key_batch, settings.key_replay, 0),
        pace(rounds, 1, settings.batch, settings.replay, settings.relabels),
    )
