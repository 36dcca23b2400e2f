"""Trains a peer into an ordinary run directory: evaluated by our evaluator, counted by our counter."""

from __future__ import annotations

import importlib.metadata
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ucb_moppo.cli.display import draw_front
from ucb_moppo.cli.progress import Reporter
from ucb_moppo.config import default_config
from ucb_moppo.engine.evaluation import Evaluation, evaluate
from ucb_moppo.engine.rollout import named_actors
from ucb_moppo.engine.trainer import StageRecord, measure
from ucb_moppo.envs import make_spec
from ucb_moppo.errors import DivergenceError, Interrupted
from ucb_moppo.peers import find_peer, make_settings
from ucb_moppo.peers.base import Counts, Peer, PeerConfig, Snapshot
from ucb_moppo.peers.comparison import our_config, our_num_stages, our_probes, positions_of
from ucb_moppo.spec import EnvSpec
from ucb_moppo.store.layout import PICTURE, check_directory, fresh_directory
from ucb_moppo.store.lock import locked
from ucb_moppo.store.run import Run
from ucb_moppo.store.writer import RunWriter
from ucb_moppo.training.stop import StopRequest
from ucb_moppo.training.train import Deadline, Plan, metrics_line, versions

PACKAGES = ("morl-baselines", "torch")
SECONDS_BETWEEN_NEWS = 1.0


class Ended(Exception):
    """Raised inside a peer's training to end it: the budget is spent, or the time is up."""


def train_peer(
    config: PeerConfig, out: str | Path | None, reporter: Reporter, max_seconds: float | None = None
) -> Run:
    """Train what ``config`` says into the directory ``out``; everything wrong with it is found first."""
    deadline = Deadline(max_seconds)
    spec = make_spec(config.problem, config.horizon, config.reference_point, config.protocol)
    config = decide(config, spec)
    path = Path(out) if out is not None else fresh_directory(config.problem, config.method, config.seed)
    check_directory(path)
    examiner = Examiner(config, spec)
    try:
        peer = find_peer(config.method)(spec, config, config.make_envs(), examiner.weights)
        with locked(path), StopRequest() as stop:
            check_directory(path)
            Recorder(peer, examiner, path, reporter, Watch(stop, deadline)).run()
    finally:
        reporter.stop()
        examiner.close()
    run = Run(path)
    draw_front(run, path / PICTURE)
    return run


def make_peer_config(
    problem: str, *, steps: int | None = None, preset: str = "tuned", **settings: Any
) -> PeerConfig:
    """Settings of a peer's run by name, those of the method itself among them; None leaves one as it is."""
    given = {name: value for name, value in settings.items() if value is not None}
    run = {f.name for f in fields(PeerConfig)} - {"settings"}
    own = {name: given.pop(name) for name in sorted(given.keys() - run)}
    ours = default_config(problem, preset)
    return PeerConfig(
        problem, steps=ours.steps if steps is None else steps, preset=ours.preset, settings=own, **given
    )


def decide(config: PeerConfig, spec: EnvSpec) -> PeerConfig:
    """Every setting left open: the problem's, the method's published ones, weights and evaluations as ours."""
    ours = our_config(config, spec)
    return replace(
        config,
        problem=config.problem.removeprefix("ucb_moppo/"),
        horizon=spec.horizon,
        reference_point=spec.reference_point,
        policies=ours.search.policies,
        probes=ours.search.probes,
        evaluations=config.evaluations or our_num_stages(config, spec),
        settings=make_settings(config.method, config.problem, config.settings),
    )


