"""Writing a run: a stage replaces files and adds to others, committed by the manifest that vouches for them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.errors import DamagedFileError, RunFormatError
from ucb_moppo.objectives.pareto import nondominated
from ucb_moppo.policy.networks import PAPER_NETWORK, Network
from ucb_moppo.spec import EnvSpec
from ucb_moppo.store.guarded import append_file, open_folder, read_bytes, replace_file, write_file, writing
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
    next_name,
    read_manifest,
)
from ucb_moppo.store.policy_file import network_to_json, spec_to_json
from ucb_moppo.store.storage import (
    MAX_TABLE,
    Digest,
    dump_json,
    dump_tensors,
    finite_or_none,
    make_digest,
)


class RunWriter:
    """Writes one run stage by stage; a reader at any time sees one of them whole. The caller holds the run's lock.

    ``lengths`` are those that the growing files had at the checkpoint that the run continues from. What has come
    after it stays until the first new stage takes its place.
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
        self._listed = self._read_listed()
        self._settle()
        self._growing = {name: self._begin(name, lengths) for name in GROWING}
        problem = {"format": FORMAT, "spec": spec_to_json(spec), **network_to_json(network)}
        self._commit({PROBLEM: dump_json(problem), CONFIG: dump_json(config)})

    def _read_listed(self) -> dict[str, list[Digest]]:
        """What the manifest knows; nothing if it is damaged, because it is made of the files."""
        try:
            return read_manifest(self.path).files
        except DamagedFileError:
            return {}

    def _settle(self) -> None:
        """Rename what a killed process has committed and not renamed, and drop what it has not committed."""
        with writing(self.path), open_folder(self.path) as folder:
            for name in LIMITS:
                if self._is_committed(name):
                    folder.rename(next_name(name), name)
                else:
                    folder.remove(next_name(name))

    def _is_committed(self, name: str) -> bool:
        """Whether what lies under a file's other name is what the manifest knows."""
        with suppress(RunFormatError):  # nothing does, or something that is no file
            return make_digest(read_bytes(self.path, next_name(name), LIMITS[name])) in self._listed.get(name, [])
        return False

    def _begin(self, name: str, lengths: Mapping[str, Digest]) -> GrowingFile:
        """A growing file as the checkpoint knows it, with what the manifest still shows of it."""
        length = lengths[name].bytes if name in lengths else 0
        data = self._read_beginning(name, length)
        shown = self._listed[name][0].bytes if name in self._listed else 0
        return GrowingFile(len(data), hashlib.sha256(data), shown > len(data))

    def _read_beginning(self, name: str, length: int) -> bytes:
        return read_bytes(self.path, name, MAX_TABLE, length) if length else b""

    def lengths(self) -> dict[str, Digest]:
        """Size and SHA-256 of the growing files as they stand."""
        return {name: file.digest() for name, file in self._growing.items()}

    def write_stage(
        self,
        stage: int,
        metrics: Mapping[str, Any],
        weights: NDArray,
        returns: NDArray,
        tensors: Mapping[str, NDArray],
        summary: Mapping[str, Any],
        front: bytes | None = None,
        outcomes: NDArray | None = None,
    ) -> None:
        """Everything a stage leaves: weights, returns [K, W, m] of its evaluation, all policies, the numbers.

        ``front`` is the table of a front that was measured otherwise, at the end of a run; ``outcomes``
        [K, W, E, m] are what a utility that is not linear is taken of.
        """
        header = ["stage", *_front_header(weights.shape[-1])]
        rows = [[stage, *row] for row in _front_rows(weights, returns)]
        new = not self._growing[EVALUATIONS].size
        self._commit(
            {
                **self._grow(METRICS, (json.dumps(finite_or_none(metrics), allow_nan=False) + "\n").encode()),
                **self._grow(EVALUATIONS, _to_csv([header, *rows] if new else rows)),
                FRONT: front_csv(weights, returns, None, outcomes) if front is None else front,
                TENSORS: dump_tensors(tensors),
                SUMMARY: dump_json(finite_or_none(summary)),
            }
        )

    def write_end(self, summary: Mapping[str, Any], front: bytes) -> None:
        """Replace what the newest stage says of the run and its front: the run has ended with it."""
        self._commit({FRONT: front, SUMMARY: dump_json(finite_or_none(summary))})

    def _grow(self, name: str, data: bytes) -> dict[str, bytes]:
        """Add to a growing file: behind all that is shown of it, or else in a copy, which is returned."""
        file = self._growing[name]
        self._growing[name] = file.grown(data)
        if file.shows_more:
            return {name: self._read_beginning(name, file.size) + data}
        append_file(self.path, name, data, file.size)
        self._listed[name] = [self._growing[name].digest()]
        return {}

    def _commit(self, files: Mapping[str, bytes]) -> None:
        """Show files, and what has been appended, all at once: when the manifest that knows them is renamed."""
        with writing(self.path), open_folder(self.path) as folder:
            for name, data in files.items():
                with writing(self.path / name):
                    folder.write_new(next_name(name), data)
                self._listed[name] = [make_digest(data)]
            folder.sync()
            self._write_manifest()
            for name in files:
                folder.rename(next_name(name), name)
            folder.sync()

    def _write_manifest(self) -> None:
        listed = {name: [digest.to_json() for digest in digests] for name, digests in self._listed.items()}
        replace_file(self.path, MANIFEST, dump_json({"format": FORMAT, "kind": KIND, "files": listed}))


