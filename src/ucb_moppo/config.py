"""Settings as they are given, and the config they resolve to: two types, and nothing is left open in the second.

Every run has `RunSettings`; our methods add how they learn and search (`MoppoSettings`), another's method adds its
own published settings (`PeerSettings`). ``resolve`` decides what was left open from the problem and the length of
the run; the ``config.json`` of a run holds what was decided.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_type_hints, overload

from ucb_moppo.algos.ppo.settings import PPOSettings, check_ppo
from ucb_moppo.cores import available_cores
from ucb_moppo.envs import PROTOCOLS, found_by_import
from ucb_moppo.errors import ConfigError, nearest_names, require
from ucb_moppo.objectives.weights import MAX_LATTICE_POINTS, default_num_candidates, default_num_policies
from ucb_moppo.registry import (
    ACQUISITIONS,
    EXECUTORS,
    INDICATORS,
    METHODS,
    SELECTIONS,
    SURROGATES,
    Registry,
    import_target,
)
from ucb_moppo.search.settings import SearchConfig, SearchSettings, check_search
from ucb_moppo.spec import EnvSpec

PresetName = Literal["tuned", "paper", "quick"]

# --- as given --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunSettings:
    """What every run is told, whoever trains. A text beside a type says how None is decided."""

    problem: str
    """One of the six problems, an MO-Gymnasium id, or package.module:env-id."""
    method: str = "ucb"
    """How weights are chosen and policies trained."""
    seed: int = 0
    """Seed of everything random; the same seed gives the same bits."""
    steps: int = 5_000_000
    """Training steps over all policies, those of another method's pre-training included."""
    protocol: str = "gymnasium"
    """How the six problems are set up: Gymnasium's models and 1,000 steps, or PGMORL's changes to them and 500."""
    horizon: Annotated[int | None, "the problem's own"] = None
    """Episode length in training and evaluation."""
    reference_point: Annotated[tuple[float, ...] | None, "the problem's own"] = None
    """Reference point of the hypervolume, a number per objective."""
    episodes: int = 1
    """Evaluation episodes per weight."""
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
        self._check_counts("steps", "episodes", "checkpoint_stages", "horizon")
        require(0 <= self.seed < 2**32, f"seed is {self.seed}; it must lie in [0, 2**32)")
        require(self.threads >= 0, f"threads is {self.threads}; it must not be negative")
        seconds = self.checkpoint_seconds
        require(0 <= seconds < math.inf, f"checkpoint_seconds is {seconds}; it must be a number from 0")

    def _check_counts(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            require(value is None or value >= 1, f"{name} is {value}; it must be at least 1")

    def resolve(self, spec: EnvSpec) -> RunConfig:
        """Decide what was left open."""
        raise NotImplementedError(f"{type(self).__name__} says nothing about a method")

    def take_unknown(self, unknown: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
        """Fields that hold settings of other names than the known ones; refused where there is no such field."""
        for name in unknown:
            raise ConfigError(f"unknown setting {name!r}; {nearest_names(name, known)}")
        return {}

    def names(self) -> list[tuple[Registry[Any], str]]:
        """Everything that the settings name, with the registry to find it in."""
        return [(METHODS, self.method), *((INDICATORS, indicator) for indicator in self.indicators)]

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``config.json``."""
        return _fields(self)


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

    @classmethod
    def begin(cls, problem: str, method: str, preset: str) -> MoppoSettings:
        """The settings of a preset for a problem."""
        return override(default_settings(problem, preset), method=method)

    @property
    def rollout_steps(self) -> int:
        """T, steps of every environment in an iteration."""
        return self.ppo.samples // self.search.active

    def check(self) -> None:
        """Refuse what our methods cannot be told."""
        super().check()
        check_ppo(self.ppo)
        check_search(self.search)
        EXECUTORS.check(self.executor, AUTO)
        self._check_counts("shards")
        require(
            self.ppo.samples % self.search.active == 0,
            f"samples ({self.ppo.samples}) must be a multiple of active ({self.search.active}), "
            f"so that every environment takes the same number of steps",
        )

    def resolve(self, spec: EnvSpec) -> MoppoConfig:
        """Decide what our methods leave open."""
        return resolve_moppo(self, spec)

    def names(self) -> list[tuple[Registry[Any], str]]:
        """Everything that the settings name, the parts of the search among it."""
        parts = (ACQUISITIONS, SURROGATES, SELECTIONS)
        return [*super().names(), *((registry, getattr(self.search, registry.kind)) for registry in parts)]

    def to_json(self) -> dict[str, Any]:
        """Plain data, each section an object of its own."""
        return super().to_json() | {section: _fields(getattr(self, section)) for section in SECTIONS}


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

    @classmethod
    def begin(cls, problem: str, method: str, preset: str) -> PeerSettings:
        """As many steps as a run of ours has under the preset."""
        ours = default_settings(problem, preset)
        return cls(problem=ours.problem, method=method, steps=ours.steps, preset=ours.preset)

    def check(self) -> None:
        """Refuse counts that cannot be; its own settings are checked when they are resolved."""
        super().check()
        self._check_counts("policies", "probes", "evaluations")

    def resolve(self, spec: EnvSpec) -> PeerConfig:
        """Decide what another's method leaves open."""
        return resolve_peer(self, spec)

    def take_unknown(self, unknown: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
        """Take every other name for one of the method's own settings."""
        return {"settings": {**self.settings, **unknown}}

    def to_json(self) -> dict[str, Any]:
        """Plain data, the method's own settings an object of their own."""
        return super().to_json() | {"settings": dict(self.settings)}


# --- resolved --------------------------------------------------------------------------------------------


class Division(NamedTuple):
    """Sub-spaces of the simplex and how many weights of each are evaluated: the same for every method."""

    policies: int
    probes: int
    pivots: tuple[tuple[float, ...], ...] | None = None
    replicas: int = 1


@dataclass(frozen=True, kw_only=True)
class MoppoConfig(MoppoSettings):
    """A run of ours with nothing left open: what may still be None (pivots, the address of a cluster) is then not
    given at all, and where it runs (executor, threads) does not change what it computes."""

    horizon: int
    reference_point: tuple[float, ...]
    shards: int
    search: SearchConfig

    @property
    def num_policies(self) -> int:
        """All policies, replicas included."""
        return self.search.policies * self.search.replicas

    @property
    def steps_per_iteration(self) -> int:
        return self.num_policies * self.ppo.samples

    @property
    def num_iterations(self) -> int:
        return self.steps // self.steps_per_iteration

    @property
    def num_stages(self) -> int:
        """Stages of C iterations or less; one always ends with the warm-up."""
        search, warmup = self.search, min(self.search.warmup, self.num_iterations)
        return sum(math.ceil(part / search.stage_iterations) for part in (warmup, self.num_iterations - warmup))

    @property
    def division(self) -> Division:
        return Division(self.search.policies, self.search.probes, self.search.pivots, self.search.replicas)


@dataclass(frozen=True, kw_only=True)
class PeerConfig(PeerSettings):
    """A run of another's method with nothing left open."""

    horizon: int
    reference_point: tuple[float, ...]
    policies: int
    probes: int
    evaluations: int

    @property
    def num_iterations(self) -> int:
        """Progress is counted in steps."""
        return self.steps

    @property
    def steps_per_iteration(self) -> int:
        return 1

    @property
    def division(self) -> Division:
        return Division(self.policies, self.probes)


RunConfig = MoppoConfig | PeerConfig
Settings = TypeVar("Settings", bound=RunSettings)

SECTIONS = ("ppo", "search")
"""Fields that hold settings of ours in a group of their own."""
OWN = "settings"
"""The field that holds the settings of another's method."""
AUTO = "auto"
"""The executor that is chosen where a run is made: processes for several shards on several cores, else local."""
MIN_STEPS_TO_SHARD = 200_000
"""Training steps below which a run stays in one process unless told otherwise: processes take seconds to start."""

QUICK = {"steps": 1_000_000, "policies": 5, "probes": 8}
TUNED: dict[str, dict[str, Any]] = {
    "Swimmer-v2": {"gamma": 0.999},
    "Ant-v2": {"log_std": -1.0, "policies": 5, "probes": 20},
    "Hopper-v3": {"steps": 18_000_000},
}
"""Where the default departs from the paper, per problem, because a measurement says so."""


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


def default_settings(problem: str, preset: str = "tuned") -> MoppoSettings:
    """The settings of a preset for a problem, for our methods."""
    name = problem.removeprefix("ucb_moppo/")
    settings = MoppoSettings(problem=name, preset=preset)  # type: ignore[arg-type]
    settings.check()
    if preset == "paper":
        return override(settings, steps=20_000_000 if name != "Hopper-v3" else 72_000_000)
    settings = override(settings, **TUNED.get(name, {}))
    return override(settings, **QUICK) if preset == "quick" else settings


def make_settings(
    problem: str, method: str = "ucb", preset: str = "tuned", **changes: Any
) -> MoppoSettings | PeerSettings:
    """Settings by name, over the preset's; of another's method, those of its own among them."""
    return override(settings_type(method).begin(problem, method, preset), **changes)


def override(settings: Settings, /, **changes: Any) -> Settings:
    """``settings`` with some replaced by name, whichever section they belong to; None leaves one alone."""
    changes = {name: _tupled(value) for name, value in changes.items() if value is not None}
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


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, (list, tuple)) else value


# --- deciding what was left open -------------------------------------------------------------------------


@overload
def resolve(settings: MoppoSettings, spec: EnvSpec) -> MoppoConfig: ...
@overload
def resolve(settings: PeerSettings, spec: EnvSpec) -> PeerConfig: ...
@overload
def resolve(settings: RunSettings, spec: EnvSpec) -> RunConfig: ...
def resolve(settings: RunSettings, spec: EnvSpec) -> RunConfig:
    """Decide every setting left open, and check the settings against the problem and each other."""
    settings.check()
    point = settings.reference_point
    require(
        point is None or len(point) == spec.num_objectives,
        f"reference point {point} has {len(point or ())} numbers, "
        f"but {spec.name} has {spec.num_objectives} objectives",
    )
    return settings.resolve(spec)


def resolve_moppo(settings: MoppoSettings, spec: EnvSpec) -> MoppoConfig:
    """Decide what our methods leave open."""
    search = settings.search
    policies = decide_num_policies(search, spec.num_objectives)
    candidates = search.candidates or max(search.active, default_num_candidates(spec.num_objectives))
    require(
        policies * candidates <= MAX_LATTICE_POINTS,
        f"policies is {policies} and candidates {candidates}: their product may not exceed "
        f"{MAX_LATTICE_POINTS} weights; lower --policies or --candidates",
    )
    num_policies, samples = policies * search.replicas, settings.ppo.samples
    iterations = settings.steps // (num_policies * samples)
    require(
        iterations >= 1,
        f"steps is {settings.steps}, too few for one iteration: {num_policies} policies × "
        f"{samples} samples need --steps {num_policies * samples} at least",
    )
    stage = search.stage_iterations or default_stage_iterations(settings, spec.horizon, iterations)
    warmup = search.warmup if search.warmup is not None else max(1, round(iterations / 8 / stage)) * stage
    decided = {
        "policies": policies,
        "candidates": candidates,
        "stage_iterations": stage,
        "warmup": min(warmup, iterations),
        "resample_iterations": search.resample_iterations or stage,
    }
    return MoppoConfig(
        **_fields(settings)
        | {
            "horizon": spec.horizon,
            "reference_point": spec.reference_point,
            "shards": decide_num_shards(settings, num_policies),
            "search": SearchConfig(**_fields(search) | decided),
        }
    )


def resolve_peer(settings: PeerSettings, spec: EnvSpec) -> PeerConfig:
    """Decide what another's method leaves open: weights and evaluations as ours, its own settings as published."""
    ours = comparable_config(settings, spec)
    return PeerConfig(
        **_fields(settings)
        | {
            "problem": settings.problem.removeprefix("ucb_moppo/"),
            "horizon": spec.horizon,
            "reference_point": spec.reference_point,
            "policies": ours.search.policies,
            "probes": ours.search.probes,
            "evaluations": settings.evaluations or ours.num_stages,
            "settings": published_settings(settings.method, settings.problem, settings.settings),
        }
    )


def comparable_config(settings: PeerSettings, spec: EnvSpec) -> MoppoConfig:
    """A run of ours on the same problem, of the same length (at least one iteration), policies and probes."""
    same = {name: getattr(settings, name) for name in ("episodes", "policies", "probes")}
    ours = override(default_settings(settings.problem, settings.preset), horizon=spec.horizon, **same)
    num_policies = decide_num_policies(ours.search, spec.num_objectives) * ours.search.replicas
    return resolve(override(ours, steps=max(settings.steps, num_policies * ours.ppo.samples)), spec)


def decide_num_policies(search: SearchSettings, num_objectives: int) -> int:
    """K: as asked, as many as there are pivots, or the paper's."""
    policies = search.policies or (len(search.pivots) if search.pivots else None)
    policies = policies or default_num_policies(num_objectives)
    require(
        search.pivots is None or len(search.pivots) == policies,
        f"policies is {policies} but {len(search.pivots or ())} pivots are given; leave --policies out",
    )
    return policies


def decide_num_shards(settings: MoppoSettings, num_policies: int) -> int:
    """S: what was asked for, or one per core for a run that is worth starting processes for."""
    if settings.shards is not None:
        require(
            settings.shards <= num_policies,
            f"shards is {settings.shards} but there are only {num_policies} policies; "
            f"give --shards {num_policies} or less",
        )
        return settings.shards
    if settings.executor == AUTO:
        alone = settings.steps < MIN_STEPS_TO_SHARD or not found_by_import(settings.problem)
    else:
        entry = EXECUTORS.entries[settings.executor]
        remedy = f"give --shards with --executor {settings.executor}"
        require(not entry.on_a_cluster, f"how a cluster is used is yours to say: {remedy}")
        alone = entry.in_this_process
    if alone:
        return 1
    return min(len(available_cores()), num_policies)


def default_stage_iterations(settings: MoppoSettings, horizon: int, num_iterations: int) -> int:
    """C: 20, or more where evaluating the probes would cost over a fifth of training, or less in a short run."""
    evaluated = settings.search.probes * settings.episodes * horizon
    wanted = max(20, math.ceil(5 * evaluated / settings.ppo.samples))
    return max(1, min(wanted, num_iterations // 5))


def published_settings(method: str, problem: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of another's method: the published ones for the problem, under those given by name.

    A method of a user's own publishes them by an attribute of that name; without it, what is given stands.
    """
    if method in METHODS:
        publish = import_target(METHODS.entries[method].published, f"method {method}")
    else:
        publish = getattr(METHODS.find(method), "published", None)
    if publish is None:
        return dict(changes)
    published = publish(problem.removeprefix("ucb_moppo/"))
    known = _fields(published)
    for name in changes:
        require(name in known, f"unknown setting {name!r} of {method}; {nearest_names(name, known)}")
    fitting = {name: fit_value(name, value, known[name]) for name, value in changes.items()}
    return dataclasses.asdict(dataclasses.replace(published, **fitting))


def fit_value(name: str, value: Any, like: Any) -> Any:
    """``value`` as the kind of setting that ``like`` is: 1e6 for a count becomes 1000000, a list a tuple."""
    if isinstance(like, tuple) and isinstance(value, (list, tuple)) and value:
        return tuple(fit_value(name, item, like[0]) for item in value)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(like, float) and number:
        return float(value)
    if isinstance(like, int | None) and not isinstance(like, bool) and number and float(value).is_integer():
        return int(value)
    if type(value) is type(like):
        return value
    raise ConfigError(f"{name} is {value!r}; give a value like {like!r}")


def _fields(holder: Any) -> dict[str, Any]:
    """The fields of a dataclass by name."""
    return {f.name: getattr(holder, f.name) for f in dataclasses.fields(holder)}


def from_json(data: Mapping[str, Any]) -> MoppoSettings | PeerSettings:
    """The settings that ``to_json`` made data of; they may also stand flat, outside their section."""
    require(isinstance(data, Mapping) and "problem" in data, "the config names no 'problem'")
    flat = {name: value for name, value in data.items() if name not in (*SECTIONS, OWN)}
    for section in SECTIONS:
        flat |= data.get(section, {})
    chosen = {name: flat.pop(name) for name in ("problem", "method", "preset") if name in flat}
    settings = make_settings(**chosen)
    if OWN in data:  # they may bear any name, also that of a setting of the run
        settings = dataclasses.replace(settings, **settings.take_unknown(dict(data[OWN]), known=()))
    return override(settings, **flat)
