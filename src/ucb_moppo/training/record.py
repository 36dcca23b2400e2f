"""The one loop over a learner's events: here stages are written, checkpoints saved, and a run is stopped."""

from __future__ import annotations

import importlib.metadata
import platform
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from ucb_moppo.config import MoppoConfig, RunConfig
from ucb_moppo.engine.learner import Diverged, Iteration, Learner, Snapshot, StageRecord
from ucb_moppo.errors import Interrupted, UcbMoppoWarning
from ucb_moppo.registry import METHODS
from ucb_moppo.spec import EnvSpec
from ucb_moppo.store.checkpoint import (
    Checkpoint,
    Checkpointer,
    checkpoint_name,
    list_checkpoints,
    write_checkpoint,
)
from ucb_moppo.store.policy_file import spec_to_json
from ucb_moppo.store.writer import RunWriter, front_csv
from ucb_moppo.training.callbacks import NO_CALLBACKS, Callbacks
from ucb_moppo.training.ending import Ending, measure_ending
from ucb_moppo.training.numerics import describe_numerics
from ucb_moppo.training.reporter import Reporter
from ucb_moppo.training.stop import Deadline, StopRequest

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


def record_run(
    learner: Learner,
    recorder: Recorder,
    reporter: Reporter,
    stop: StopRequest,
    deadline: Deadline,
    callbacks: Callbacks = NO_CALLBACKS,
) -> None:
    """Train to the end or until a signal, a callback or the deadline; leave in the run's directory what every stage
    found."""
    recorder.save_first(learner)
    with closing(learner.run()) as events:
        for event in events:
            if isinstance(event, Diverged):
                warn_of_divergence(event)
                continue
            if isinstance(event, StageRecord):
                recorder.write_stage(learner.snapshot(), event)
                reporter.stage(event)
            else:
                reporter.iteration(event.iteration)
            with saved_if_it_fails(learner, recorder):
                asked = callbacks.ask(event)
            if stop.signal is not None and not learner.finished:
                recorder.save(learner)
                raise Interrupted(recorder.describe_stop(learner), stop.signal)
            reason = reason_to_end(event, recorder.config, asked, deadline)
            if reason is not None:
                break
            recorder.save_if_due(learner, event)
        else:
            return
    recorder.save(learner)  # first: what follows is outside the schedule, and a run that continues drops it
    if isinstance(event, StageRecord):
        recorder.write_end(learner.snapshot(), event, reason)
    else:
        callbacks.ask(end_early(learner, recorder, reporter, reason))


@contextmanager
def saved_if_it_fails(learner: Learner, recorder: Recorder) -> Iterator[None]:
    """Save the learner as it stands where the user's own code fails: the run can then be continued."""
    try:
        yield
    except BaseException:
        recorder.save(learner)
        raise


def reason_to_end(event: Iteration | StageRecord, config: RunConfig, asked: bool, deadline: Deadline) -> str | None:
    """Why a run is to end here, if it is: not where it ends anyway, or has only its last evaluation before it.

    Time that is up waits for the next iteration: where a stage has just been evaluated, another evaluation is vain.
    """
    if event.iteration >= config.num_iterations or (isinstance(event, StageRecord) and event.finished):
        return None
    if asked:
        return "callback"
    return "max_seconds" if isinstance(event, Iteration) and deadline.passed else None


def end_early(learner: Learner, recorder: Recorder, reporter: Reporter, stopped: str) -> StageRecord:
    """Evaluate a run that ends inside a stage, as the last of what it leaves."""
    record = learner.evaluate_early()
    recorder.write_stage(learner.snapshot(), record, stopped)
    reporter.stage(record)
    return record


def warn_of_divergence(event: Diverged) -> None:
    message = (
        f"policy {event.policy} diverged in iteration {event.iteration}: its {event.cause} were "
        f"not finite; it was {event.action}"
    )
    warnings.warn(message, UcbMoppoWarning, stacklevel=2)


class Recorder:
    """Writes a run: what its stages found, and checkpoints of a learner that can be continued."""

    def __init__(
        self, path: Path, config: RunConfig, spec: EnvSpec, learner: Learner, checkpoint: Checkpoint | None = None
    ) -> None:
        self.config, self.spec = config, spec
        self._facts = make_facts(config, spec)
        lengths = {} if checkpoint is None else checkpoint.lengths()
        self.writer = RunWriter(path, config.to_json(), spec, lengths, learner.network)
        self._checkpointer = Checkpointer(
            save=lambda: self._write_checkpoint(learner),
            stages=config.checkpoint_stages,
            seconds=config.checkpoint_seconds,
            stage=learner.num_evaluations - 1,
        )

    def write_stage(self, snapshot: Snapshot, record: StageRecord, stopped: str | None = None) -> None:
        """Write everything a stage leaves on disk; ``stopped`` says why a run ends before its last step."""
        ends = record.finished or stopped is not None
        ending = measure_ending(self.config, self.spec, snapshot, record) if ends else None
        self.writer.write_stage(
            record.stage,
            metrics_line(record),
            snapshot.weights,
            record.returns,
            snapshot.tensors,
            summarise(self.config, self.spec, snapshot, record, stopped, ending),
            None if ending is None else ending.front(),
            record.outcomes,
        )

    def write_end(self, snapshot: Snapshot, record: StageRecord, stopped: str) -> None:
        """Say of a stage that has been written that the run ends with it, and measure its front."""
        ending = measure_ending(self.config, self.spec, snapshot, record)
        self.writer.write_end(
            summarise(self.config, self.spec, snapshot, record, stopped, ending),
            front_csv(snapshot.weights, record.returns, None, record.outcomes)
            if ending is None
            else ending.front(),
        )

    def save_first(self, learner: Learner) -> None:
        """Save before anything is trained, so that a run without any checkpoint has lost them.

        Never over one that is there: a kill between letting go of the old and naming the new would leave none.
        """
        if not learner.num_evaluations and not list_checkpoints(self.writer.path):
            self.save(learner)

    def save(self, learner: Learner) -> None:
        """Save a learner that can be continued, now."""
        if learner.resumable:
            self._checkpointer.now()

    def save_if_due(self, learner: Learner, event: Iteration | StageRecord) -> None:
        """Save after a stage or an iteration if it is time to, and always at the end."""
        if not learner.resumable:
            return
        if isinstance(event, Iteration):
            self._checkpointer.after_iteration()
        elif learner.finished:
            self._checkpointer.now()
        else:
            self._checkpointer.after_stage(event.stage)

    def _write_checkpoint(self, learner: Learner) -> None:
        """Commit the whole state as it stands, and how long the growing files are."""
        name = checkpoint_name(learner.iteration, learner.num_evaluations)
        lengths = {file: digest.to_json() for file, digest in self.writer.lengths().items()}
        write_checkpoint(
            self.writer.path, Checkpoint(name, learner.get_state(), {**self._facts, "lengths": lengths})
        )

    def describe_stop(self, learner: Learner) -> str:
        """Say where a run stands that was asked to stop, and what can be done with it."""
        if not learner.resumable:
            return "stopped; a run of another method cannot be continued"
        remedy = f"continue with `ucb-moppo resume {self.writer.path}`"
        return f"stopped after iteration {learner.iteration}; {remedy}"


def make_facts(config: RunConfig, spec: EnvSpec) -> dict[str, Any]:
    """What a checkpoint and a run that continues from it must agree on."""
    return {
        "config": config.to_json(),
        "problem": spec_to_json(spec),
        "version": versions(config.method),
        "numerics": describe_numerics(),
    }


def metrics_line(record: StageRecord) -> dict[str, Any]:
    """One line of ``metrics.jsonl``."""
    return {
        "stage": record.stage,
        "iteration": record.iteration,
        "training_steps": record.training_steps,
        "evaluation_steps": record.evaluation_steps,
        "seconds": round(record.seconds, 3),
        "stage_seconds": record.stage_seconds,
        "policies": len(record.returns),
        **found_by(record.indicators, record.extra_indicators),
        "selected_weights": None if record.selected is None else record.selected.tolist(),
        "learning": record.learning,
        "surrogate": record.diagnostics,
        "diverged": record.diverged,
        **record.method_counts,
    }


def summarise(
    config: RunConfig,
    spec: EnvSpec,
    snapshot: Snapshot,
    record: StageRecord,
    stopped: str | None,
    ending: Ending | None = None,
) -> dict[str, Any]:
    """``summary.json``: what was found and what it cost. Of a run that has ended, indicators are held-out."""
    found = found_by(record.indicators, record.extra_indicators)
    evaluation_steps = record.evaluation_steps
    if ending is not None:
        held_out = ending.held_out
        found = found_by(held_out.indicators, held_out.extra_indicators) | {"held_out": ending.describe()}
        evaluation_steps += ending.steps
    return {
        "problem": config.problem,
        "method": config.method,
        "seed": config.seed,
        "objectives": list(spec.objectives),
        "reference_point": list(spec.reference_point),
        "evaluation_discount": config.evaluation_discount,
        **describe_goal(config),
        "finished": record.finished,
        **found,
        "policies": len(snapshot.weights),
        "parameters": snapshot.num_parameters,
        "training_steps": record.training_steps,
        "evaluation_steps": evaluation_steps,
        "seconds": round(record.seconds, 3),
        "diverged": record.diverged,
        "versions": versions(config.method),
        **record.method_counts,
        **({} if stopped is None else {"stopped": stopped}),
    }


def describe_goal(config: RunConfig) -> dict[str, Any]:
    """What a preference means, where it is not a weighted sum."""
    if not isinstance(config, MoppoConfig) or config.goal.is_linear:
        return {}
    return {"utility": config.goal.utility, "criterion": config.goal.criterion}


def found_by(indicators: Mapping[str, float], extra: Mapping[str, float]) -> dict[str, Any]:
    """The indicators, and the user's own in an object of theirs."""
    return {**indicators, **({"extra_indicators": dict(extra)} if extra else {})}


def versions(method: str) -> dict[str, str]:
    """Of everything that may change the numbers."""
    found = {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in PACKAGES}}
    for name in METHODS.entries[method].packages if method in METHODS else ():
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
