"""Train from Python or from the command line: one function that runs the trainer and writes the run."""

from __future__ import annotations

import importlib.metadata
import json
import math
import platform
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from ucb_moppo.cli.display import draw_front
from ucb_moppo.cli.progress import Reporter, make_reporter
from ucb_moppo.config import Config, default_config, from_json, override, resolve, to_json
from ucb_moppo.engine.trainer import StageRecord, Trainer
from ucb_moppo.envs import make_spec
from ucb_moppo.errors import (
    ConfigError,
    DamagedFileError,
    DisagreementError,
    FormatVersionError,
    Interrupted,
    UcbMoppoWarning,
)
from ucb_moppo.peers import PEERS, check_method
from ucb_moppo.peers.base import PeerConfig
from ucb_moppo.runtime.executor import Executor, make_executor
from ucb_moppo.spec import EnvSpec
from ucb_moppo.store.checkpoint import (
    Checkpoint,
    Checkpointer,
    checkpoint_name,
    clean_debris,
    find_checkpoint,
    list_checkpoints,
    write_checkpoint,
)
from ucb_moppo.store.layout import (
    CONFIG,
    LIMITS,
    METRICS,
    PICTURE,
    check_directory,
    check_holds_run,
    fresh_directory,
    read_manifest,
)
from ucb_moppo.store.lock import locked
from ucb_moppo.store.policy_file import spec_to_json
from ucb_moppo.store.run import Run
from ucb_moppo.store.storage import parse_object, read_bytes
from ucb_moppo.store.writer import RunWriter
from ucb_moppo.training.stop import StopRequest

PACKAGES = (
    "ucb-moppo",
    "jax",
    "jaxlib",
    "optax",
    "mujoco",
    "gymnasium",
    "mo-gymnasium",
    "numpy",
    "scikit-learn",
    "moocore",
)


SAME_RESULT = ("threads", "executor", "ray_address", "checkpoint_stages", "checkpoint_seconds")
"""Settings that may differ when a run is continued: they do not change what it computes."""


@dataclass(frozen=True)
class Plan:
    """What a run will do, before it does it."""

    config: Config | PeerConfig
    training_steps: int
    evaluation_steps: int | None
    """At most: an episode may end before the horizon. None where another method decides."""
    num_stages: int
    seconds: float | None
    """Measured here: the time of an iteration and of a step, times how many are left. None if it was not."""
    done: int = 0
    """Iterations behind a run that continues."""


def make_plan(trainer: Trainer) -> Plan:
    """Count the steps of a run and measure about how long they take on this machine."""
    config, stages = trainer.config, trainer.stages()
    assert config.horizon is not None
    episodes = trainer.evaluated_weights.shape[0] * trainer.evaluated_weights.shape[1] * config.episodes
    evaluation_steps = episodes * config.horizon * (len(stages) + 1)
    timing = trainer.executor.time_iteration()
    steps_left = episodes * config.horizon * (len(stages) + 1 - len(trainer.history))
    return Plan(
        config=config,
        training_steps=config.num_iterations * config.steps_per_iteration,
        evaluation_steps=evaluation_steps,
        num_stages=len(stages),
        seconds=(config.num_iterations - trainer.iteration) * timing.iteration + steps_left * timing.step,
        done=trainer.iteration,
    )


def train(
    problem: str,
    *,
    method: str = "ucb",
    seed: int = 0,
    steps: int | None = None,
    preset: str = "tuned",
    out: str | Path | None = None,
    quiet: bool = False,
    max_seconds: float | None = None,
    **settings: Any,
) -> Run:
    """Train a Pareto set of policies and return the run; ``max_seconds`` of wall time end it early, but cleanly.

    Further ``settings`` are those of the command line with underscores, e.g. ``policies=5, gamma=0.995``; for
    another method (pgmorl, capql, gpils, pdmorl) also its own, which the command line takes as ``--set``.
    """
    check_method(method)
    if method in PEERS:
        from ucb_moppo.peers.record import make_peer_config, train_peer

        peer = make_peer_config(problem, method=method, seed=seed, steps=steps, preset=preset, **settings)
        return train_peer(peer, out, make_reporter(quiet), max_seconds)
    config = override(default_config(problem, preset), method=method, seed=seed, steps=steps, **settings)
    return train_config(config, out, make_reporter(quiet), max_seconds)


def train_config(
    config: Config, out: str | Path | None, reporter: Reporter, max_seconds: float | None = None
) -> Run:
    """Train what ``config`` says into the directory ``out``; everything wrong with it is found first."""
    deadline = Deadline(max_seconds)
    spec = make_spec(config.problem, config.horizon, config.reference_point, config.protocol)
    config = resolve(config, spec)
    path = Path(out) if out is not None else fresh_directory(config.problem, config.method, config.seed)
    check_directory(path)
    with locked(path):
        check_directory(path)
        return execute(config, spec, path, reporter, None, deadline)


def resume(
    path: str | Path,
    *,
    force: bool = False,
    quiet: bool = False,
    max_seconds: float | None = None,
    executor: str | None = None,
    ray_address: str | None = None,
) -> Run:
    """Continue a run from its newest good checkpoint; it ends as if it had never been interrupted.

    Refused if config, problem or library versions have changed since, unless ``force`` is set. ``max_seconds`` are
    counted from here on.
    """
    return resume_run(Path(path), make_reporter(quiet), force, max_seconds, executor, ray_address)


def resume_run(
    path: Path,
    reporter: Reporter,
    force: bool = False,
    max_seconds: float | None = None,
    executor: str | None = None,
    ray_address: str | None = None,
) -> Run:
    """Continue the run in the directory ``path``, on the executor it had unless another is named."""
    deadline = Deadline(max_seconds)
    check_holds_run(path)
    with locked(path):
        clean_debris(path)
        check_continuable(path)
        data = parse_object(read_bytes(path, CONFIG, LIMITS[CONFIG]), path / CONFIG)
        if data.get("method") in PEERS:
            raise ConfigError(f"{path} is a run of {data['method']}, which cannot be continued: train it again")
        config = from_json(data)
        spec = make_spec(config.problem, config.horizon, config.reference_point, config.protocol)
        config = resolve(override(config, executor=executor, ray_address=ray_address), spec)
        checkpoint = find_checkpoint(path)
        if checkpoint is not None:
            check_agreement(path, checkpoint.facts, make_facts(config, spec), force)
        elif (path / METRICS).exists():
            raise DamagedFileError(f"{path / 'checkpoints'} is missing: there is nothing to continue from")
        return execute(config, spec, path, reporter, checkpoint, deadline)


def check_continuable(path: Path) -> None:
    """Refuse a run of a format that has no checkpoints, or that only a newer version knows."""
    try:
        version = read_manifest(path).format
    except DamagedFileError:
        return  # the manifest is made of the files; the checkpoints have manifests of their own
    if version < 2 and not (path / "checkpoints").exists() and (path / METRICS).exists():
        raise FormatVersionError(f"{path} has format {version}, which saved no checkpoints: train it again")


def make_facts(config: Config, spec: EnvSpec) -> dict[str, Any]:
    """What a checkpoint and a run that continues from it must agree on."""
    return {"config": to_json(config), "problem": spec_to_json(spec), "version": versions()}


def check_agreement(path: Path, saved: Mapping[str, Any], now: Mapping[str, Any], force: bool) -> None:
    """Refuse to continue a run under other conditions than it was saved under, unless told to."""
    changes = list(differences({name: saved.get(name) for name in now}, json.loads(json.dumps(now))))
    if changes and not force:
        raise DisagreementError(
            f"{path} was saved under other conditions: {'; '.join(changes)}. Put them back, or continue "
            f"anyway with --force; the run is then not the one that was begun"
        )


def differences(saved: Any, now: Any, name: str = "") -> Iterator[str]:
    """Every value that is not the same in two trees of plain data: 'config gamma: 0.99 is now 0.9'."""
    if isinstance(saved, Mapping) and isinstance(now, Mapping):
        for key in sorted({*saved, *now} - {*SAME_RESULT}):
            yield from differences(saved.get(key), now.get(key), f"{name} {key}".strip())
    elif saved != now:
        yield f"{name}: {saved} is now {now}"


class Deadline:
    """Wall time after which a run is to end, counted from when this is made; never if no time is given."""

    def __init__(self, max_seconds: float | None) -> None:
        if max_seconds is not None and not 0 < max_seconds < math.inf:
            raise ConfigError(f"max_seconds is {max_seconds}; it must be a positive number")
        self.begun = perf_counter()
        self._end = math.inf if max_seconds is None else self.begun + max_seconds

    @property
    def passed(self) -> bool:
        return perf_counter() >= self._end


class TimeUp(Exception):
    """Raised between two iterations of a run whose time is up."""


def execute(
    config: Config,
    spec: EnvSpec,
    path: Path,
    reporter: Reporter,
    checkpoint: Checkpoint | None,
    deadline: Deadline,
) -> Run:
    """Train from the beginning or from a checkpoint to the end. The caller holds the run's lock."""
    with StopRequest() as stop:
        executor = make_executor(config)
        try:
            trainer = Trainer(config, spec, executor, begun=deadline.begun)
            if checkpoint is not None:
                trainer.set_state(checkpoint.tensors)
            lengths = {} if checkpoint is None else checkpoint.lengths()
            if not trainer.finished:
                reporter.start(make_plan(trainer), path)
            writer = RunWriter(path, to_json(config), spec, lengths)
            train_stages(trainer, writer, reporter, stop, deadline)
        finally:
            reporter.stop()
            executor.close()
    run = Run(path)
    draw_front(run, path / PICTURE)
    return run


