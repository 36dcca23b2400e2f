"""A peer as a learner: trains in stages of equal length, each ended by our evaluation of what it has found."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.algos.stacked import arrays_under
from ucb_moppo.config import PeerConfig
from ucb_moppo.engine.environments import environments_of
from ucb_moppo.engine.evaluation import Evaluation, evaluate
from ucb_moppo.engine.learner import Event, Iteration, Plan, Snapshot, StageRecord
from ucb_moppo.engine.probes import probe_weights
from ucb_moppo.errors import ConfigError, DivergenceError, RunFormatError
from ucb_moppo.objectives.indicators import measure, measure_with
from ucb_moppo.peers.base import Counts, MakePeer, Peer, ResumablePeer
from ucb_moppo.policy.actors import actors_from_tensors
from ucb_moppo.registry import METHODS
from ucb_moppo.spec import EnvSpec


class SnapshotEvaluator:
    """Evaluates whatever a peer has found, on the weights and from the initial states that ours meet."""

    def __init__(self, config: PeerConfig, spec: EnvSpec) -> None:
        self._config = config
        self.weights = probe_weights(config.division, spec.num_objectives).reshape(-1, spec.num_objectives)
        """[W, m] the same for every method."""
        self._env = environments_of(config)(len(self.weights), config.threads)

    def evaluate(self, snapshot: Snapshot) -> Evaluation:
        """Returns [K, W, m] of K policies on their weights, as many at a time as there are environments."""
        weights = snapshot.weights
        at_once = max(1, self._env.num_envs // weights.shape[1])
        parts = []
        for start in range(0, len(weights), at_once):
            rows = slice(start, start + at_once)
            actors = actors_from_tensors({name: a[rows] for name, a in snapshot.tensors.items()}, snapshot.network)
            env, episodes, discount = self._env, self._config.episodes, self._config.evaluation_discount
            parts.append(evaluate(actors, weights[rows], env, episodes, discount=discount))
        return Evaluation(np.concatenate([part.episodes for part in parts]), sum(part.steps for part in parts))

    def close(self) -> None:
        self._env.close()


class PeerLearner:
    """Trains a peer, evaluated now and then; its iterations are environment steps of the budget."""

    def __init__(self, config: PeerConfig, spec: EnvSpec, begun: float | None = None) -> None:
        self.config, self.spec = config, spec
        self._evaluator = SnapshotEvaluator(config, spec)
        make: MakePeer = METHODS.find(config.method)
        try:
            self.peer: Peer = make(spec, config, environments_of(config), self._evaluator.weights)
            self._snapshot = self.peer.snapshot()
        except BaseException:
            self._evaluator.close()
            raise
        self.network = self._snapshot.network
        self.num_evaluations, self.finished = 0, False
        self._counts, self._evaluation_steps = Counts(), 0
        self._evaluated_at = 0
        """Steps of the budget at the last evaluation."""
        self._spent, self._begun = 0.0, perf_counter() if begun is None else begun
        self._stage_begun = perf_counter()

    @property
    def resumable(self) -> bool:
        return isinstance(self.peer, ResumablePeer)

    @property
    def iteration(self) -> int:
        return self._counts.budgeted

    @property
    def seconds(self) -> float:
        """What the run has taken so far, before an interruption and after it."""
        return self._spent + perf_counter() - self._begun

    def milestones(self) -> list[int]:
        """Steps of the budget after which it is evaluated."""
        parts = np.arange(1, self.config.evaluations + 1) / self.config.evaluations
        ends: list[int] = np.round(self.config.steps * parts).astype(int).tolist()
        return ends

    def _is_due(self) -> bool:
        """Whether a milestone before the last has been passed since the last evaluation."""
        passed = [steps for steps in self.milestones() if self._evaluated_at < steps <= self.iteration]
        return bool(passed) and self.iteration < self.config.steps

    def plan(self) -> Plan:
        """Count steps and stages; neither its own evaluations nor its speed is known beforehand."""
        return Plan(self.config.steps, self.config.evaluations, self.config.steps, done=self.iteration)

    def run(self) -> Generator[Event, None, None]:
        """Evaluate, train with evaluations in between, evaluate what was found last."""
        if self.finished:
            return
        if not self.num_evaluations:
            yield self._evaluate(self._snapshot)
        if self._is_due():  # it was saved between a milestone and its evaluation
            yield self._evaluate(self.peer.snapshot())
        if self.iteration < self.config.steps:
            yield from self._train()
        yield self._evaluate(self.peer.snapshot(), finished=True)

    def _train(self) -> Generator[Event, None, None]:
        """Train until the budget is spent, or the method ends by itself."""
        with closing(self.peer.train()) as progress:
            for counts in progress:
                self._counts = counts
                yield Iteration(self.iteration)
                if self.iteration >= self.config.steps:
                    return
                if self._is_due():
                    yield self._evaluate(self.peer.snapshot())

    def evaluate_early(self) -> StageRecord:
        """Evaluate what there is when a run ends before its budget."""
        return self._evaluate(self.peer.snapshot())

    def snapshot(self) -> Snapshot:
        """Give what was evaluated last."""
        return self._snapshot

    def close(self) -> None:
        """End the environments of the evaluations."""
        self._evaluator.close()

    def _evaluate(self, snapshot: Snapshot, finished: bool = False) -> StageRecord:
        """Evaluate what the peer has found and say how good it is."""
        trained = perf_counter() - self._stage_begun
        self._snapshot, evaluation = snapshot, self._evaluator.evaluate(snapshot)
        returns, config = evaluation.returns, self.config
        if not np.isfinite(returns).any():
            raise DivergenceError(f"no policy of {config.method} has a finite return: it has diverged")
        self._evaluation_steps += evaluation.steps
        now = perf_counter()
        times = {"training": trained, "evaluating": now - self._stage_begun - trained}
        record = StageRecord(
            stage=self.num_evaluations,
            iteration=self.iteration,
            training_steps=self._counts.training,
            evaluation_steps=self._evaluation_steps + self._counts.evaluation,
            seconds=self.seconds,
            returns=returns,
            indicators=measure(returns, config.reference_point, config.utility_divisions),
            episode_steps=evaluation.episode_steps,
            finished=finished,
            stage_seconds={name: round(seconds, 3) for name, seconds in times.items()},
            extra_indicators=measure_with(config.indicators, returns, config.reference_point),
            method_counts={
                "pretraining_steps": self._counts.pretraining,
                "peer_evaluation_steps": self._counts.evaluation,
                "policies": len(snapshot.weights),
            },
        )
        self.num_evaluations, self._stage_begun, self.finished = self.num_evaluations + 1, now, finished
        self._evaluated_at = self.iteration
        return record

    def get_state(self) -> dict[str, NDArray]:
        """Give the peer's state and how far its run has come."""
        return {f"peer.{name}": array for name, array in self._resumable().get_state().items()} | {
            "counts": np.array(self._counts),
            "num_evaluations": np.array(self.num_evaluations),
            "evaluation_steps": np.array(self._evaluation_steps),
            "evaluated_at": np.array(self._evaluated_at),
            "finished": np.array(self.finished),
            "seconds": np.array(self.seconds),
        }

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned; refused if it does not fit the method."""
        own = arrays_under("peer.", state)
        try:
            self._counts = Counts(*map(int, state["counts"]))
            self.num_evaluations, self._evaluated_at = int(state["num_evaluations"]), int(state["evaluated_at"])
            self._evaluation_steps = int(state["evaluation_steps"])
            self.finished, self._spent = bool(state["finished"]), float(state["seconds"])
            self._resumable().set_state(own)
        except (KeyError, IndexError, TypeError, ValueError) as fault:
            raise RunFormatError(f"the saved state does not fit {self.config.method}: {fault!r}") from fault

    def _resumable(self) -> ResumablePeer:
        if not isinstance(self.peer, ResumablePeer):
            raise ConfigError(f"a run of {self.config.method} cannot be continued: train it again")
        return self.peer
