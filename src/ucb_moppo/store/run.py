"""The run directory: its files, and the only code that writes them. Reading needs neither JAX nor MuJoCo.

config.json           every setting of the run, decided
metrics.jsonl         a line per stage
evaluations.csv       a row per stage and evaluated (policy, weight)
front.csv             the newest evaluation: policy, weight, return per objective, on the front or not
policies.safetensors  parameters and statistics of all policies
policies.json         the problem they are for, and how another method's networks act
summary.json          what was found and what it cost
manifest.json         format version, and size and SHA-256 of the files above
front.png             a picture of the front
interpolation.csv     the interpolation study, if `ucb-moppo interpolate` made it
videos/               episodes the viewer rendered
checkpoints/          what the run continues from (see checkpoint.py)

Growing files (metrics, evaluations) are known to the manifest by the length that the last stage left; what lies
beyond is a line being written. Files that are replaced are known by their new digest and by the one before, so
that a process killed between two renames leaves a run that can be read.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucb_moppo.errors import ConfigError, DamagedFileError, RunFormatError
from ucb_moppo.objectives.weights import check_weights
from ucb_moppo.policy.networks import OWN, Network
from ucb_moppo.policy.policy import STATISTICS, Policy
from ucb_moppo.spec import EnvSpec
from ucb_moppo.store.policy_file import (
    check_actors,
    load_policy,
    network_to_json,
    read_network,
    read_spec,
    spec_to_json,
)
from ucb_moppo.store.storage import (
    MAX_JSON,
    MAX_TABLE,
    MAX_TENSORS,
    Digest,
    check_format,
    dump_json,
    dump_tensors,
    finite_or_none,
    inside,
    make_digest,
    parse_object,
    parse_rows,
    parse_tensors,
    read_bytes,
    replace_file,
    verified,
    write_synced,
    writing,
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


class Front(NamedTuple):
    """Evaluated (policy, weight) pairs, a row each. All objectives are maximised."""

    policy: NDArray  # [n] index of the policy
    weights: NDArray  # [n, m] what it was conditioned on
    returns: NDArray  # [n, m] mean undiscounted return


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


class Run:
    """A run on disk: what was found, and policies to deploy."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        check_holds_run(self.path)
        self.config: dict[str, Any] = self._json(CONFIG)
        self._tensors: dict[str, NDArray] | None = None
        self._digest = ""

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _read(self, name: str) -> bytes:
        if not os.path.lexists(self.path / name) and name not in read_manifest(self.path).files:
            raise RunFormatError(f"{self.path} has no {name} yet: the run has not reached its first evaluation")
        return read_file(self.path, name)

    def _json(self, name: str) -> dict[str, Any]:
        return parse_object(self._read(name), self.path / name)

    @property
    def summary(self) -> dict[str, Any]:
        """What was found and what it cost (``summary.json``)."""
        return self._json(SUMMARY)

    @property
    def spec(self) -> EnvSpec:
        """The problem that was trained on."""
        return read_spec(self._json(PROBLEM).get("spec"), self.path / PROBLEM)

    @property
    def network(self) -> Network:
        """How the policies' tensors act."""
        return read_network(self._json(PROBLEM), self.path / PROBLEM)

    def metrics(self) -> list[dict[str, Any]]:
        """A dict per stage, from ``metrics.jsonl``."""
        return [parse_object(line, self.path / METRICS) for line in self._read(METRICS).splitlines()]

    def evaluations(self) -> list[dict[str, str]]:
        """The rows of ``evaluations.csv``, one per stage and evaluated pair."""
        return parse_rows(self._read(EVALUATIONS), self.path / EVALUATIONS)

    def rows(self) -> list[dict[str, str]]:
        """The rows of ``front.csv`` as they stand."""
        return parse_rows(self._read(FRONT), self.path / FRONT)

    def evaluated(self) -> Front:
        """All evaluated pairs, on the front or not."""
        return front_from_rows(self.rows())

    def front(self) -> Front:
        """The non-dominated pairs: weights, returns and policy index."""
        return front_from_rows([row for row in self.rows() if row.get("on_front") == "true"])

    def policy(self, preference: ArrayLike, conditioning: str = "preference") -> Policy:
        """The policy whose evaluated utility is best for ``preference``, conditioned on it.

        With ``conditioning="evaluated"`` it is conditioned on the evaluated weight that won instead, so that it
        does exactly what ``expected_returns`` says even where another sub-space's policy serves you best.
        """
        if conditioning not in ("preference", "evaluated"):
            raise ConfigError(f"conditioning is {conditioning!r}; choose 'preference' or 'evaluated'")
        everything = self.evaluated()
        weight = check_weights(preference, everything.weights.shape[1])
        policy = self.evaluated_policy(best_row(everything, weight))
        return policy if conditioning == "evaluated" else dataclasses.replace(policy, weight=weight)

    def evaluated_policy(self, row: int) -> Policy:
        """The policy of one row of ``evaluated()``, conditioned on that row's weight."""
        everything, tensors = self.evaluated(), self.tensors()
        if not 0 <= row < len(everything.policy):
            raise ConfigError(f"row {row} is not one of the {len(everything.policy)} evaluated pairs")
        index = int(everything.policy[row])
        spec = self.spec
        if not 0 <= index < len(tensors[STATISTICS[0]]) or everything.weights.shape[1] != spec.num_objectives:
            raise RunFormatError(
                f"{self.path / FRONT} does not fit {TENSORS}: its row {row} is about policy {index} and "
                f"{everything.weights.shape[1]} objectives"
            )
        return Policy(
            spec=spec,
            index=index,
            weight=everything.weights[row],
            expected_returns=everything.returns[row],
            tensors={n: a[index] for n, a in tensors.items() if n.startswith("actor.") or n in STATISTICS},
            network=self.network,
        )

    def digest(self) -> str:
        """SHA-256 of the policies: of those that ``tensors`` has read, otherwise of those on disk.

        Not as the manifest has it, which knows of new policies before they are there.
        """
        return self._digest or make_digest(self._read(TENSORS)).sha256

    def tensors(self) -> dict[str, NDArray]:
        """Parameters and statistics of all policies, with a leading axis over policies."""
        if self._tensors is None:
            path, data = self.path / TENSORS, self._read(TENSORS)
            tensors = parse_tensors(data, path)[1]
            if not tensors or len({array.shape[:1] for array in tensors.values()} - {()}) != 1:
                raise RunFormatError(f"{path} does not hold the same number of policies in every array")
            check_actors(self.spec, self.network, tensors, path)
            self._tensors, self._digest = tensors, make_digest(data).sha256
        return self._tensors


