"""One cell of a sweep: an ordinary run in a directory of its own, then its result file."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from ucb_moppo.bench.provenance import UNKNOWN, Provenance, code_version, hardware
from ucb_moppo.bench.result import MAX_RESULT, make_result, read_result, write_result
from ucb_moppo.bench.sweep_file import Cell, cell_config, cell_settings
from ucb_moppo.config import settings_that_count
from ucb_moppo.errors import DisagreementError, RunFormatError, UcbMoppoError, UnsafeFileError
from ucb_moppo.store.checkpoint import list_checkpoints
from ucb_moppo.store.guarded import open_log, read_bytes, write_file
from ucb_moppo.store.layout import CONFIG, SUMMARY
from ucb_moppo.store.lock import locked
from ucb_moppo.store.run import load_run
from ucb_moppo.store.storage import MAX_JSON, dump_json, finite_or_none
from ucb_moppo.training.reporter import Silent
from ucb_moppo.training.resume import differences, resume_run
from ucb_moppo.training.train import train_run

State = Literal["new", "finished", "broken"]
"""What is broken is continued where it has checkpoints, and begun again where it has none."""


@dataclass(frozen=True)
class Task:
    """A cell and where its files go."""

    cell: Cell
    runs: Path
    out: Path
    steps: int
    """What the run is asked to train for."""

    @property
    def run(self) -> Path:
        return self.runs / self.cell.name

    @property
    def result(self) -> Path:
        return self.out / f"{self.cell.name}.json"

    @property
    def provenance(self) -> Path:
        """Beside the run: the code and hardware it was made with, known only while it is made."""
        return self.runs / f"{self.cell.name}.provenance.json"

    @property
    def log(self) -> Path:
        """Beside the run: what libraries printed, and the traceback of a failure."""
        return self.runs / f"{self.cell.name}.log"


@dataclass(frozen=True)
class Ending:
    """How a cell ended."""

    succeeded: bool
    reason: str = ""
    skipped: bool = False


class Progress(msgspec.Struct, frozen=True):
    """What the summary of a run tells, for the eye; nothing before its first evaluation."""

    training_steps: int | None = None
    pretraining_steps: int | None = None
    seconds: float | None = None
    hypervolume: float | None = None
    expected_utility: float | None = None

    @property
    def steps(self) -> int:
        """Steps of the budget that are spent, those of pre-training included."""
        return (self.training_steps or 0) + (self.pretraining_steps or 0)


class ResultProgress(msgspec.Struct, frozen=True):
    """What a result file tells of its run, for the eye."""

    found: Progress = Progress()


def find_state(task: Task) -> State:
    """What is there of a cell; refused if it was made with other settings than the sweep asks for.

    A result without its run, as another machine has left it, counts as finished.
    """
    if not (task.run / CONFIG).exists():
        return "finished" if has_result(task) else "new"
    run = load_run(task.run)
    check_same_settings(task, run.config, task.run)
    try:
        return "finished" if is_complete(task, run.summary) else "broken"
    except RunFormatError:
        return "broken"


def has_result(task: Task) -> bool:
    """Whether the result of a finished run is there; one that cannot be read is not."""
    try:
        result = read_result(task.result)
    except RunFormatError:
        return False
    check_same_settings(task, result["config"], task.result)
    return bool(result["finished"])


def is_complete(task: Task, summary: Mapping[str, Any]) -> bool:
    """Whether a run is all that is asked for: its last step, or the time it is given now as when it was made."""
    limit = task.cell.max_seconds
    timed_out = summary.get("stopped") and limit is not None and read_provenance(task).max_seconds == limit
    return bool(summary.get("finished") or timed_out)


def check_same_settings(task: Task, config: Mapping[str, Any], path: Path) -> None:
    """Refuse what has other settings than the cell's; those that a run of an older version lacks do not count."""
    asked = settings_that_count(json.loads(json.dumps(cell_config(task.cell).to_json())))
    found = settings_that_count(config)
    if cell_settings(task.cell).objective_scales is None:  # the run has measured them
        found["objective_scales"] = asked["objective_scales"]
    changes = "; ".join(differences(found, _known_to(found, asked)))
    if changes:
        raise DisagreementError(
            f"{path} holds a run with other settings: {changes}. Put the sweep's settings back, move that "
            f"away, or name other places with --runs and --out"
        )


