"""The run directory: its files, who writes them, and what its manifest vouches for.

    config.json           every setting of the run, decided
    metrics.jsonl         a line per stage
    evaluations.csv       a row per stage and evaluated (policy, weight)
    front.csv             the newest evaluation: policy, weight, return per objective, on the front or not
    policies.safetensors  parameters and statistics of all policies
    policies.json         the problem they are for, and how another method's networks act
    summary.json          what was found and what it cost
    manifest.json         format version, and size and SHA-256 of the files above

These eight are written by ``store/writer.py`` alone. Beside them lie

    checkpoints/          what the run continues from (store/checkpoint.py)
    .lock                 the number of the process that writes the run (store/lock.py)
    front.png             a picture of the front, drawn when training ends
    interpolation.csv     the interpolation study, if `ucb-moppo interpolate` made it
    videos/               episodes the viewer rendered

A stage is committed when its manifest is. Before, its files lie under other names (`.front.csv.next`), synced, and
its lines in growing files (metrics, evaluations) beyond the length that the manifest knows; after, they are
renamed. A reader takes the file that the manifest knows, under whichever of the two names it is, so that a process
killed anywhere leaves all of a stage or nothing of it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ucb_moppo.errors import ConfigError, DamagedFileError, RunFormatError
from ucb_moppo.store.guarded import open_file, read_bytes
from ucb_moppo.store.storage import (
    MAX_JSON,
    MAX_TABLE,
    MAX_TENSORS,
    Digest,
    check_format,
    parse_object,
    verified,
)

CONFIG, METRICS, EVALUATIONS, FRONT, SUMMARY = (
    "config.json",
    "metrics.jsonl",
    "evaluations.csv",
    "front.csv",
    "summary.json",
)
TENSORS, PROBLEM, MANIFEST, PICTURE = "policies.safetensors", "policies.json", "manifest.json", "front.png"
GROWING = (METRICS, EVALUATIONS)
STAGE = (*GROWING, FRONT, TENSORS, SUMMARY)
"""What a stage leaves, all of it or nothing."""
LIMITS = {
    CONFIG: MAX_JSON,
    METRICS: MAX_TABLE,
    EVALUATIONS: MAX_TABLE,
    FRONT: MAX_TABLE,
    SUMMARY: MAX_JSON,
    TENSORS: MAX_TENSORS,
    PROBLEM: MAX_JSON,
}
FORMAT, KIND = 2, "ucb-moppo run"
"""Format 1 had no manifest but the SHA-256 of the policies in policies.json; it is read, not continued."""
MAX_DIGESTS = 2
"""Of a file: one, or in a run of an older version that of the stage before too."""
READ_ATTEMPTS = 20
"""How often a run may go on while it is being read."""


class Manifest(NamedTuple):
    """Format of a run and the digests its files may have; a file that is not listed is not vouched for."""

    format: int
    files: dict[str, list[Digest]]


def read_manifest(run: Path) -> Manifest:
    """The manifest of a run, migrated from format 1 where it is that old."""
    if not os.path.lexists(run / MANIFEST):
        return _first_format(run)
    path = run / MANIFEST
    data = parse_object(read_bytes(run, MANIFEST, MAX_JSON), path)
    if data.get("kind") != KIND:
        raise DamagedFileError(f"{path} is not the manifest of a {KIND}")
    version = check_format(data.get("format"), FORMAT, FORMAT, path, "train again")
    listed = data.get("files")
    if not isinstance(listed, dict) or not set(listed) <= set(LIMITS):
        raise DamagedFileError(f"{path} lists files that a run does not have")
    files = {}
    for name, digests in listed.items():
        if not isinstance(digests, list) or not 1 <= len(digests) <= MAX_DIGESTS:
            raise DamagedFileError(f"{path} does not hold a digest of {name}, or two")
        files[name] = [Digest.from_json(digest, path) for digest in digests]
    return Manifest(version, files)


def _first_format(run: Path) -> Manifest:
    """Format 1: policies.json vouches for the policies, nothing for the rest."""
    if not os.path.lexists(run / PROBLEM):
        return Manifest(1, {})
    path = run / PROBLEM
    data = parse_object(read_bytes(run, PROBLEM, MAX_JSON), path)
    if "sha256" not in data:
        raise DamagedFileError(f"{run / MANIFEST} is missing")
    return Manifest(1, {TENSORS: [Digest.from_json(data, path)]})


def expand_home(path: str | Path) -> Path:
    """A path with the home folder in place of its ``~``; refused where there is no such user."""
    try:
        return Path(path).expanduser()
    except RuntimeError as fault:
        raise ConfigError(
            f"{path} begins with the home folder of a user who is not here; give it in full, or as ./{path}"
        ) from fault


def next_name(name: str) -> str:
    """Where a file lies from before its stage is committed until it is renamed."""
    return f".{name}.next"


def read_files(run: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Files of a run as one manifest knows them; of growing ones, the part that is whole."""
    manifest = read_manifest(run)
    for _ in range(READ_ATTEMPTS):
        try:
            return _read_known(run, names, manifest)
        except RunFormatError:
            before, manifest = manifest, read_manifest(run)
            if manifest == before:  # else the run has gone on in between
                raise
    raise RunFormatError(f"{run} changes faster than it can be read; try again")


