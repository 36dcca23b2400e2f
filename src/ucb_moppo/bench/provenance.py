"""Where a result comes from: code, and hardware without anything that names the machine or its owner."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from msgspec import Struct

from ucb_moppo.cores import available_cores

SOURCE = Path(__file__).resolve().parent.parent


class Provenance(Struct, frozen=True):
    """What is noted beside a run while it is made, and known only then."""

    commit: str
    hardware: dict[str, Any]
    max_seconds: float | None = None
    """The time it was given."""


UNKNOWN = Provenance("unknown", {})
"""Of a run that somebody put there."""


def code_version(source: Path = SOURCE) -> str:
    """The git commit of the sources, "-dirty" if they differ from it; the package's version where there is none."""
    # A virtual environment may lie inside some other repository: only one that tracks our files counts.
    if _git(source, "ls-files", "--error-unmatch", "__init__.py") is None:
        return f"ucb-moppo {importlib.metadata.version('ucb-moppo')}"
    commit, changes = _git(source, "rev-parse", "HEAD"), _git(source, "status", "--porcelain", "--", ".")
    return f"{commit}-dirty" if changes else str(commit)


def _git(directory: Path, *arguments: str) -> str | None:
    """What git says, or None where it has nothing to say."""
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def hardware() -> dict[str, Any]:
    """Processor, cores that this process may use, cores and memory of the machine."""
    return {
        "cpu": cpu_model(),
        "cores_used": len(available_cores()),
        "cores": os.cpu_count(),
        "memory_gib": memory_gib(),
        "system": platform.system(),
    }


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None
