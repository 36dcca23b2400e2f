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

Growing files (metrics, evaluations) are known to the manifest by the length that the last stage left; what lies
beyond is a line being written. Files that are replaced are known by their new digest and by the one before, so
that a process killed between two renames leaves a run that can be read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ucb_moppo.errors import ConfigError, DamagedFileError, RunFormatError
from ucb_moppo.store.storage import (
    MAX_JSON,
    MAX_TABLE,
    MAX_TENSORS,
    Digest,
    check_format,
    make_digest,
    parse_object,
    read_bytes,
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
        if not isinstance(digests, list) or not digests:
            raise DamagedFileError(f"{path} holds no digest of {name}")
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


def read_file(run: Path, name: str) -> bytes:
    """A file of a run as its manifest knows it; of a growing file, the part that is whole."""
    known = read_manifest(run).files.get(name)
    while True:
        data = read_bytes(run, name, LIMITS[name])
        if known is None:
            return data
        parts = [data[: digest.bytes] if name in GROWING else data for digest in known]
        for part, digest in zip(parts, known, strict=True):
            if make_digest(part) == digest:
                return part
        before, known = known, read_manifest(run).files.get(name)
        if before == known:  # else the run has gone on in between
            return verified(parts[0], before[0], run / name)


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