class Examiner:
    """Our evaluation of whatever a peer has found."""

    def __init__(self, config: PeerConfig, spec: EnvSpec) -> None:
        self.config, self.spec = config, spec
        probes = our_probes(config, spec)
        self.weights = probes.reshape(-1, spec.num_objectives)
        """[W, m] the same for every method."""
        self._num_probes = probes.shape[1]
        self._env = config.make_envs()(len(self.weights), config.threads)

    def evaluate(self, snapshot: Snapshot) -> Evaluation:
        """Returns [K, W, m] of K policies on their weights, as many at a time as there are environments."""
        weights, positions = snapshot.weights, positions_of(snapshot.weights, self._num_probes)
        at_once = max(1, self._env.num_envs // weights.shape[1])
        parts = []
        for start in range(0, len(weights), at_once):
            rows = slice(start, start + at_once)
            actors = named_actors({name: a[rows] for name, a in snapshot.tensors.items()}, snapshot.network)
            env, episodes = self._env, self.config.episodes
            parts.append(evaluate(actors, weights[rows], env, episodes, positions=positions[rows]))
        return Evaluation(np.concatenate([part.returns for part in parts]), sum(part.steps for part in parts))

    def close(self) -> None:
        self._env.close()


class Watch:
    """Says when a run must stop: a signal has come, or its time is up."""

    def __init__(self, stop: StopRequest, deadline: Deadline) -> None:
        self._stop, self._deadline = stop, deadline
        self.begun = deadline.begun
        self.stopped: str | None = None
        """Why a run ended before its last step, if it did."""

    def check(self) -> None:
        if self._stop.signal is not None:
            raise Interrupted("stopped; a run of another method cannot be continued", self._stop.signal)
        if self._deadline.passed:
            self.stopped = "max_seconds"
            raise Ended


class Recorder:
    """Watches a peer train: has it evaluated now and then, writes what was found, ends it when it is time."""

    def __init__(self, peer: Peer, examiner: Examiner, path: Path, reporter: Reporter, watch: Watch) -> None:
        self.peer, self.examiner, self.path, self.reporter, self.watch = peer, examiner, path, reporter, watch
        self.config = examiner.config
        assert self.config.evaluations is not None
        parts = np.arange(1, self.config.evaluations + 1) / self.config.evaluations
        self._milestones = np.round(self.config.steps * parts).astype(int).tolist()
        self._counts, self._stage, self._own_steps = Counts(), 0, 0
        self._begun, self._last, self._told = watch.begun, perf_counter(), perf_counter()
        self._writer: RunWriter | None = None

    def run(self) -> None:
        """Evaluate, train with evaluations in between, evaluate what was found last."""
        self.reporter.start(Plan(self.config, self.config.steps, None, len(self._milestones), None), self.path)
        self._record(finished=False)
        with suppress(Ended):
            self.peer.train(self.on_steps)
        self._record(finished=self.watch.stopped is None)

    def on_steps(self, counts: Counts) -> None:
        """Told by the peer after steps in its environments."""
        self._counts = counts
        self.watch.check()
        if counts.budgeted >= self.config.steps:
            raise Ended
        if counts.budgeted >= self._milestones[0]:
            self._milestones = [steps for steps in self._milestones if steps > counts.budgeted]
            self._record(finished=False)
        if perf_counter() - self._told > SECONDS_BETWEEN_NEWS:
            self._told = perf_counter()
            self.reporter.iteration(counts.budgeted)

    def _record(self, finished: bool) -> None:
        """Have what the peer has found evaluated, and write it down."""
        trained = perf_counter() - self._last
        snapshot = self.peer.snapshot()
        evaluation = self.examiner.evaluate(snapshot)
        if not np.isfinite(evaluation.returns).any():
            raise DivergenceError(f"no policy of {self.config.method} has a finite return: it has diverged")
        self._own_steps += evaluation.steps
        now = perf_counter()
        record = StageRecord(
            stage=self._stage,
            iteration=self._counts.budgeted,
            training_steps=self._counts.training,
            evaluation_steps=self._own_steps + self._counts.evaluation,
            seconds=now - self._begun,
            returns=evaluation.returns,
            indicators=measure(evaluation.returns, self.config.reference_point),
            stage_seconds={"training": round(trained, 3), "evaluating": round(now - self._last - trained, 3)},
        )
        self._write(snapshot, record, finished)
        self.reporter.stage(record)
        self._stage, self._last = self._stage + 1, now

    def _write(self, snapshot: Snapshot, record: StageRecord, finished: bool) -> None:
        if self._writer is None:
            spec = self.examiner.spec
            self._writer = RunWriter(self.path, self.config.to_json(), spec, network=snapshot.network)
        own = {
            "pretraining_steps": self._counts.pretraining,
            "peer_evaluation_steps": self._counts.evaluation,
            "policies": len(snapshot.weights),
        }
        summary = self._summarise(snapshot, record, finished) | own
        metrics = metrics_line(record) | own
        self._writer.write_stage(record.stage, metrics, snapshot.weights, record.returns, snapshot.tensors, summary)

    def _summarise(self, snapshot: Snapshot, record: StageRecord, finished: bool) -> dict[str, Any]:
        """``summary.json``: what was found and what it cost."""
        spec = self.examiner.spec
        return {
            "problem": self.config.problem,
            "method": self.config.method,
            "seed": self.config.seed,
            "objectives": list(spec.objectives),
            "reference_point": list(spec.reference_point),
            "finished": finished,
            **({} if self.watch.stopped is None else {"stopped": self.watch.stopped}),
            **record.indicators,
            "parameters": snapshot.num_parameters,
            "training_steps": record.training_steps,
            "evaluation_steps": record.evaluation_steps,
            "seconds": round(record.seconds, 3),
            "diverged": [],
            "versions": versions() | peer_versions(),
        }


def peer_versions() -> dict[str, str]:
    """Of the packages that peers come from, as far as they are installed."""
    found = {}
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
