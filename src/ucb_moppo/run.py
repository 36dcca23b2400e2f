"""The run directory: its files, and the only code that writes them. Reading needs neither JAX nor MuJoCo.

config.json           every setting of the run, decided
metrics.jsonl         a line per stage
evaluations.csv       a row per stage and evaluated (policy, weight)
front.csv             the newest evaluation: policy, weight, return per objective, on the front or not
policies.safetensors  parameters and statistics of all policies
policies.json         manifest of the former: problem, size, SHA-256
summary.json          what was found and what it cost
front.png             a picture of the front
interpolation.csv     the interpolation study, if `ucb-moppo interpolate` made it
videos/               episodes the viewer rendered
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors.numpy import save

from ucb_moppo.envs.base import EnvSpec
from ucb_moppo.errors import ConfigError, RunFormatError
from ucb_moppo.policy import (
    FORMAT,
    STATISTICS,
    Policy,
    load_policy,
    read_tensors,
    spec_from_json,
    spec_to_json,
)
from ucb_moppo.weights import check_weights

CONFIG, METRICS, EVALUATIONS, FRONT, SUMMARY = (
    "config.json",
    "metrics.jsonl",
    "evaluations.csv",
    "front.csv",
    "summary.json",
)
TENSORS, MANIFEST, PICTURE = "policies.safetensors", "policies.json", "front.png"


class Front(NamedTuple):
    """Evaluated (policy, weight) pairs, a row each. All objectives are maximised."""

    policy: NDArray  # [n] index of the policy
    weights: NDArray  # [n, m] what it was conditioned on
    returns: NDArray  # [n, m] mean undiscounted return


class Run:
    """A run on disk: what was found, and policies to deploy."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not (self.path / CONFIG).is_file():
            raise RunFormatError(f"{self.path} holds no run: there is no {CONFIG} in it")
        self.config: dict[str, Any] = self._json(CONFIG)
        self._tensors: dict[str, NDArray] | None = None

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _json(self, name: str) -> Any:
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunFormatError(
                f"{self.path} has no {name} yet: the run has not reached its first evaluation"
            ) from None
        except (OSError, ValueError) as fault:
            raise RunFormatError(f"{self.path / name} cannot be read as JSON: {fault}") from fault

    @property
    def summary(self) -> dict[str, Any]:
        """What was found and what it cost (``summary.json``)."""
        return self._json(SUMMARY)

    @property
    def spec(self) -> EnvSpec:
        """The problem that was trained on."""
        return spec_from_json(self._json(MANIFEST)["spec"])

    def metrics(self) -> list[dict[str, Any]]:
        """A dict per stage, from ``metrics.jsonl``."""
        lines = (self.path / METRICS).read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def rows(self) -> list[dict[str, str]]:
        """The rows of ``front.csv`` as they stand."""
        return _read_rows(self.path / FRONT)

    def evaluated(self) -> Front:
        """All evaluated pairs, on the front or not."""
        return front_from_rows(self.rows())

    def front(self) -> Front:
        """The non-dominated pairs: weights, returns and policy index."""
        return front_from_rows([row for row in self.rows() if row["on_front"] == "true"])

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
        everything = self.evaluated()
        if not 0 <= row < len(everything.policy):
            raise ConfigError(f"row {row} is not one of the {len(everything.policy)} evaluated pairs")
        index = int(everything.policy[row])
        return Policy(
            spec=self.spec,
            index=index,
            weight=everything.weights[row],
            expected_returns=everything.returns[row],
            tensors={n: a[index] for n, a in self.tensors().items() if n.startswith("actor.") or n in STATISTICS},
        )

    def digest(self) -> str:
        """SHA-256 of the policies as the manifest has it: changes when they learn."""
        return str(self._json(MANIFEST).get("sha256", ""))

    def tensors(self) -> dict[str, NDArray]:
        """Parameters and statistics of all policies, with a leading axis over policies."""
        if self._tensors is None:
            manifest = self._json(MANIFEST)
            path = self.path / TENSORS
            found = hashlib.sha256(path.read_bytes()).hexdigest()
            if found != manifest.get("sha256"):
                raise RunFormatError(f"{path} does not match its manifest (SHA-256 {found}); it is damaged")
            self._tensors = read_tensors(path)[1]
        return self._tensors


def best_row(evaluated: Front, preference: NDArray) -> int:
    """The evaluated pair with the highest utility for a preference [m]; failed evaluations never win."""
    finite = np.isfinite(evaluated.returns).all(1)
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


