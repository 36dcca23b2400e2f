"""Settings as they are given: what a run can be told, how that is checked, changed and written.

Every run has `RunSettings`; our methods add how they learn and search (`MoppoSettings`), another's method adds its
own published settings (`PeerSettings`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import numpy as np

from ucb_moppo.algos.ppo.ppo_settings import PPOSettings, check_ppo
from ucb_moppo.config.elsewhere import suggest
from ucb_moppo.config.kinds import check_types
from ucb_moppo.envs import PROTOCOLS
from ucb_moppo.errors import ConfigError, nearest_names, require
from ucb_moppo.objectives.goal_settings import LINEAR, GoalSettings, check_goal
from ucb_moppo.registry import (
    ACQUISITIONS,
    EXECUTORS,
    INDICATORS,
    METHODS,
    SELECTIONS,
    SURROGATES,
    UTILITIES,
    Registry,
)
from ucb_moppo.search.search_settings import SearchSettings, check_search

PresetName = Literal["tuned", "paper", "quick"]
SECTIONS = ("ppo", "search", "goal")
"""Fields that hold settings of ours in a group of their own."""
OWN = "settings"
"""The field that holds the settings of another's method."""
AUTO = "auto"
"""The executor that is chosen where a run is made: processes for several shards on several cores, else local."""