def _known_to(config: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The settings asked for that a stored config has."""
    return {
        name: _known_to(config[name], value)
        if isinstance(value, dict) and isinstance(config[name], dict)
        else value
        for name, value in asked.items()
        if name in config
    }


def run_task(task: Task) -> Ending:
    """Train or continue a cell and write its result. Only being asked to stop is not an ending."""
    try:
        state = find_state(task)
        if state != "finished":
            train_cell(task, state)
        ensure_result(task)
        return Ending(True, skipped=state == "finished")
    except UcbMoppoError as fault:
        return Ending(False, str(fault))
    except Exception as fault:
        append_to_log(task, traceback.format_exc())
        return Ending(False, f"{type(fault).__name__}: {fault} (the traceback is in {task.log})")


def train_cell(task: Task, state: State) -> None:
    """Continue what has checkpoints; begin anything else anew."""
    if task.run.exists():
        with locked(task.run):  # refused if another process is at it
            pass
    limit, continues = task.cell.max_seconds, state == "broken" and bool(list_checkpoints(task.run))
    if continues:
        # What an earlier limit has ended says so until it has gone on to its end: only then the new limit counts.
        record_provenance(task, continues, read_provenance(task).max_seconds)
        spent = read_progress(task).seconds or 0.0
        resume_run(task.run, Silent(), max_seconds=None if limit is None else max(1.0, limit - spent))
        record_provenance(task, continues, limit)
        return
    record_provenance(task, continues, limit)
    if task.run.exists():
        move_aside(task.run)
    train_run(cell_settings(task.cell), task.run, Silent(), limit)


def move_aside(run: Path) -> None:
    """Keep what is left of a run that cannot be continued, out of the way of the new one."""
    number = 1
    while (aside := run.with_name(f"{run.name}.broken-{number}")).exists():
        number += 1
    run.rename(aside)


def record_provenance(task: Task, continues: bool, limit: float | None) -> None:
    """Note the code, the hardware and the time given; a run continued by other code has been made by both."""
    commit = code_version()
    if continues:
        before = read_provenance(task).commit
        commit = before if before.endswith(commit) else f"{before}, then {commit}"
    task.provenance.parent.mkdir(parents=True, exist_ok=True)
    noted = Provenance(commit, hardware(), limit)
    write_file(task.provenance, dump_json(msgspec.structs.asdict(noted)))


def read_provenance(task: Task) -> Provenance:
    """What was noted when the run was made."""
    with suppress(OSError, ValueError):
        path = task.provenance
        return msgspec.json.decode(read_bytes(path.parent, path.name, MAX_JSON), type=Provenance)
    return UNKNOWN


def ensure_result(task: Task) -> None:
    """Write the result file of a finished run, unless it is there: its commit may be known nowhere else."""
    if not (task.run / CONFIG).exists():
        return  # the result is all there is of it
    result = json.loads(json.dumps(finite_or_none(make_result(load_run(task.run), read_provenance(task)))))
    with suppress(RunFormatError):
        there = read_result(task.result)
        if all(there.get(name) == result[name] for name in result if name not in ("commit", "hardware")):
            return
    write_result(task.result, result)


def append_to_log(task: Task, text: str) -> None:
    with suppress(OSError, UnsafeFileError):
        task.log.parent.mkdir(parents=True, exist_ok=True)
        with open_log(task.log) as file:
            file.write(text.encode())


def read_progress(task: Task) -> Progress:
    """How far a cell's run has come, as its last stage left it."""
    with suppress(OSError, ValueError):
        return msgspec.json.decode(read_bytes(task.run, SUMMARY, MAX_JSON), type=Progress)
    return Progress()


def read_end(task: Task) -> Progress:
    """What a cell that has ended came to: by its run, or by its result where that is all there is of it."""
    if (task.run / CONFIG).exists():
        return read_progress(task)
    with suppress(OSError, ValueError):
        path = task.result
        return msgspec.json.decode(read_bytes(path.parent, path.name, MAX_RESULT), type=ResultProgress).found
    return Progress()


@contextmanager
def printing_to(path: Path) -> Iterator[None]:
    """Send what this process and its libraries print to a file: the terminal belongs to the sweep."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = [os.dup(descriptor) for descriptor in (1, 2)]
    with open_log(path) as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, copy in zip((1, 2), before, strict=True):
            os.dup2(copy, descriptor)
            os.close(copy)


def run_logged(task: Task) -> Ending:
    """``run_task`` in a process of its own, which prints to the cell's log."""
    with printing_to(task.log):
        return run_task(task)