def check_directory(path: Path) -> None:
    """Refuse a directory that already holds a run, before anything is trained."""
    if (path / CONFIG).exists():
        raise ConfigError(f"{path} already holds a run; choose another --out, or delete it first")
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{path} is a file; --out names a directory")


class RunWriter:
    """Writes one run, file by file; a reader at any time sees whole files."""

    def __init__(self, path: str | Path, config: Mapping[str, Any], spec: EnvSpec) -> None:
        self.path, self.spec = Path(path), spec
        check_directory(self.path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._write_json(CONFIG, config)

    def append_metrics(self, line: Mapping[str, Any]) -> None:
        """One stage's line."""
        with (self.path / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")

    def append_evaluations(self, stage: int, weights: NDArray, returns: NDArray) -> None:
        """A row per (policy, weight) of a stage: weights, returns [K, W, m]."""
        path = self.path / EVALUATIONS
        new = not path.exists()
        with path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if new:
                writer.writerow(["stage", *_front_header(weights.shape[-1])])
            writer.writerows([stage, *row] for row in _front_rows(weights, returns))

    def write_front(self, weights: NDArray, returns: NDArray) -> None:
        """The newest evaluation: weights, returns [K, W, m]."""
        write_front(self.path / FRONT, weights, returns)

    def write_policies(self, tensors: Mapping[str, NDArray]) -> None:
        """Parameters of all policies and the manifest that vouches for them."""
        data = save({name: np.ascontiguousarray(array) for name, array in tensors.items()})
        shapes = {name: list(array.shape) for name, array in tensors.items()}
        manifest = {
            "format": FORMAT,
            "file": TENSORS,
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "tensors": shapes,
            "spec": spec_to_json(self.spec),
        }
        replace_file(self.path / TENSORS, data)
        self._write_json(MANIFEST, manifest)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        self._write_json(SUMMARY, summary)

    def _write_json(self, name: str, data: Any) -> None:
        replace_file(self.path / name, (json.dumps(data, indent=2, allow_nan=False) + "\n").encode())


def write_front(path: Path, weights: NDArray, returns: NDArray) -> None:
    """A front's table: weights, returns [K, W, m]."""
    from ucb_moppo.pareto import nondominated  # writing only: reading a run needs no moocore

    on_front = nondominated(returns.reshape(-1, returns.shape[-1]))
    rows = zip(_front_rows(weights, returns), on_front, strict=True)
    lines = [[*_front_header(weights.shape[-1]), "on_front"]]
    lines += [[*row, "true" if on else "false"] for row, on in rows]
    replace_file(path, "".join(",".join(map(str, line)) + "\n" for line in lines).encode())


def replace_file(path: Path, data: bytes) -> None:
    """Write aside, sync and rename, so that no reader meets half a file."""
    aside = path.with_name(f".{path.name}.tmp")
    with aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _front_header(num_objectives: int) -> list[str]:
    numbers = range(1, num_objectives + 1)
    return ["policy", *(f"weight_{j}" for j in numbers), *(f"return_{j}" for j in numbers)]


def _front_rows(weights: NDArray, returns: NDArray) -> Iterable[list[Any]]:
    """[policy, weights…, returns…] for weights, returns [K, W, m]; floats in full precision."""
    for k in range(weights.shape[0]):
        for weight, values in zip(weights[k], returns[k], strict=True):
            yield [k, *map(float, weight), *map(float, values)]


def _read_rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        raise RunFormatError(f"{path.parent} has no {path.name} yet: nothing has been evaluated") from None
    except (OSError, ValueError) as fault:
        raise RunFormatError(f"{path} cannot be read as a table: {fault}") from fault


def front_from_rows(rows: Sequence[Mapping[str, str]]) -> Front:
    """Rows of a front or evaluations table -> arrays."""
    num_objectives = sum(name.startswith("weight_") for name in rows[0]) if rows else 2

    def columns(prefix: str) -> NDArray:
        names = [f"{prefix}_{j}" for j in range(1, num_objectives + 1)]
        return np.array([[float(row[n]) for n in names] for row in rows]).reshape(len(rows), num_objectives)

    try:
        return Front(np.array([int(row["policy"]) for row in rows], int), columns("weight"), columns("return"))
    except (KeyError, ValueError, TypeError) as fault:
        raise RunFormatError(f"a front's table has a row that cannot be read: {fault!r}") from fault
