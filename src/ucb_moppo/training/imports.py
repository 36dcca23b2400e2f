"""Which modules a file makes this process import, said before it happens."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ucb_moppo.registry import UTILITIES, is_target
from ucb_moppo.store.layout import CONFIG
from ucb_moppo.store.run import Run
from ucb_moppo.training.reporter import tell

NAMING = ("problem", "problems", "method", "methods", "acquisition", "surrogate", "indicators", "utility")
"""Settings that may name something in a module of somebody's own, as module:name."""


def announce_imports(path: Path, settings: Mapping[str, Any]) -> None:
    """Say on stderr which modules the settings in ``path`` name; they are imported, and so executed, next."""
    modules = sorted(set(named_modules(settings)))
    if modules:
        tell(f"ucb-moppo: {path} names code to import and execute: {', '.join(modules)}", sys.stderr)


def import_utility(run: Run) -> None:
    """Import the module of a run's utility, if it is somebody's own, and say so: choosing by it needs its code."""
    goal = run.config.get("goal")
    name = goal.get("utility") if isinstance(goal, Mapping) else None
    if is_target(name):
        announce_imports(run.path / CONFIG, {"utility": name})
        UTILITIES.find(str(name))


def named_modules(settings: Any, naming: bool = False) -> Iterator[str]:
    """The modules of everything named as module:name, however deep."""
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            if naming:
                yield from named_modules(key, naming)
            yield from named_modules(value, naming or key in NAMING)
    elif isinstance(settings, list):
        for value in settings:
            yield from named_modules(value, naming)
    elif naming and isinstance(settings, str):
        module, colon, _ = settings.partition(":")
        if colon and all(part.isidentifier() for part in module.split(".")):
            yield module
