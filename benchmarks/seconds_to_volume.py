"""How long this version and an older one take to the same hypervolume, side by side, a core each.

    git worktree add ../older c31c210
    python benchmarks/seconds_to_volume.py ../older HalfCheetah-v2 --steps 2500000 --out runs/against-older

Both run at the same time, so that whatever else the machine does slows both. The hypervolume is that of each
stage's own evaluation (single episodes in version 0.2.0, the mean of two here); seconds count everything but
starting Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

SHARES = (0.5, 0.75, 0.9, 1.0)
"""Of what the older version ends with."""


@dataclass(frozen=True)
class Options:
    """Train with two versions side by side."""

    older: Annotated[Path, tyro.conf.Positional]
    """A checkout of the older version."""
    problem: Annotated[str, tyro.conf.Positional]
    """What to train on."""
    steps: int = 2_500_000
    """Training steps of each."""
    seed: int = 0
    """Seed of both."""
    out: Path = Path("runs/against-older")
    """Where the two runs go; those that are there are not trained again."""


def begin(checkout: Path, run: Path, core: int, options: Options) -> subprocess.Popen[bytes] | None:
    """Train with the code of a checkout on one core; None where the run is there."""
    if (run / "summary.json").exists():
        return None
    command = [sys.executable, "-P", "-m", "ucb_moppo", "train", options.problem, "--executor=local", "--shards=1"]
    command += [f"--steps={options.steps}", f"--seed={options.seed}", "--threads=1", f"--out={run}"]
    return subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": str((checkout / "src").resolve())},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=partial(os.sched_setaffinity, 0, {core}),
    )


def seconds_to(run: Path, volume: float) -> float | None:
    """When a run first had a hypervolume; None: never."""
    lines = (json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines())
    return next((line["seconds"] for line in lines if line["hypervolume"] >= volume), None)


def last_volume(run: Path) -> float:
    """The highest hypervolume that a run has had."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return max(json.loads(line)["hypervolume"] for line in lines)


def main() -> None:
    options = tyro.cli(Options)
    here, cores = Path(__file__).resolve().parents[1], sorted(os.sched_getaffinity(0))
    runs = {name: options.out / f"{options.problem}-{name}" for name in ("older", "this")}
    options.out.mkdir(parents=True, exist_ok=True)
    begun = [
        begin(checkout, run, core, options)
        for (checkout, run, core) in zip((options.older, here), runs.values(), (cores[0], cores[-1]), strict=True)
    ]
    if any(process is not None and process.wait() for process in begun):
        raise SystemExit("a run failed: try its command by hand")
    table = Table("HV", "of the older's best", "older, s", "this, s", "older / this", title=options.problem)
    best = last_volume(runs["older"])
    for share in SHARES:
        older, this = (seconds_to(run, share * best) for run in runs.values())
        ratio = "" if older is None or this is None else f"{older / this:.1f}"
        times = [f"{seconds:,.0f}" if seconds is not None else "not reached" for seconds in (older, this)]
        table.add_row(f"{share * best:.3g}", f"{share:.0%}", *times, ratio)
    Console(width=90).print(table)


if __name__ == "__main__":
    main()