def best_row(evaluated: Front, preference: NDArray) -> int:
    """The evaluated pair with the highest utility for a preference [m]; failed evaluations never win."""
    finite = np.isfinite(evaluated.returns).all(1)
    if not finite.any():
        raise RunFormatError("no policy of the run has a finite return: nothing can be chosen")
    return int(np.argmax(np.where(finite, evaluated.returns @ preference, -np.inf)))


def load(path: str | Path) -> Run | Policy:
    """A run from its directory, or a policy from the file ``Policy.save`` wrote. Executes nothing."""
    path = Path(path)
    if path.is_dir():
        return Run(path)
    if path.is_file():
        return load_policy(path)
    raise RunFormatError(f"{path} does not exist; give a run directory or a policy file")


def load_run(path: str | Path) -> Run:
    """A run from its directory."""
    run = load(path)
    if isinstance(run, Policy):
        raise RunFormatError(f"{path} is a single policy; give the directory of a run")
    return run


def fresh_directory(problem: str, method: str, seed: int, root: str | Path = "runs") -> Path:
    """A directory name that no run has yet: runs/Hopper-v2-ucb-seed0, then -2, -3 and so on."""
    stem = f"{problem.replace('/', '-').replace(':', '-')}-{method}-seed{seed}"
    path, number = Path(root) / stem, 2
    while path.exists():
        path, number = Path(root) / f"{stem}-{number}", number + 1
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


