"""Checkpoints: the whole state of a run at one iteration, committed or not there.

    RUN/checkpoints/00000040-0003/   (iteration 40, after 3 evaluations)
      state.safetensors   parameters, optimiser, statistics, keys, environments, evaluations so far
      state.json          config, problem and versions it was saved with; how long the growing files were
      manifest.json       format version, and size and SHA-256 of the two

A checkpoint is written in a directory of another name, synced and renamed; the last two good ones are kept.
Directories whose names start with a dot are debris of a process that was killed.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from numpy.typing import NDArray

from ucb_moppo.errors import DamagedFileError, FormatVersionError, RunFormatError, UcbMoppoWarning
from ucb_moppo.store.guarded import Folder, list_folder, open_folder, read_bytes, writing
from ucb_moppo.store.storage import (
    MAX_JSON,
    MAX_TABLE,
    MAX_TENSORS,
    Digest,
    check_format,
    dump_json,
    dump_tensors,
    make_digest,
    parse_object,
    parse_tensors,
    verified,
)

DIRECTORY, STATE, FACTS, MANIFEST = "checkpoints", "state.safetensors", "state.json", "manifest.json"
LIMITS = {STATE: MAX_TENSORS, FACTS: MAX_JSON}
FORMAT, KIND, NUM_KEPT = 1, "ucb-moppo checkpoint", 2
NAME = re.compile(r"(\d{8,})-(\d{4,})", re.ASCII)
MAX_SHARE = 0.02
"""Of a run's time that saving at the end of stages may take; where it would take more, stages are left out."""


class Checkpoint(NamedTuple):
    """What a run continues from."""

    name: str
    """Iteration and number of evaluations so far: sorts by age, and is the same in an uninterrupted run."""
    tensors: dict[str, NDArray]
    """The trainer's state."""
    facts: dict[str, Any]
    """``config``, ``spec`` and ``versions`` to hold against today's; ``lengths`` of the growing files."""

    def lengths(self) -> dict[str, Digest]:
        """Size and SHA-256 that the growing files had."""
        path, found = Path(FACTS), self.facts.get("lengths")
        if not isinstance(found, dict):
            raise DamagedFileError(f"{FACTS} of checkpoint {self.name} holds no lengths")
        return {name: Digest.from_json(digest, path) for name, digest in found.items()}


# --- writing -----------------------------------------------------------------------------------------------


def write_checkpoint(run: Path, checkpoint: Checkpoint) -> Path:
    """Commit a checkpoint of the run and let go of those before the last two good ones."""
    name, aside = checkpoint.name, f".{checkpoint.name}.tmp"
    files = {STATE: dump_tensors(checkpoint.tensors), FACTS: dump_json(checkpoint.facts)}
    manifest = {
        "format": FORMAT,
        "kind": KIND,
        "files": {name: make_digest(data).to_json() for name, data in files.items()},
    }
    path = run / DIRECTORY / name
    with writing(path), open_checkpoints(run) as parent:
        try:
            write_folder(parent, aside, files | {MANIFEST: dump_json(manifest)})
            discard(parent, name)  # one of this name was damaged, and the run fell back past it
            parent.rename(aside, name)
            parent.sync()
        except OSError:
            discard(parent, aside)
            raise
        for old in superfluous(run, name):
            discard(parent, old)
    return path


@contextmanager
def open_checkpoints(run: Path) -> Iterator[Folder]:
    """Open the folder of a run's checkpoints, which is made if need be."""
    with open_folder(run) as folder:
        folder.make_folder(DIRECTORY)
        with folder.folder(DIRECTORY) as parent:
            yield parent


def write_folder(parent: Folder, name: str, files: Mapping[str, bytes]) -> None:
    """Write a folder of files in the place of whatever has its name, and wait until it is on the disk."""
    parent.remove(name)
    parent.make_folder(name)
    with parent.folder(name) as folder:
        for file, data in files.items():
            folder.write_new(file, data)
        folder.sync()


def superfluous(run: Path, newest: str) -> list[str]:
    """Checkpoints that are older than two good ones, of which ``newest`` has just been written."""
    names, num_good = list_checkpoints(run), 0
    for place, name in enumerate(names):
        if num_good == NUM_KEPT:
            return names[place:]
        # A damaged one does not count: it would leave a single one to fall back on.
        num_good += name == newest or (len(names) > NUM_KEPT and is_intact(run, name))
    return []


def is_intact(run: Path, name: str) -> bool:
    """Whether every byte of a checkpoint is as its manifest says."""
    try:
        read_files(run, name)
    except RunFormatError:
        return False
    return True


