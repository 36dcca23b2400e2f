"""What the campaigns of kills and of mutations share: small runs, options, and notes from which they go on."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from ucb_moppo.bench.provenance import code_version
from ucb_moppo.store.guarded import write_file

REPOSITORY = Path(__file__).resolve().parent.parent
SMALL = {
    **{"horizon": 50, "policies": 2, "candidates": 8, "active": 2, "samples": 100, "minibatch": 50},
    **{"epochs": 2, "probes": 2, "stage_iterations": 4},
}
"""Settings of a run of seconds."""


def begin_notes(out: Path | None, seed: int, command: str, fresh: dict[str, Any]) -> dict[str, Any]:
    """What an earlier call has noted of the same campaign, by the same code; else ``fresh`` figures."""
    facts = {"seed": seed, "commit": code_version(), "command": command}
    if out is not None and out.exists():
        noted = json.loads(out.read_text())
        same = all(noted[name] == facts[name] for name in ("seed", "command"))
        if same and is_same_code(noted["commit"], facts["commit"]):
            return noted
    return facts | deepcopy(fresh)


def is_same_code(one: str, other: str, repository: Path = REPOSITORY) -> bool:
    """Whether two commits have the same code to try; notes and documents may differ."""
    differ = ["git", "-C", str(repository), "diff", "--quiet", one, other, "--", "src"]
    return one == other or subprocess.run(differ, capture_output=True, check=False).returncode == 0


def write_notes(out: Path | None, found: dict[str, Any]) -> None:
    """Note figures so far, whole or not at all: a campaign may be killed as well."""
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_file(out, (json.dumps(found, indent=1) + "\n").encode())


def run_by_command_line(
    purpose: str, what: str, count: int, run_campaign: Callable[[int, int, Path | None, float], dict[str, Any]]
) -> dict[str, Any]:
    """Run a campaign of so many ``what`` as the options say; its figures."""
    parser = argparse.ArgumentParser(description=purpose, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(f"--{what}", type=int, default=count, dest="count")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-seconds", type=float, default=6 * 3600)
    parser.add_argument("--out", type=Path, default=Path(f"results/trust/{what}.json"))
    choice = parser.parse_args()
    return run_campaign(choice.count, choice.seed, choice.out, choice.max_seconds)