class RunWriter:
    """Writes one run, file by file; a reader at any time sees whole files. The caller holds the run's lock.

    Growing files are cut back to ``lengths``, which they had at the checkpoint that the run continues from.
    """

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Any],
        spec: EnvSpec,
        lengths: Mapping[str, Digest] = MappingProxyType({}),
        network: Network = OWN,
    ) -> None:
        self.path = path
        self._growing = {name: (0, hashlib.sha256()) for name in GROWING}
        self._known = self._files_on_disk()
        self._cut_back(lengths)
        problem = {"format": FORMAT, "spec": spec_to_json(spec), **network_to_json(network)}
        self._replace({PROBLEM: dump_json(problem), CONFIG: dump_json(config)})

    def _files_on_disk(self) -> dict[str, list[Digest]]:
        """What the manifest knows of replaced files: of an old and a new digest, the one that is there."""
        try:
            listed = read_manifest(self.path).files
        except DamagedFileError:
            return {}  # derived from the files, and about to be written again
        known = {}
        for name in sorted(set(listed) - set(GROWING)):
            there = make_digest(read_bytes(self.path, name, LIMITS[name])) if (self.path / name).exists() else None
            known[name] = [digest for digest in listed[name] if digest == there] or listed[name]
        return known

    def _cut_back(self, lengths: Mapping[str, Digest]) -> None:
        """Drop what was appended after the checkpoint; the manifest lets go of it first."""
        for name in GROWING:
            length = lengths[name].bytes if name in lengths else 0
            data = read_bytes(self.path, name, MAX_TABLE)[:length] if length else b""
            self._growing[name] = (len(data), hashlib.sha256(data))
        self._write_manifest()
        for name, (length, _) in self._growing.items():
            path = inside(self.path, name)
            if path.exists():
                with writing(path):
                    os.truncate(path, length)

    def lengths(self) -> dict[str, Digest]:
        """Size and SHA-256 of the growing files as they stand."""
        return {name: Digest(size, sha.hexdigest()) for name, (size, sha) in self._growing.items()}

    def write_stage(
        self,
        stage: int,
        metrics: Mapping[str, Any],
        weights: NDArray,
        returns: NDArray,
        tensors: Mapping[str, NDArray],
        summary: Mapping[str, Any],
    ) -> None:
        """Everything a stage leaves: weights, returns [K, W, m] of its evaluation, all policies, the numbers."""
        self._append(METRICS, (json.dumps(finite_or_none(metrics), allow_nan=False) + "\n").encode())
        header = ["stage", *_front_header(weights.shape[-1])]
        rows = [[stage, *row] for row in _front_rows(weights, returns)]
        new = not self._growing[EVALUATIONS][0]
        self._append(EVALUATIONS, _table([header, *rows] if new else rows))
        self._replace(
            {
                FRONT: front_table(weights, returns),
                TENSORS: dump_tensors(tensors),
                SUMMARY: dump_json(finite_or_none(summary)),
            }
        )

    def _append(self, name: str, data: bytes) -> None:
        path = inside(self.path, name)
        with writing(path):
            write_synced(path, data, os.O_APPEND)
        size, sha = self._growing[name]
        sha.update(data)
        self._growing[name] = (size + len(data), sha)

    def _replace(self, files: Mapping[str, bytes]) -> None:
        """Replace files. Old and new are both known to the manifest until the next time."""
        for name, data in files.items():
            self._known[name] = [make_digest(data), *self._known.get(name, [])[:1]]
        self._write_manifest()
        for name, data in files.items():
            replace_file(inside(self.path, name), data)

    def _write_manifest(self) -> None:
        growing = {name: [digest] for name, digest in self.lengths().items() if digest.bytes}
        listed = {
            name: [digest.to_json() for digest in digests] for name, digests in (self._known | growing).items()
        }
        replace_file(self.path / MANIFEST, dump_json({"format": FORMAT, "kind": KIND, "files": listed}))


def write_front(path: Path, weights: NDArray, returns: NDArray) -> None:
    """A front's table in a file: weights, returns [K, W, m]."""
    replace_file(path, front_table(weights, returns))


def front_table(weights: NDArray, returns: NDArray) -> bytes:
    """Rows of a front's table: weights, returns [K, W, m], and which are on the front."""
    from ucb_moppo.objectives.pareto import nondominated  # writing only: reading a run needs no moocore

    on_front = nondominated(returns.reshape(-1, returns.shape[-1]))
    rows = zip(_front_rows(weights, returns), on_front, strict=True)
    header = [*_front_header(weights.shape[-1]), "on_front"]
    marked = [[*row, "true" if on else "false"] for row, on in rows]
    return _table([header, *marked])


def _table(rows: Iterable[Iterable[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _front_header(num_objectives: int) -> list[str]:
    numbers = range(1, num_objectives + 1)
    return ["policy", *(f"weight_{j}" for j in numbers), *(f"return_{j}" for j in numbers)]


def _front_rows(weights: NDArray, returns: NDArray) -> Iterable[list[Any]]:
    """[policy, weights…, returns…] for weights, returns [K, W, m]; floats in full precision."""
    for k in range(weights.shape[0]):
        for weight, values in zip(weights[k], returns[k], strict=True):
            yield [k, *map(float, weight), *map(float, values)]


def front_from_rows(rows: Sequence[Mapping[str, str]]) -> Front:
    """Rows of a front or evaluations table -> arrays."""
    num_objectives = sum(name.startswith("weight_") for name in rows[0]) if rows else 2

    def columns(prefix: str) -> NDArray:
        names = [f"{prefix}_{j}" for j in range(1, num_objectives + 1)]
        return np.array([[float(row[n]) for n in names] for row in rows]).reshape(len(rows), num_objectives)

    try:
        return Front(np.array([int(row["policy"]) for row in rows], int), columns("weight"), columns("return"))
    except (KeyError, ValueError, TypeError, OverflowError) as fault:
        raise RunFormatError(f"a front's table has a row that cannot be read: {fault!r}") from fault
