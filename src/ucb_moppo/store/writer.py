"""Writing a run: files replaced whole or grown line by line, and the manifest that vouches for them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.errors import DamagedFileError
from ucb_moppo.objectives.pareto import nondominated
from ucb_moppo.policy.networks import PAPER_NETWORK, Network
from ucb_moppo.spec import EnvSpec
from ucb_moppo.store.layout import (
    CONFIG,
    EVALUATIONS,
    FORMAT,
    FRONT,
    GROWING,
    KIND,
    LIMITS,
    MANIFEST,
    METRICS,
    PROBLEM,
    SUMMARY,
    TENSORS,
    read_manifest,
)
from ucb_moppo.store.policy_file import network_to_json, spec_to_json
from ucb_moppo.store.storage import (
    MAX_TABLE,
    Digest,
    dump_json,
    dump_tensors,
    finite_or_none,
    inside,
    make_digest,
    read_bytes,
    replace_file,
    write_synced,
    writing,
)


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
        network: Network = PAPER_NETWORK,
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
        front: bytes | None = None,
    ) -> None:
        """Everything a stage leaves: weights, returns [K, W, m] of its evaluation, all policies, the numbers.

        ``front`` is the table of a front that was measured otherwise, at the end of a run.
        """
        self._append(METRICS, (json.dumps(finite_or_none(metrics), allow_nan=False) + "\n").encode())
        header = ["stage", *_front_header(weights.shape[-1])]
        rows = [[stage, *row] for row in _front_rows(weights, returns)]
        new = not self._growing[EVALUATIONS][0]
        self._append(EVALUATIONS, _to_csv([header, *rows] if new else rows))
        self._replace(
            {
                FRONT: front_csv(weights, returns) if front is None else front,
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


class Reported(NamedTuple):
    """What the members of a front were measured at, from initial states that nothing was chosen by."""

    members: NDArray  # [K, W] which of the evaluated pairs
    returns: NDArray  # [n, m]
    errors: NDArray  # [n, m] standard errors


def write_front(path: Path, weights: NDArray, returns: NDArray, reported: Reported | None = None) -> None:
    """A front's table in a file: weights, returns [K, W, m], and what its members were measured at."""
    replace_file(path, front_csv(weights, returns, reported))


def front_csv(weights: NDArray, returns: NDArray, reported: Reported | None = None) -> bytes:
    """A front's table: weights, returns [K, W, m], and which are on the front.

    Where the front was measured at held-out initial states, these are its returns, with their standard errors; the
    returns that its members were chosen by stand behind.
    """
    num_objectives = weights.shape[-1]
    header = [*_front_header(num_objectives), "on_front"]
    on_front = nondominated(returns.reshape(-1, num_objectives))
    if reported is None:
        marked = [[*row, _yes(on)] for row, on in zip(_front_rows(weights, returns), on_front, strict=True)]
        return _to_csv([header, *marked])
    shown, errors = returns.copy(), np.full(returns.shape, np.nan)
    shown[reported.members], errors[reported.members] = reported.returns, reported.errors
    numbers = range(1, num_objectives + 1)
    header += [*(f"error_{j}" for j in numbers), *(f"selection_{j}" for j in numbers)]
    columns = zip(
        _front_rows(weights, shown),
        on_front,
        errors.reshape(-1, num_objectives),
        returns.reshape(-1, num_objectives),
        strict=True,
    )
    rows = [
        [*row, _yes(on), *("" if np.isnan(x) else float(x) for x in error), *map(float, chosen_by)]
        for row, on, error, chosen_by in columns
    ]
    return _to_csv([header, *rows])


def _yes(value: bool) -> str:
    return "true" if value else "false"


def _front_header(num_objectives: int) -> list[str]:
    numbers = range(1, num_objectives + 1)
    return ["policy", *(f"weight_{j}" for j in numbers), *(f"return_{j}" for j in numbers)]


def _front_rows(weights: NDArray, returns: NDArray) -> Iterable[list[Any]]:
    """[policy, weights…, returns…] for weights, returns [K, W, m]; floats in full precision."""
    for k in range(weights.shape[0]):
        for weight, values in zip(weights[k], returns[k], strict=True):
            yield [k, *map(float, weight), *map(float, values)]


def _to_csv(rows: Iterable[Iterable[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
