"""Trains a peer into an ordinary run directory: evaluated by our evaluator, counted by our counter."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.api import Plan, metrics_line, versions
from ucb_moppo.config import Config, default_config, override, resolve
from ucb_moppo.display import draw_front
from ucb_moppo.envs import make_spec
from ucb_moppo.envs.base import BatchEnv, EnvSpec
from ucb_moppo.errors import DivergenceError, Interrupted
from ucb_moppo.evaluation import Evaluation, evaluate
from ucb_moppo.interruption import StopRequest
from ucb_moppo.lock import locked
from ucb_moppo.peers import find_peer, make_settings
from ucb_moppo.peers.base import Counts, Peer, PeerConfig, Snapshot
from ucb_moppo.progress import Reporter
from ucb_moppo.reevaluation import make_actors
from ucb_moppo.run import PICTURE, Run, RunWriter, check_directory, fresh_directory
from ucb_moppo.trainer import StageRecord, make_run_decomposition, make_schedule, measure

PACKAGES = ("morl-baselines", "torch")
SECONDS_BETWEEN_NEWS = 1.0


class Ended(Exception):
    """Raised inside a peer's training to end it: the budget is spent, or the time is up."""


def train_peer(config: PeerConfig, out: str | Path | None, reporter: Reporter) -> Run:
    """Train what ``config`` says into the directory ``out``; everything wrong with it is found first."""
    spec = make_spec(config.problem, config.horizon, config.reference_point)
    config = decide(config, spec)
    probes = probe_weights(config, spec)
    path = Path(out) if out is not None else fresh_directory(config.problem, config.method, config.seed)
    check_directory(path)
    peer = find_peer(config.method)(spec, config, config.make_envs(), probes.reshape(-1, spec.num_objectives))
    with locked(path), StopRequest() as stop:
        check_directory(path)
        recorder = Recorder(peer, config, spec, probes.shape[1], path, reporter, stop)
        try:
            recorder.run()
        finally:
            reporter.stop()
            recorder.close()
    run = Run(path)
    draw_front(run, path / PICTURE)
    return run


def decide(config: PeerConfig, spec: EnvSpec) -> PeerConfig:
    """Every setting that was left open: the problem's, the method's published ones, as many evaluations as ours."""
    return replace(
        config,
        problem=config.problem.removeprefix("ucb_moppo/"),
        horizon=spec.horizon,
        reference_point=spec.reference_point,
        evaluations=config.evaluations or len(our_schedule(config, spec)),
        settings=make_settings(config.method, config.problem, config.settings),
    )


def our_config(config: PeerConfig, spec: EnvSpec) -> Config:
    """A default run of ours on the same problem, of the same length (at least an iteration)."""
    ours = override(default_config(config.problem), horizon=spec.horizon, episodes=config.episodes)
    least = resolve(ours, spec).steps_per_iteration
    return resolve(override(ours, steps=max(config.steps, least)), spec)


def our_schedule(config: PeerConfig, spec: EnvSpec) -> list[Any]:
    ours = our_config(config, spec)
    search = ours.search
    assert search.warmup is not None
    assert search.stage_iterations is not None
    return make_schedule(ours.num_iterations, search.warmup, search.stage_iterations)


def probe_weights(config: PeerConfig, spec: EnvSpec) -> NDArray:
    """[K, P, m] what a default run of ours is evaluated on: the same weights for every method."""
    return make_run_decomposition(our_config(config, spec), spec).probes


