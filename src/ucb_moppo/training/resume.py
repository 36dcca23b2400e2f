"""Continue a run from its newest good checkpoint, under the conditions it was saved under."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ucb_moppo.config import from_run, override, resolve, setting_types
from ucb_moppo.errors import ConfigError, DamagedFileError, DisagreementError, FormatVersionError
from ucb_moppo.registry import METHODS
from ucb_moppo.spec import EnvSpec
from ucb_moppo.store.checkpoint import clean_debris, find_checkpoint
from ucb_moppo.store.guarded import read_bytes
from ucb_moppo.store.layout import CONFIG, LIMITS, METRICS, check_holds_run, read_manifest
from ucb_moppo.store.lock import locked
from ucb_moppo.store.run import Run
from ucb_moppo.store.storage import parse_object
from ucb_moppo.training.callbacks import NO_CALLBACKS, Callbacks
from ucb_moppo.training.imports import announce_imports
from ucb_moppo.training.record import make_facts
from ucb_moppo.training.reporter import Reporter
from ucb_moppo.training.stop import Deadline
from ucb_moppo.training.train import as_seen, check_trainable, execute, spec_of

SAME_RESULT = ("threads", "executor", "ray_address", "checkpoint_stages", "checkpoint_seconds")
"""Settings that may differ when a run is continued: they do not change what it computes."""


def resume_run(
    path: Path,
    reporter: Reporter,
    force: bool = False,
    max_seconds: float | None = None,
    executor: str | None = None,
    ray_address: str | None = None,
    callbacks: Callbacks = NO_CALLBACKS,
) -> Run:
    """Continue the run in the directory ``path``, on the executor it had unless another is named."""
    deadline = Deadline(max_seconds)
    check_holds_run(path)
    with locked(path):
        clean_debris(path)
        check_continuable(path)
        stored = parse_object(read_bytes(path, CONFIG, LIMITS[CONFIG]), path / CONFIG)
        announce_imports(path / CONFIG, stored)
        settings = from_run(stored)
        check_resumable(path, settings.method)
        known = setting_types(type(settings))
        elsewhere = {"executor": executor, "ray_address": ray_address}
        settings = override(settings, **{name: value for name, value in elsewhere.items() if name in known})
        spec = spec_of(settings)
        config = resolve(settings, spec)
        spec = as_seen(spec, config)
        check_trainable(config, spec)
        checkpoint = find_checkpoint(path)
        if checkpoint is not None:
            check_agreement(path, checkpoint.facts, make_facts(config, spec), spec, force)
        elif (path / METRICS).exists():
            raise DamagedFileError(
                f"{path / 'checkpoints'} is missing: there is nothing to continue from; train again"
            )
        return execute(config, spec, path, reporter, deadline, checkpoint, callbacks)


def check_continuable(path: Path) -> None:
    """Refuse a run of a format that has no checkpoints, or that only a newer version knows."""
    try:
        version = read_manifest(path).format
    except DamagedFileError:
        return  # the manifest is made of the files; the checkpoints have manifests of their own
    if version < 2 and not (path / "checkpoints").exists() and (path / METRICS).exists():
        raise FormatVersionError(f"{path} has format {version}, which saved no checkpoints: train it again")


def check_resumable(path: Path, method: str) -> None:
    """Refuse a method that saves nothing to continue from."""
    if method in METHODS and not METHODS.entries[method].resumable:
        raise ConfigError(f"{path} is a run of {method}, which cannot be continued: train it again")


def check_agreement(
    path: Path, saved: Mapping[str, Any], now: Mapping[str, Any], spec: EnvSpec, force: bool
) -> None:
    """Refuse to continue a run under other conditions than it was saved under, unless told to."""
    if "numerics" not in saved:  # of a version that did not note them
        now = {name: value for name, value in now.items() if name != "numerics"}
    before = {name: saved.get(name) for name in now} | {"config": completed(saved.get("config"), spec)}
    changes = list(differences(before, json.loads(json.dumps(now))))
    if changes and not force:
        raise DisagreementError(
            f"{path} was saved under other conditions: {'; '.join(changes)}. Put them back, or continue "
            f"anyway with --force; the run is then not the one that was begun"
        )


def completed(config: Any, spec: EnvSpec) -> Any:
    """A saved config with what settings that did not exist yet resolve to; as it is if unreadable."""
    with suppress(ConfigError, TypeError):
        return json.loads(json.dumps(resolve(from_run(config), spec).to_json()))
    return config


def differences(saved: Any, now: Any, name: str = "") -> Iterator[str]:
    """Every value that is not the same in two trees of plain data: 'config gamma: 0.99 is now 0.9'."""
    if isinstance(saved, Mapping) and isinstance(now, Mapping):
        for key in sorted({*saved, *now} - {*SAME_RESULT}):
            yield from differences(saved.get(key), now.get(key), f"{name} {key}".strip())
    elif saved != now:
        yield f"{name}: {saved} is now {now}"