def discard(parent: Folder, name: str) -> None:
    """Delete a checkpoint; a kill in the middle leaves debris, never half a checkpoint under its name."""
    if parent.status(name) is not None and not name.startswith("."):
        debris = f".{name}.old"
        parent.remove(debris)
        parent.rename(name, debris)
        name = debris
    parent.remove(name)


def clean_debris(run: Path) -> None:
    """Delete what a killed process left behind. The caller holds the run's lock."""
    with writing(run), open_folder(run) as folder:
        for name in folder.names():
            if name.startswith(".") and name.endswith(".tmp"):
                folder.remove(name)
        if folder.status(DIRECTORY) is not None:
            with folder.folder(DIRECTORY) as parent:
                for name in parent.names():
                    if name.startswith("."):
                        parent.remove(name)


# --- reading -----------------------------------------------------------------------------------------------


def checkpoint_name(iteration: int, num_evaluations: int) -> str:
    return f"{iteration:08d}-{num_evaluations:04d}"


def list_checkpoints(run: Path) -> list[str]:
    """Names of all checkpoints, newest first."""
    found = [match for match in map(NAME.fullmatch, list_folder(run, DIRECTORY)) if match]
    return [match[0] for match in sorted(found, key=lambda match: (int(match[1]), int(match[2])), reverse=True)]


def read_files(run: Path, name: str) -> dict[str, bytes]:
    """The files of one checkpoint, every byte of them verified."""
    where = f"{DIRECTORY}/{name}"
    path = run / where / MANIFEST
    manifest = parse_object(read_bytes(run, f"{where}/{MANIFEST}", MAX_JSON), path)
    if manifest.get("kind") != KIND:
        raise DamagedFileError(f"{path} is not the manifest of a {KIND}")
    check_format(manifest.get("format"), FORMAT, FORMAT, path, "resume with the version that wrote it")
    listed = manifest.get("files")
    if not isinstance(listed, dict) or set(listed) != set(LIMITS):
        raise DamagedFileError(f"{path} does not list just {' and '.join(LIMITS)}")
    files = {}
    for file, limit in LIMITS.items():
        data = read_bytes(run, f"{where}/{file}", limit)
        files[file] = verified(data, Digest.from_json(listed[file], path), path.with_name(file))
    return files


def read_checkpoint(run: Path, name: str) -> Checkpoint:
    """One checkpoint, every byte of it verified."""
    files, place = read_files(run, name), run / DIRECTORY / name
    _, tensors = parse_tensors(files[STATE], place / STATE)
    return Checkpoint(name, tensors, parse_object(files[FACTS], place / FACTS))


def check_lengths(run: Path, lengths: Mapping[str, Digest]) -> None:
    """Refuse growing files that do not begin with what they held when the checkpoint was saved."""
    for name, digest in lengths.items():
        if digest.bytes:
            verified(read_bytes(run, name, MAX_TABLE, digest.bytes), digest, run / name)


def find_checkpoint(run: Path) -> Checkpoint | None:
    """The newest good checkpoint, with a warning for every one that is not; None if there has never been one."""
    faults = []
    for name in list_checkpoints(run):
        try:
            checkpoint = read_checkpoint(run, name)
            check_lengths(run, checkpoint.lengths())
            return checkpoint
        except FormatVersionError:
            raise
        except RunFormatError as fault:
            faults.append(str(fault))
            message = f"checkpoint {name} cannot be used: {fault}; trying the one before"
            warnings.warn(message, UcbMoppoWarning, stacklevel=2)
    if faults:
        raise DamagedFileError(
            f"{run} has no good checkpoint left: {'; '.join(faults)}; restore the files or train again"
        )
    return None


# --- when --------------------------------------------------------------------------------------------------


@dataclass
class Checkpointer:
    """Saves at safe points, when it is time to."""

    save: Callable[[], None]
    stages: int
    """Stages from one checkpoint to the next; more where saving would take more than MAX_SHARE of the time."""
    seconds: float
    """Save inside a stage too when the last checkpoint is this old."""
    stage: int = 0
    cost: float = field(default=0.0, init=False)
    """Seconds that saving has taken so far."""

    def __post_init__(self) -> None:
        self._saved_at, self._last_cost = perf_counter(), 0.0

    def now(self) -> None:
        """Save, and remember what it cost."""
        start = perf_counter()
        self.save()
        self._saved_at = perf_counter()
        self._last_cost = self._saved_at - start
        self.cost += self._last_cost

    def after_iteration(self) -> None:
        if perf_counter() - self._saved_at >= self.seconds:
            self.now()

    def after_stage(self, stage: int) -> None:
        affordable = self._last_cost <= MAX_SHARE * (perf_counter() - self._saved_at)
        if stage - self.stage >= self.stages and affordable:
            self.now()
            self.stage = stage