def _read_known(run: Path, names: Sequence[str], manifest: Manifest) -> dict[str, bytes]:
    """Files of one stage: the newest, or in a run of an older version all of the one before."""
    try:
        return {name: _read_one(run, name, manifest, 0) for name in names}
    except RunFormatError:
        if all(len(manifest.files.get(name, [])) < MAX_DIGESTS for name in names):
            raise
        with suppress(RunFormatError):
            return {name: _read_one(run, name, manifest, 1) for name in names}
        raise


def _read_one(run: Path, name: str, manifest: Manifest, stage: int) -> bytes:
    """A file with the digest that is listed for a stage, under its own name or the one it has before."""
    if name not in manifest.files:
        if manifest.format == 1:
            return read_bytes(run, name, LIMITS[name])
        raise RunFormatError(f"{run} has no {name} yet: the run has not reached its first evaluation")
    digests = manifest.files[name]
    digest = digests[min(stage, len(digests) - 1)]
    with suppress(RunFormatError):  # first the other name: a file is renamed from there to its own, never back
        return _read_verified(run, next_name(name), name, digest)
    return _read_verified(run, name, name, digest)


def _read_verified(run: Path, place: str, name: str, digest: Digest) -> bytes:
    """The file ``name`` from where it lies; one of another size than its digest says is not even read."""
    with open_file(run, place, LIMITS[name]) as file:
        size = os.fstat(file.fileno()).st_size
        if size < digest.bytes or (size > digest.bytes and name not in GROWING):
            raise DamagedFileError(f"{run / place} has {size:,} bytes; {MANIFEST} says {digest.bytes:,}")
        return verified(file.read(digest.bytes), digest, run / place)


def directory_name(name: str) -> str:
    """The name of a problem or a method as a directory may bear it."""
    return name.replace("/", "-").replace(":", "-")


def fresh_directory(problem: str, method: str, seed: int) -> Path:
    """A directory name that no run has yet: runs/Hopper-v2-ucb-seed0, then -2, -3 and so on."""
    stem = Path("runs") / f"{directory_name(problem)}-{directory_name(method)}-seed{seed}"
    path, number = stem, 2
    while path.exists():
        path, number = stem.with_name(f"{stem.name}-{number}"), number + 1
    return path


def check_holds_run(path: Path) -> None:
    if not (path / CONFIG).is_file():
        raise RunFormatError(f"{path} holds no run: there is no {CONFIG} in it")


def check_directory(path: Path) -> None:
    """Refuse a directory that already holds a run, before anything is trained."""
    if (path / CONFIG).exists():
        raise ConfigError(
            f"{path} already holds a run; choose another --out, continue it with `ucb-moppo resume {path}`, "
            f"or delete it first"
        )
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{path} is a file; --out names a directory")