@dataclass(frozen=True)
class RunSettings:
    """What every run is told, whoever trains. A text beside a type says how None is decided."""

    problem: str
    """A built-in problem, an MO-Gymnasium id, or package.module:env-id; any id may end in @option=value,…"""
    method: str = "ucb"
    """How weights are chosen and policies trained."""
    seed: int = 0
    """Seed of everything random; the same seed gives the same bits."""
    steps: int = 5_000_000
    """Training steps over all policies, those of another method's pre-training included."""
    protocol: str = "gymnasium"
    """How native problems are set up and measured: Gymnasium's models and 1,000 steps, the six with PGMORL's
    changes and 500, or MO-Gymnasium's but the reacher as C-MORL measures them (500 steps, returns discounted by
    0.99, reference point -100, utility over a lattice of steps of 0.01 or 0.1)."""
    horizon: Annotated[int | None, "the problem's own"] = None
    """Episode length in training and evaluation."""
    reference_point: Annotated[tuple[float, ...] | None, "the problem's own"] = None
    """Reference point of the hypervolume, a number per objective."""
    objective_scales: Annotated[
        tuple[float, ...] | None, "1 each, or what random actions show where they differ tenfold"
    ] = None
    """What weights are spread over: objectives divided by these, so that none is lost beside another's units."""
    episodes: Annotated[int | None, "2, or 1 where evaluation is dear"] = None
    """Evaluation episodes per weight, from initial states that are the same for all; stages choose by them."""
    evaluation_discount: Annotated[float | None, "1; 0.99 under protocol cmorl"] = None
    """Discount of evaluated returns, by which policies are chosen and reported (1: undiscounted)."""
    utility_divisions: Annotated[int | None, "at least 100 weights; protocol cmorl: 100 or 10 divisions"] = None
    """Divisions of the lattice of weights that the expected utility is the mean over."""
    held_out: int = 10
    """Episodes from other initial states that the front of a finished run is measured by (0: not at all)."""
    indicators: Annotated[tuple[str, ...], "none"] = ()
    """More indicators to record at every evaluation, each as module:name."""
    threads: int = 0
    """Threads of simulation, of each shard or of another method's libraries (0: one per core it has)."""
    checkpoint_stages: int = 1
    """Stages from one checkpoint to the next; more where saving would take over 2% of the time."""
    checkpoint_seconds: float = 60.0
    """Save within a stage too once the last checkpoint is this old."""
    preset: PresetName = "tuned"
    """tuned: best measured settings per problem; paper: the paper's values; quick: a first look in minutes."""

    def check(self) -> None:
        """Refuse values that cannot be, whatever the problem is."""
        kind = settings_type(self.method)
        require(isinstance(self, kind), f"method {self.method} takes {kind.__name__}: begin with make_settings")
        for name, known in (("preset", get_args(PresetName)), ("protocol", tuple(PROTOCOLS))):
            value = getattr(self, name)
            require(value in known, f"unknown {name} {value!r}; {nearest_names(str(value), known)}")
        for indicator in self.indicators:
            INDICATORS.check(indicator)
            require(indicator not in INDICATORS, f"indicator {indicator!r} is recorded anyway; leave it out")
        self._check_counts("steps", "episodes", "checkpoint_stages", "horizon", "utility_divisions")
        discount = self.evaluation_discount
        require(
            discount is None or 0 < discount <= 1,
            f"evaluation_discount is {discount}; it must lie in (0, 1], 1 for undiscounted returns",
        )
        require(self.held_out >= 0, f"held_out is {self.held_out}; it must not be negative")
        require(0 <= self.seed < 2**32, f"seed is {self.seed}; it must lie in [0, 2**32)")
        require(self.threads >= 0, f"threads is {self.threads}; it must not be negative")
        scales = self.objective_scales or ()
        require(
            all(0 < scale < math.inf for scale in scales),
            f"objective_scales is {scales}; they must be positive numbers",
        )
        seconds = self.checkpoint_seconds
        require(0 <= seconds < math.inf, f"checkpoint_seconds is {seconds}; it must be a number from 0")

    def _check_counts(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            require(value is None or value >= 1, f"{name} is {value}; it must be at least 1")

    def take_unknown(self, unknown: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
        """Fields that hold settings of other names than the known ones; refused where there is no such field."""
        for name in unknown:
            raise ConfigError(f"unknown setting {name!r}; {suggest(name, known)}")
        return {}

    def names(self) -> list[tuple[Registry[Any], str]]:
        """Everything that the settings name, with the registry to find it in."""
        return [(METHODS, self.method), *((INDICATORS, indicator) for indicator in self.indicators)]

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``config.json``."""
        return fields_of(self)


@dataclass(frozen=True)
class MoppoSettings(RunSettings):
    """A run of one of our methods."""

    executor: str = "auto"
    """Where shards of policies run."""
    shards: Annotated[int | None, "one per core, 1 for a short run and for --executor local"] = None
    """S, groups of policies that train side by side; part of what the last bits of a result depend on."""
    ray_address: Annotated[str | None, "a Ray of its own on this machine"] = None
    """Address of a running Ray cluster, for --executor ray."""
    ppo: PPOSettings = field(default_factory=PPOSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    goal: GoalSettings = field(default_factory=GoalSettings)

    def check(self) -> None:
        """Refuse what our methods cannot be told."""
        super().check()
        check_ppo(self.ppo)
        check_search(self.search)
        check_goal(self.goal)
        EXECUTORS.check(self.executor, AUTO)
        self._check_counts("shards")

    def names(self) -> list[tuple[Registry[Any], str]]:
        """Everything that the settings name, the parts of the search and the utility among it."""
        parts = [
            (registry, getattr(self.search, registry.kind)) for registry in (ACQUISITIONS, SURROGATES, SELECTIONS)
        ]
        named = [(registry, name) for registry, name in parts if name is not None]
        return [*super().names(), *named, (UTILITIES, self.goal.utility)]

    def to_json(self) -> dict[str, Any]:
        """Plain data, each section an object of its own."""
        return super().to_json() | {section: fields_of(getattr(self, section)) for section in SECTIONS}


@dataclass(frozen=True)
class PeerSettings(RunSettings):
    """A run of another's method, evaluated on the weights of a run of ours, and as often."""

    policies: Annotated[int | None, "the preset's"] = None
    """Sub-spaces of the weights to evaluate on: the policies of the run of ours to compare with."""
    probes: Annotated[int | None, "the preset's"] = None
    """Weights of each sub-space to evaluate on: the probes of the run of ours to compare with."""
    evaluations: Annotated[int | None, "as many as a run of ours makes"] = None
    """Evaluations after the first, evenly spaced over the steps."""
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The method's own settings: the published ones for the problem, under those that were given."""

    def check(self) -> None:
        """Refuse counts that cannot be; its own settings are checked when they are resolved."""
        super().check()
        self._check_counts("policies", "probes", "evaluations")

    def take_unknown(self, unknown: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
        """Take every other name for one of the method's own settings."""
        return {"settings": {**self.settings, **unknown}}

    def to_json(self) -> dict[str, Any]:
        """Plain data, the method's own settings an object of their own."""
        return super().to_json() | {"settings": dict(self.settings)}


Settings = TypeVar("Settings", bound=RunSettings)


def settings_type(method: str) -> type[MoppoSettings] | type[PeerSettings]:
    """What a method can be told: the one place that asks whose it is."""
    METHODS.check(method)
    ours = method in METHODS and METHODS.entries[method].ours
    return MoppoSettings if ours else PeerSettings


def setting_types(kind: type[RunSettings]) -> dict[str, Any]:
    """The type of every setting by name, those of the sections among them."""
    types = get_type_hints(kind)
    types.pop(OWN, None)
    sections = [types.pop(section) for section in SECTIONS if section in types]
    return types | {name: hint for section in sections for name, hint in get_type_hints(section).items()}


def override(settings: Settings, /, **changes: Any) -> Settings:
    """``settings`` with some replaced by name, whichever section they belong to; None leaves one alone."""
    changes = {name: _plain(value) for name, value in changes.items() if value is not None}
    check_types(changes, setting_types(type(settings)))
    holders = {section: getattr(settings, section) for section in SECTIONS if hasattr(settings, section)}
    own = {f.name for f in dataclasses.fields(settings)} - {*holders, OWN}
    known = own | {f.name for holder in holders.values() for f in dataclasses.fields(holder)}
    top = {name: value for name, value in changes.items() if name in own}
    unknown = {name: value for name, value in changes.items() if name not in known}
    top |= settings.take_unknown(unknown, known)
    for section, holder in holders.items():
        names = {f.name for f in dataclasses.fields(holder)}
        top[section] = dataclasses.replace(holder, **{n: v for n, v in changes.items() if n in names})
    changed = dataclasses.replace(settings, **top)
    changed.check()
    return changed


def _plain(value: Any) -> Any:
    """Lists and arrays as tuples, numbers of numpy as Python's own."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    return value.item() if isinstance(value, np.generic) else value


def settings_that_count(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config as plain data, but for what a weighted sum does not look at, such as the cost of floors."""
    goal = config.get("goal")
    if not isinstance(goal, Mapping) or goal.get("utility") != LINEAR:
        return dict(config)
    return {**config, "goal": {name: goal[name] for name in ("utility", "actions") if name in goal}}


def fields_of(holder: Any) -> dict[str, Any]:
    """The fields of a dataclass by name."""
    return {f.name: getattr(holder, f.name) for f in dataclasses.fields(holder)}