class Recorder:
    """Watches a peer train: evaluates it now and then, writes what was found, ends it when it is time."""

    def __init__(
        self,
        peer: Peer,
        config: PeerConfig,
        spec: EnvSpec,
        num_positions: int,
        path: Path,
        reporter: Reporter,
        stop: StopRequest,
    ) -> None:
        self.peer, self.config, self.spec, self.num_positions = peer, config, spec, num_positions
        self.path, self.reporter, self.stop = path, reporter, stop
        assert config.evaluations is not None
        self.milestones = [round(config.steps * i / config.evaluations) for i in range(1, config.evaluations + 1)]
        self.counts, self.stage, self.own_evaluation_steps = Counts(), 0, 0
        self.recorded_at: Counts | None = None
        self.stopped: str | None = None
        self._begun = self._told = perf_counter()
        self._seconds = {"training": 0.0, "evaluating": 0.0}
        self._env: BatchEnv | None = None
        self._writer: RunWriter | None = None

    @property
    def seconds(self) -> float:
        return perf_counter() - self._begun

    @property
    def finished(self) -> bool:
        """Whether the peer has spent its budget, or has ended by itself."""
        return self.stopped is None and self._ended

    def run(self) -> None:
        """Evaluate, train with evaluations in between, evaluate what was found last."""
        assert self.config.evaluations is not None
        self.reporter.start(Plan(self.config, self.config.steps, None, self.config.evaluations, None), self.path)
        self._ended = False
        self.record()
        with suppress(Ended):
            self.peer.train(self.on_steps)
        self._ended = True
        self.record()

    def on_steps(self, counts: Counts) -> None:
        """Told by the peer after steps in its environments."""
        self.counts = counts
        if self.stop.signal is not None:
            text = f"stopped after {counts.budgeted:,} steps; a run of {self.config.method} cannot be continued"
            raise Interrupted(text, self.stop.signal)
        if counts.budgeted >= self.config.steps:
            raise Ended
        if self.config.max_seconds is not None and self.seconds >= self.config.max_seconds:
            self.stopped = "max_seconds"
            raise Ended
        if self.milestones and counts.budgeted >= self.milestones[0]:
            self.milestones = [steps for steps in self.milestones if steps > counts.budgeted]
            self.record()
        if perf_counter() - self._told > SECONDS_BETWEEN_NEWS:
            self._told = perf_counter()
            self.reporter.iteration(counts.budgeted)

    def record(self) -> None:
        """Evaluate what the peer has found and write it down."""
        begun = perf_counter()
        snapshot = self.peer.snapshot()
        evaluation = self.evaluate(snapshot)
        self.own_evaluation_steps += evaluation.steps
        if not np.isfinite(evaluation.returns).any():
            raise DivergenceError(f"no policy of {self.config.method} has a finite return any more: it has diverged")
        spent = perf_counter() - begun
        record = self._describe(evaluation.returns, spent)
        self._write(snapshot, record)
        self.reporter.stage(record)
        self.stage, self.recorded_at = self.stage + 1, self.counts

    def evaluate(self, snapshot: Snapshot) -> Evaluation:
        """Our evaluation of K policies on their weights [K, W, m], a few policies at a time."""
        num_policies, num_weights, _ = snapshot.weights.shape
        positions = (np.arange(num_policies * num_weights) % self.num_positions).reshape(num_policies, num_weights)
        if self._env is None:
            self._env = self.config.make_envs()(max(100, num_weights), self.config.threads)
        at_once = max(1, self._env.num_envs // num_weights)
        parts = []
        for start in range(0, num_policies, at_once):
            rows = slice(start, start + at_once)
            actors = make_actors({name: a[rows] for name, a in snapshot.tensors.items()}, snapshot.network)
            parts.append(
                evaluate(
                    actors,
                    snapshot.weights[rows],
                    self._env,
                    self.config.episodes,
                    positions=positions[rows],
                )
            )
        return Evaluation(np.concatenate([part.returns for part in parts]), sum(part.steps for part in parts))

    def _describe(self, returns: NDArray, evaluating: float) -> StageRecord:
        training = self.seconds - evaluating - sum(self._seconds.values())
        self._seconds = {name: value + extra for (name, value), extra in zip(self._seconds.items(), (training, evaluating), strict=True)}
        return StageRecord(
            stage=self.stage,
            iteration=self.counts.budgeted,
            training_steps=self.counts.training,
            evaluation_steps=self.own_evaluation_steps + self.counts.evaluation,
            seconds=self.seconds,
            returns=returns,
            indicators=measure(returns, self.spec.reference_point),
            stage_seconds={"selecting": 0.0, "training": round(training, 3), "evaluating": round(evaluating, 3)},
        )

    def _write(self, snapshot: Snapshot, record: StageRecord) -> None:
        if self._writer is None:
            self._writer = RunWriter(self.path, self.config.to_json(), self.spec, network=snapshot.network)
        steps = {
            "pretraining_steps": self.counts.pretraining,
            "peer_evaluation_steps": self.counts.evaluation,
            "policies": len(snapshot.weights),
        }
        self._writer.write_stage(
            record.stage,
            metrics_line(record) | steps,
            snapshot.weights,
            record.returns,
            snapshot.tensors,
            self._summarise(snapshot, record) | steps,
        )

    def _summarise(self, snapshot: Snapshot, record: StageRecord) -> dict[str, Any]:
        """``summary.json``: what was found and what it cost."""
        return {
            "problem": self.config.problem,
            "method": self.config.method,
            "seed": self.config.seed,
            "objectives": list(self.spec.objectives),
            "reference_point": list(self.spec.reference_point),
            "finished": self.finished,
            "stopped": self.stopped,
            **record.indicators,
            "parameters": snapshot.num_parameters,
            "training_steps": record.training_steps,
            "evaluation_steps": record.evaluation_steps,
            "seconds": round(record.seconds, 3),
            "diverged": [],
            "versions": versions() | peer_versions(),
        }

    def close(self) -> None:
        if self._env is not None:
            self._env.close()


def peer_versions() -> Mapping[str, str]:
    """Of the peers' packages, as far as they are installed."""
    found = {}
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