class GrowingFile(NamedTuple):
    """A file that lines are added to, as far as this run has written it."""

    size: int
    sha: Any
    shows_more: bool = False
    """Whether readers still see lines that came after the checkpoint, which must not change under them."""

    def grown(self, data: bytes) -> GrowingFile:
        sha = self.sha.copy()
        sha.update(data)
        return GrowingFile(self.size + len(data), sha)

    def digest(self) -> Digest:
        return Digest(self.size, self.sha.hexdigest())


class Reported(NamedTuple):
    """What the members of a front were measured at, from initial states that nothing was chosen by."""

    members: NDArray  # [K, W] which of the evaluated pairs
    returns: NDArray  # [n, m]
    errors: NDArray  # [n, m] standard errors


def write_front(
    path: Path,
    weights: NDArray,
    returns: NDArray,
    reported: Reported | None = None,
    outcomes: NDArray | None = None,
) -> None:
    """A front's table in a file: weights, returns [K, W, m], and what its members were measured at."""
    write_file(path, front_csv(weights, returns, reported, outcomes))


def front_csv(
    weights: NDArray, returns: NDArray, reported: Reported | None = None, outcomes: NDArray | None = None
) -> bytes:
    """A front's table: weights, returns [K, W, m], and which are on the front.

    Where the front was measured at held-out initial states, these are its returns, with their standard errors; the
    returns that its members were chosen by stand behind. So do the episodes, where several ``outcomes``
    [K, W, E, m] are what a utility is taken of.
    """
    table = _front_table(weights, returns, reported)
    if outcomes is not None and outcomes.shape[2] > 1:
        count, num_objectives = outcomes.shape[2:]
        names = [f"episode{e}_{j}" for e in range(1, count + 1) for j in range(1, num_objectives + 1)]
        behind = [names, *outcomes.reshape(-1, count * num_objectives).tolist()]
        table = [[*row, *more] for row, more in zip(table, behind, strict=True)]
    return _to_csv(table)


def _front_table(weights: NDArray, returns: NDArray, reported: Reported | None) -> list[list[Any]]:
    """The rows of the table, its header first."""
    num_objectives = weights.shape[-1]
    header = [*_front_header(num_objectives), "on_front"]
    on_front = nondominated(returns.reshape(-1, num_objectives))
    if reported is None:
        marked = [[*row, _yes(on)] for row, on in zip(_front_rows(weights, returns), on_front, strict=True)]
        return [header, *marked]
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
    rows = [[*row, _yes(on), *map(float, error), *map(float, chosen_by)] for row, on, error, chosen_by in columns]
    return [header, *rows]


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
