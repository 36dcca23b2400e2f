"""Runs of a second, ways to interrupt them, and what two runs must have in common."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ucb_moppo.config import MoppoSettings, default_settings, override
from ucb_moppo.store.checkpoint import FACTS, STATE, list_checkpoints
from ucb_moppo.store.run import Run
from ucb_moppo.store.storage import parse_tensors
from ucb_moppo.training.reporter import Reporter, Silent
from ucb_moppo.training.train import train_run

# Ten iterations of two policies, apart from the start, in stages of two, the first two of them warm-up.
TINY: dict[str, Any] = {
    "layout": "static",
    "horizon": 20,
    "policies": 2,
    "candidates": 8,
    "active": 2,
    "samples": 40,
    "minibatch": 20,
    "epochs": 2,
    "probes": 2,
    "episodes": 1,
    "held_out": 0,
    "stage_iterations": 2,
    "steps": 800,
    "checkpoint_seconds": 0.0,
}

CLOCK = ("seconds", "stage_seconds")
"""What no two runs share."""


def tiny_settings(problem: str = "Swimmer-v2", **changes: Any) -> MoppoSettings:
    return override(default_settings(problem), **(TINY | changes))


def tiny_options(problem: str = "Swimmer-v2", **changes: Any) -> list[str]:
    """The same as options of the command line."""
    options = [[f"--{name.replace('_', '-')}", str(value)] for name, value in (TINY | changes).items()]
    return [problem, *(word for option in options for word in option)]


class Killed(BaseException):
    """Ends a run like a kill would: nothing that handles errors sees it."""


class DiesAt(Silent):
    """Kills the run after an iteration."""

    def __init__(self, iteration: int) -> None:
        self.last = iteration

    def iteration(self, iteration: int) -> None:
        if iteration == self.last:
            raise Killed


def train_tiny(path: Path, reporter: Reporter | None = None, **changes: Any) -> Run:
    return train_run(tiny_settings(**changes), path, reporter or Silent())


def train_until(path: Path, iteration: int, **changes: Any) -> Path:
    """A run that was killed after ``iteration``."""
    try:
        train_tiny(path, DiesAt(iteration), **changes)
    except Killed:
        return path
    raise AssertionError(f"the run ended before iteration {iteration}")


def contents(run: Path) -> dict[str, Any]:
    """Everything a run has left and its last checkpoint, without the clock and what hangs on it."""
    found: dict[str, Any] = {
        path.name: path.read_bytes()
        for path in run.iterdir()
        if path.is_file() and path.name not in (".lock", "manifest.json")
    }
    lines = [json.loads(line) for line in found.pop("metrics.jsonl").splitlines()]
    found["metrics.jsonl"] = json.dumps([timeless(line) for line in lines])
    found["summary.json"] = json.dumps(timeless(json.loads(found["summary.json"])))
    newest = run / "checkpoints" / list_checkpoints(run)[0]
    tensors = parse_tensors((newest / STATE).read_bytes(), newest / STATE)[1]
    found |= {f"{newest.name} {n}": (a.dtype, a.shape, a.tobytes()) for n, a in tensors.items() if n not in CLOCK}
    facts = json.loads((newest / FACTS).read_text())
    facts["lengths"].pop("metrics.jsonl")
    return found | {f"{newest.name} facts": facts}


def timeless(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in CLOCK}


def assert_same(run: Path, other: Path) -> None:
    ours, theirs = contents(run), contents(other)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []
