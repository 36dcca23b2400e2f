"""What a sweep is asked to do, read from JSON and checked before anything starts."""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ucb_moppo.config import (
    RunConfig,
    RunSettings,
    check_types,
    make_settings,
    resolve,
    setting_types,
    settings_type,
)
from ucb_moppo.errors import ConfigError, UcbMoppoWarning, nearest_names
from ucb_moppo.store.layout import directory_name
from ucb_moppo.store.storage import has_type
from ucb_moppo.training.imports import announce_imports
from ucb_moppo.training.train import check_trainable, describe_unsearched, spec_of

LISTS = {"problems": str, "methods": str, "seeds": int}
KEYS = ("name", *LISTS, "steps", "settings", "per_problem", "per_method", "max_seconds")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
Seconds = Annotated[float, Meta(gt=0, le=sys.float_info.max)]


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    problem: str
    method: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """By name as ``ucb_moppo.train`` takes them, steps and preset among them."""
    max_seconds: float | None = None

    @property
    def name(self) -> str:
        """Of its files: HalfCheetah-v2/ucb-seed0."""
        return f"{directory_name(self.problem)}/{directory_name(self.method)}-seed{self.seed}"


@dataclass(frozen=True)
class SweepSpec:
    """A sweep. Settings of a method stand above those of a problem, and both above the common ones."""

    name: str
    problems: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    per_problem: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    per_method: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def cells(self) -> list[Cell]:
        """Seed by seed, so that a sweep cut short has whole seeds of everything."""
        return [
            self._cell(problem, method, seed)
            for seed in self.seeds
            for problem in self.problems
            for method in self.methods
        ]

    def _cell(self, problem: str, method: str, seed: int) -> Cell:
        settings = {**self.settings, **self.per_problem.get(problem, {}), **self.per_method.get(method, {})}
        max_seconds = settings.pop("max_seconds", None)
        return Cell(problem, method, seed, settings, max_seconds)


def cell_settings(cell: Cell) -> RunSettings:
    """What a cell's run is told; refused where a setting has another type than its own."""
    known = setting_types(settings_type(cell.method))
    check_types(cell.settings, known)
    # One shard unless told otherwise: left open, their number and with it the last bits of a result would hang on
    # the cores that a cell happens to get.
    usual = {"shards": 1} if "shards" in known else {}
    return make_settings(cell.problem, cell.method, seed=cell.seed, **{**usual, **cell.settings})


def cell_config(cell: Cell) -> RunConfig:
    """Every setting of a cell's run, decided; what is wrong with one is an error that names the cell.

    Scales of objectives that are left open stand at 1: the run measures them, by steps that may fail.
    """
    try:
        settings = cell_settings(cell)
        spec = spec_of(settings)
        config = resolve(settings, spec)
        check_trainable(config, spec)
        return config
    except (ConfigError, OverflowError) as fault:  # JSON has whole numbers of any size
        raise ConfigError(f"cell {cell.name}: {fault}") from fault


def read_sweep(path: Path) -> SweepSpec:
    """The sweep that a JSON file asks for, with every cell checked."""
    try:
        data = msgspec.json.decode(path.read_bytes())
    except (OSError, ValueError, RecursionError) as fault:
        raise ConfigError(f"the sweep {path} cannot be read as JSON: {fault}") from fault
    announce_imports(path, data)
    try:
        spec = parse_sweep(data)
        check_cells(spec.cells())
    except ConfigError as fault:
        raise ConfigError(f"{path}: {fault}") from fault
    return spec


def parse_sweep(data: Any) -> SweepSpec:
    """Plain data -> a sweep."""
    if not isinstance(data, dict):
        raise ConfigError(f"holds a {type(data).__name__}; a sweep is an object with {', '.join(KEYS)}")
    for key in data:
        if key not in KEYS:
            raise ConfigError(f"unknown key {key!r}; {nearest_names(key, KEYS)}")
    missing = [key for key in ("name", *LISTS) if key not in data]
    if missing:
        raise ConfigError(f"lacks {', '.join(missing)}")
    name = data["name"]
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ConfigError(f"name is {name!r}; it must be letters, digits, '.', '_' and '-': directories bear it")
    problems, methods, seeds = (parse_list(key, data[key], kind) for key, kind in LISTS.items())
    common = {key: data[key] for key in ("steps", "max_seconds") if data.get(key) is not None}
    return SweepSpec(
        name,
        problems,
        methods,
        seeds,
        parse_settings("settings", data.get("settings", {})) | common,
        parse_table("per_problem", data.get("per_problem", {}), problems),
        parse_table("per_method", data.get("per_method", {}), methods),
    )


def parse_list(key: str, values: Any, kind: type) -> tuple[Any, ...]:
    if not isinstance(values, list) or not values:
        raise ConfigError(f"{key} is {values!r}; it must be a list with at least one entry")
    for value in values:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ConfigError(f"{key} holds {value!r}; it must be {'text' if kind is str else 'a whole number'}")
    repeated = [value for value, count in Counter(values).items() if count > 1]
    if repeated:
        raise ConfigError(f"{key} names {repeated[0]!r} more than once; name it once")
    return tuple(values)


def parse_table(key: str, table: Any, known: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Settings by problem or by method, each of which the sweep must have."""
    if not isinstance(table, dict):
        raise ConfigError(f"{key} is {table!r}; it must be an object of objects of settings")
    for name in table:
        if name not in known:
            raise ConfigError(f"{key} names {name!r}, which the sweep does not run; {nearest_names(name, known)}")
    return {name: parse_settings(f"{key} {name}", settings) for name, settings in table.items()}


def parse_settings(where: str, settings: Any) -> dict[str, Any]:
    if not isinstance(settings, dict):
        raise ConfigError(f"{where} is {settings!r}; it must be an object of settings")
    for name in ("problem", "method", "seed"):
        if name in settings:
            raise ConfigError(f"{where} holds {name!r}; the sweep's own lists say which {name}s are run")
    return dict(settings)


def check_cells(cells: Sequence[Cell]) -> None:
    """Refuse a sweep with a cell that could not run, or with two that would write the same files; warn of methods
    that would be evaluated on different weights, and of those that would choose none."""
    twice = [name for name, count in Counter(cell.name for cell in cells).items() if count > 1]
    if twice:
        raise ConfigError(f"two cells would both be {twice[0]}; leave one of the problems out")
    found: dict[str, dict[str, RunConfig]] = {}
    for cell in cells:
        limit = cell.max_seconds
        if not has_type(limit, Seconds | None):
            raise ConfigError(f"cell {cell.name}: max_seconds is {limit!r}; it must be a positive number")
        found.setdefault(cell.problem, {}).setdefault(cell.method, cell_config(cell))
    for problem, configs in found.items():
        for warning in describe_cells(problem, configs):
            warnings.warn(warning, UcbMoppoWarning, stacklevel=2)


def describe_cells(problem: str, configs: Mapping[str, RunConfig]) -> Iterator[str]:
    """What is to be said of the methods' runs on a problem before they are begun."""
    weights: dict[tuple[int, int], str] = {}
    for method, config in configs.items():
        weights.setdefault(evaluated_weights(config), method)
        unsearched = describe_unsearched(config)
        if unsearched is not None:
            yield f"{problem}: {unsearched}"
    if len(weights) > 1:
        told = ", ".join(f"{method} {p} × {probes}" for (p, probes), method in weights.items())
        yield (
            f"methods are evaluated on different weights on {problem} (policies × probes: {told}), so their "
            f"fronts compare badly; give policies and probes under settings, which holds for every method"
        )


def evaluated_weights(config: RunConfig) -> tuple[int, int]:
    """Sub-spaces and weights in each that a run is evaluated on."""
    return config.division.policies, config.division.probes