def train_stages(
    trainer: Trainer, writer: RunWriter, reporter: Reporter, stop: StopRequest, deadline: Deadline
) -> None:
    """All stages that are left, with checkpoints in between and wherever the process is asked to stop."""
    config, facts = trainer.config, make_facts(trainer.config, trainer.spec)
    keeper = Checkpointer(
        save=lambda: save_checkpoint(trainer, writer, facts),
        stages=config.checkpoint_stages,
        seconds=config.checkpoint_seconds,
        stage=len(trainer.history) - 1,
    )

    def stop_if_asked() -> None:
        if stop.signal is not None:
            keeper.now()
            remedy = f"continue with `ucb-moppo resume {writer.path}`"
            raise Interrupted(f"stopped after iteration {trainer.iteration}; {remedy}", stop.signal)

    def at_safe_point(iteration: int) -> None:
        reporter.iteration(iteration)
        stop_if_asked()
        if deadline.passed and iteration < config.num_iterations:
            raise TimeUp
        keeper.after_iteration()

    trainer.on_iteration = at_safe_point
    num_known = len(trainer.executor.divergences())
    if not trainer.history and not list_checkpoints(writer.path):
        # So that a run without any has lost them. Never over one that is there: a kill between letting go of
        # the old and naming the new would leave none.
        keeper.now()
    try:
        for record in trainer.run():
            write_stage(writer, trainer, record)
            reporter.stage(record)
            warn_of_divergences(record.diverged[num_known:])
            num_known = len(record.diverged)
            if trainer.finished:
                keeper.now()
            else:
                stop_if_asked()
                keeper.after_stage(record.stage)
    except TimeUp:
        keeper.now()  # first: what follows is outside the schedule, and a run that continues drops it
        record = trainer.evaluate_early()
        write_stage(writer, trainer, record, stopped="max_seconds")
        reporter.stage(record)


def save_checkpoint(trainer: Trainer, writer: RunWriter, facts: Mapping[str, Any]) -> None:
    """Commit the whole state as it stands, and how long the growing files are."""
    name = checkpoint_name(trainer.iteration, len(trainer.history))
    lengths = {file: digest.to_json() for file, digest in writer.lengths().items()}
    write_checkpoint(writer.path, Checkpoint(name, trainer.get_state(), {**facts, "lengths": lengths}))


def write_stage(writer: RunWriter, trainer: Trainer, record: StageRecord, stopped: str | None = None) -> None:
    """Everything a stage leaves on disk; ``stopped`` says why a run ends before its last step."""
    summary = summarise(trainer.config, trainer.spec, trainer.executor, record)
    writer.write_stage(
        record.stage,
        metrics_line(record),
        trainer.decomposition.probes,
        record.returns,
        trainer.executor.policies(),
        summary if stopped is None else summary | {"stopped": stopped},
    )


def warn_of_divergences(events: Sequence[Mapping[str, Any]]) -> None:
    for event in events:
        message = (
            f"policy {event['policy']} diverged in iteration {event['iteration']}: its {event['cause']} were "
            f"not finite; it was {event['action']}"
        )
        warnings.warn(message, UcbMoppoWarning, stacklevel=2)


def metrics_line(record: StageRecord) -> dict[str, Any]:
    """One line of ``metrics.jsonl``."""
    return {
        "stage": record.stage,
        "iteration": record.iteration,
        "training_steps": record.training_steps,
        "evaluation_steps": record.evaluation_steps,
        "seconds": round(record.seconds, 3),
        "stage_seconds": record.stage_seconds,
        **record.indicators,
        "selected_weights": None if record.selected is None else record.selected.tolist(),
        "learning": record.learning,
        "surrogate": record.diagnostics,
        "diverged": record.diverged,
    }


def summarise(config: Config, spec: EnvSpec, executor: Executor, record: StageRecord) -> dict[str, Any]:
    """``summary.json``: what was found and what it cost."""
    parameters = sum(a.size for name, a in executor.policies().items() if name.split(".")[0] in ("actor", "critic"))
    return {
        "problem": config.problem,
        "method": config.method,
        "seed": config.seed,
        "objectives": list(spec.objectives),
        "reference_point": list(spec.reference_point),
        "finished": record.iteration == config.num_iterations,
        **record.indicators,
        "policies": config.num_policies,
        "parameters": parameters,
        "training_steps": record.training_steps,
        "evaluation_steps": record.evaluation_steps,
        "seconds": round(record.seconds, 3),
        "diverged": record.diverged,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Of everything that may change the numbers."""
    packages = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **packages}
