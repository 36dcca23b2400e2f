"""Train a run, whoever trains: check, make the learner, record what it does, draw the front."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ucb_moppo.config import MoppoConfig, PeerConfig, RunConfig, RunSettings, override, resolve
from ucb_moppo.engine.learner import Learner
from ucb_moppo.engine.trainer import Trainer
from ucb_moppo.envs import make_spec, measure_scales
from ucb_moppo.errors import UcbMoppoWarning, require
from ucb_moppo.objectives.utility import Goal
from ucb_moppo.registry import METHODS
from ucb_moppo.runtime.executor import make_executor
from ucb_moppo.spec import EnvSpec
from ucb_moppo.store.checkpoint import Checkpoint
from ucb_moppo.store.layout import PICTURE, check_directory, fresh_directory
from ucb_moppo.store.lock import locked
from ucb_moppo.store.picture import draw_front
from ucb_moppo.store.run import Run
from ucb_moppo.training.callbacks import NO_CALLBACKS, Callbacks
from ucb_moppo.training.record import Recorder, record_run
from ucb_moppo.training.reporter import Reporter
from ucb_moppo.training.stepping import SteppedTrainer
from ucb_moppo.training.stop import Deadline, StopRequest


def train_run(
    settings: RunSettings,
    out: str | Path | None,
    reporter: Reporter,
    max_seconds: float | None = None,
    callbacks: Callbacks = NO_CALLBACKS,
) -> Run:
    """Train what ``settings`` say into the directory ``out``; everything wrong with them is found first."""
    deadline = Deadline(max_seconds)
    config, spec = decide_run(settings)
    path = Path(out) if out is not None else fresh_directory(config.problem, config.method, config.seed)
    check_directory(path)
    with locked(path):
        check_directory(path)
        return execute(config, spec, path, reporter, deadline, callbacks=callbacks)


def prepare_trainer(settings: RunSettings) -> SteppedTrainer:
    """What trains as ``settings`` say, to be stepped by hand: nothing is written, and the caller closes it."""
    begun = perf_counter()
    config, spec = decide_run(settings)
    return SteppedTrainer(make_learner(config, spec, begun), config, spec)


def decide_run(settings: RunSettings) -> tuple[RunConfig, EnvSpec]:
    """What a run of these settings is, with nothing left open, and the problem as its policies see it."""
    spec = spec_of(settings)
    config = resolve(with_scales(settings), spec)
    spec = as_seen(spec, config)
    check_trainable(config, spec)
    unsearched = describe_unsearched(config)
    if unsearched is not None:
        warnings.warn(unsearched, UcbMoppoWarning, stacklevel=2)
    return config, spec


def describe_unsearched(config: RunConfig) -> str | None:
    """Say that a method chooses no weights, because all of the run is warm-up, and what to change."""
    if not isinstance(config, MoppoConfig) or config.search.warmup < config.num_iterations:
        return None
    warming_up = "random" if config.shared_iterations else "fixed"
    if config.method == warming_up:
        return None
    count = config.num_iterations
    remedy = f"--warmup {count // 4 or 1}, or more --steps" if count > 1 else f"--steps {2 * config.steps} or more"
    return (
        f"method {config.method} chooses no weights: the warm-up takes all {count} iterations of the run, which "
        f"trains as method {warming_up} does; give {remedy}"
    )


def spec_of(settings: RunSettings) -> EnvSpec:
    """The problem that the settings name, as they set it up."""
    return make_spec(settings.problem, settings.horizon, settings.reference_point, settings.protocol)


def as_seen(spec: EnvSpec, config: RunConfig) -> EnvSpec:
    """The problem as policies of the run see it: with what has accrued, where their utility is taken by episode."""
    return replace(spec, accrued_scales=config.accrued_scales)


def with_scales(settings: RunSettings) -> RunSettings:
    """The settings with the scales of a problem's objectives, where they have to be found out by trying."""
    if settings.objective_scales is not None:
        return settings
    return override(
        settings, objective_scales=measure_scales(settings.problem, settings.protocol, settings.horizon)
    )


def check_trainable(config: RunConfig, spec: EnvSpec) -> None:
    """Refuse a run that its method could not train, or that names what cannot be found, without making anything."""
    for registry, name in config.names():
        registry.find(name)
    check_utility(config.make_goal(spec), spec)
    check = getattr(METHODS.find(config.method), "check", None)
    if check is not None:
        check(spec, config)


def check_utility(goal: Goal, spec: EnvSpec) -> None:
    """Refuse a utility that has no finite value where training begins, at no return at all."""
    preference = np.full(spec.num_objectives, 1 / spec.num_objectives)
    nothing = np.zeros((2, spec.num_objectives))
    values, slopes = goal.utility(nothing, preference), goal.utility.gradient(nothing, preference)
    require(
        bool(np.isfinite(values).all() and np.isfinite(slopes).all()),
        f"the utility of a return of zeros is {values[0]}, with slopes {slopes[0].tolist()}: both must be finite",
    )


def execute(
    config: RunConfig,
    spec: EnvSpec,
    path: Path,
    reporter: Reporter,
    deadline: Deadline,
    checkpoint: Checkpoint | None = None,
    callbacks: Callbacks = NO_CALLBACKS,
) -> Run:
    """Train from the beginning or from a checkpoint to the end. The caller holds the run's lock."""
    with StopRequest() as stop:
        learner = make_learner(config, spec, deadline.begun)
        try:
            if checkpoint is not None:
                learner.set_state(checkpoint.tensors)
            if not learner.finished:
                reporter.start(config, learner.plan(), path)
            recorder = Recorder(path, config, spec, learner, checkpoint)
            record_run(learner, recorder, reporter, stop, deadline, callbacks)
        finally:
            reporter.stop()
            learner.close()
    run = Run(path)
    draw_front(run, path / PICTURE)
    return run


def make_learner(config: RunConfig, spec: EnvSpec, begun: float) -> Learner:
    """Whoever trains a run of this kind; ``begun`` is when its time began to count."""
    return LEARNERS[type(config)](config, spec, begun)


def make_trainer(config: MoppoConfig, spec: EnvSpec, begun: float) -> Learner:
    """Ours, on the executor that the config names."""
    executor = make_executor(config, spec)
    try:
        return Trainer(config, spec, executor, begun)
    except BaseException:
        executor.close()
        raise


def make_peer_learner(config: PeerConfig, spec: EnvSpec, begun: float) -> Learner:
    """Another's method, or a user's own."""
    from ucb_moppo.peers.peer_learner import PeerLearner  # what ours do not need is not loaded

    return PeerLearner(config, spec, begun)


LEARNERS: dict[type[RunSettings], Callable[[Any, EnvSpec, float], Learner]] = {
    MoppoConfig: make_trainer,
    PeerConfig: make_peer_learner,
}
