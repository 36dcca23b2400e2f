"""Settings: frozen dataclasses, checked on construction, with presets and a JSON round trip.

A setting left at None is decided from the problem and the length of the run (see ``resolve``); the
``config.json`` of a run holds what was decided.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

import tyro

from ucb_moppo.cores import available_cores
from ucb_moppo.envs import found_by_import
from ucb_moppo.errors import ConfigError, nearest_names
from ucb_moppo.objectives.weights import MAX_LATTICE_POINTS, default_num_candidates, default_num_policies
from ucb_moppo.spec import EnvSpec

MethodName = Literal["ucb", "mean", "random", "fixed"]
PresetName = Literal["tuned", "paper", "quick"]
SelectionName = Literal["sequential", "top_n"]
ExecutorName = Literal["auto", "local", "processes", "ray"]
ProtocolName = Literal["gymnasium", "pgmorl"]
ValueSource = Literal["probes", "simulate"]


def hint(default: str) -> Any:
    """Help of a setting that is decided from the problem or the run: says how."""
    return tyro.conf.arg(help_behavior_hint=f"(default: {default})")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


@dataclass(frozen=True)
class PPOConfig:
    """How each policy learns."""

    gamma: float = 0.99
    """Discount factor of training (evaluation is undiscounted)."""
    gae_lambda: float = 0.95
    """λ of generalised advantage estimation."""
    clip: float = 0.2
    """PPO's clip range ε."""
    epochs: int = 10
    """Passes over each rollout."""
    minibatch: int = 64
    """Samples per gradient step."""
    samples: int = 2500
    """Samples per policy and iteration, shared by its environments."""
    learning_rate: float = 3e-4
    """Adam's learning rate."""
    decay: bool = True
    """Decay the learning rate linearly to zero over the run."""
    adam_epsilon: float = 1e-5
    """Adam's ε."""
    max_grad_norm: float = 0.5
    """Largest norm of a gradient, for actor and critic apart."""
    value_coefficient: float = 0.5
    """Weight of the value loss."""
    entropy_coefficient: float = 0.0
    """Weight of the entropy bonus."""
    cells: int = 64
    """Width of the two hidden layers of actor and critic."""
    log_std: float = 0.0
    """Initial log standard deviation of Box actions."""
    normalise_observations: bool = True
    """Normalise observations by their running mean and variance (frozen at evaluation)."""

    def __post_init__(self) -> None:
        for name in ("gamma", "gae_lambda"):
            value = getattr(self, name)
            _require(0 <= value <= 1, f"{name} is {value}; it must lie in [0, 1]")
        for name in ("epochs", "minibatch", "samples", "cells"):
            value = getattr(self, name)
            _require(value >= 1, f"{name} is {value}; it must be at least 1")
        for name in ("clip", "learning_rate", "adam_epsilon", "max_grad_norm"):
            value = getattr(self, name)
            _require(0 < value < math.inf, f"{name} is {value}; it must be a positive number")
        for name in ("value_coefficient", "entropy_coefficient", "log_std"):
            value = getattr(self, name)
            _require(math.isfinite(value), f"{name} is {value}; it must be a finite number")

    @property
    def num_minibatches(self) -> int:
        """Gradient steps per epoch; the few samples left over take another turn in the next shuffle."""
        return max(1, self.samples // self.minibatch)


@dataclass(frozen=True)
class SearchConfig:
    """How the preference simplex is divided and which weights are trained on."""

    policies: Annotated[int | None, hint("10 for 2 objectives, 36 for 3")] = None
    """K, sub-spaces of the simplex with a policy each."""
    candidates: Annotated[int | None, hint("100 for 2 objectives, 117 for more")] = None
    """M, candidate weights in each sub-space."""
    active: int = 10
    """N, weights each policy trains on at a time, with one environment each."""
    replicas: int = 1
    """R, independent policies per sub-space, merged into one front."""
    pivots: Annotated[tuple[tuple[float, ...], ...] | None, tyro.conf.Suppress] = None
    """Explicit pivots, one weight per sub-space (default: spread evenly)."""
    stage_iterations: Annotated[int | None, hint("20, more where evaluation is dear, less in a short run")] = None
    """C, iterations between two evaluations."""
    warmup: Annotated[int | None, hint("an eighth of the run, in whole stages")] = None
    """Q, iterations on the pivots alone."""
    resample_iterations: Annotated[int | None, hint("every stage")] = None
    """RF, iterations after which method `random` draws again."""
    selection: SelectionName = "sequential"
    """Pick one weight at a time, each seeing those before it, or score once and take the best N."""
    candidate_values: ValueSource = "probes"
    """Where candidates' values come from: interpolated between probes, or simulating every candidate."""
    probes: int = 10
    """P, weights evaluated in each sub-space at every stage; they also make the front."""
    ensemble: int = 10
    """B, members of the bagged surrogate."""
    surrogate_alpha: float = 0.1
    """Strength of the surrogate's elastic-net penalty, on standardised data."""
    surrogate_l1_ratio: float = 0.5
    """Share of the L1 norm in that penalty."""

    def __post_init__(self) -> None:
        for name in ("policies", "candidates", "active", "replicas", "stage_iterations", "probes"):
            value = getattr(self, name)
            _require(value is None or value >= 1, f"{name} is {value}; it must be at least 1")
        _require(
            0 < self.surrogate_alpha < math.inf and 0 <= self.surrogate_l1_ratio <= 1,
            f"surrogate_alpha is {self.surrogate_alpha} and surrogate_l1_ratio {self.surrogate_l1_ratio}; "
            f"the first must be positive, the second lie in [0, 1]",
        )
        _require(self.ensemble >= 2, f"ensemble is {self.ensemble}; the uncertainty needs at least 2 members")
        for name in ("warmup", "resample_iterations"):
            value = getattr(self, name)
            _require(value is None or value >= 0, f"{name} is {value}; it must not be negative")
        for name, kind in (("selection", SelectionName), ("candidate_values", ValueSource)):
            value, known = getattr(self, name), get_args(kind)
            _require(value in known, f"unknown {name} {value!r}; {nearest_names(value, known)}")
        if self.candidates is not None:
            _require(
                self.active <= self.candidates,
                f"active is {self.active} but each sub-space has only {self.candidates} candidates; "
                f"lower --active or raise --candidates",
            )


@dataclass(frozen=True)
class Config:
    """A whole run."""

    problem: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PROBLEM", help_behavior_hint="")]
    """One of the six problems, an MO-Gymnasium id, or package.module:env-id."""
    method: MethodName = "ucb"
    """ucb: optimistic hypervolume; mean: without the uncertainty; random: random weights; fixed: pivots only."""
    seed: int = 0
    """Seed of everything random; the same seed gives the same bits."""
    steps: int = 5_000_000
    """Training steps over all policies."""
    protocol: ProtocolName = "gymnasium"
    """How the six problems are set up: Gymnasium's models and 1,000 steps, or PGMORL's changes to them and 500."""
    horizon: Annotated[int | None, hint("the problem's own")] = None
    """Episode length in training and evaluation."""
    reference_point: Annotated[tuple[float, ...] | None, hint("the problem's own")] = None
    """Reference point of the hypervolume, a number per objective."""
    episodes: int = 1
    """Evaluation episodes per weight."""
    threads: int = 0
    """Simulation threads of each shard (0: one per core that it has or may be lent)."""
    executor: ExecutorName = "auto"
    """Where shards of policies run: in this process, in processes of this machine, or in a Ray cluster."""
    shards: Annotated[int | None, hint("one per core, 1 for a short run and for --executor local")] = None
    """S, groups of policies that train side by side; part of what the last bits of a result depend on."""
    ray_address: Annotated[str | None, hint("a Ray of its own on this machine")] = None
    """Address of a running Ray cluster, for --executor ray."""
    checkpoint_stages: int = 1
    """Stages from one checkpoint to the next; more where saving would take over 2% of the time."""
    checkpoint_seconds: float = 60.0
    """Save within a stage too once the last checkpoint is this old."""
    preset: PresetName = "tuned"
    """tuned: best measured settings per problem; paper: the paper's values; quick: a first look in minutes."""
    ppo: Annotated[PPOConfig, tyro.conf.arg(name="")] = field(default_factory=PPOConfig)
    search: Annotated[SearchConfig, tyro.conf.arg(name="")] = field(default_factory=SearchConfig)

    def __post_init__(self) -> None:
        choices = {"method": MethodName, "preset": PresetName, "protocol": ProtocolName, "executor": ExecutorName}
        for name, kind in choices.items():
            value, known = getattr(self, name), get_args(kind)
            _require(value in known, f"unknown {name} {value!r}; {nearest_names(value, known)}")
        _require(self.shards is None or self.shards >= 1, f"shards is {self.shards}; it must be at least 1")
        for name in ("steps", "episodes", "checkpoint_stages"):
            value = getattr(self, name)
            _require(value >= 1, f"{name} is {value}; it must be at least 1")
        _require(
            0 <= self.checkpoint_seconds < math.inf,
            f"checkpoint_seconds is {self.checkpoint_seconds}; it must be a number from 0",
        )
        _require(0 <= self.seed < 2**32, f"seed is {self.seed}; it must lie in [0, 2**32)")
        _require(self.threads >= 0, f"threads is {self.threads}; it must not be negative")
        _require(self.horizon is None or self.horizon >= 1, f"horizon is {self.horizon}; it must be at least 1")
        _require(
            self.ppo.samples % self.search.active == 0,
            f"samples ({self.ppo.samples}) must be a multiple of active ({self.search.active}), "
            f"so that every environment takes the same number of steps",
        )

    @property
    def num_policies(self) -> int:
        """All policies of a resolved run, replicas included."""
        assert self.search.policies is not None
        return self.search.policies * self.search.replicas

    @property
    def num_shards(self) -> int:
        """Shards of a resolved run."""
        assert self.shards is not None
        return self.shards

    @property
    def rollout_steps(self) -> int:
        return self.ppo.samples // self.search.active

    @property
    def steps_per_iteration(self) -> int:
        return self.num_policies * self.ppo.samples

    @property
    def num_iterations(self) -> int:
        return self.steps // self.steps_per_iteration


MIN_STEPS_TO_SHARD = 200_000
"""Training steps below which a run stays in one process unless told otherwise: processes take seconds to start."""

SECTIONS = {"ppo": PPOConfig, "search": SearchConfig}

QUICK = {"steps": 1_000_000, "policies": 5, "probes": 8}
TUNED: dict[str, dict[str, Any]] = {
    "Swimmer-v2": {"gamma": 0.999},
    "Ant-v2": {"log_std": -1.0, "policies": 5, "probes": 20},
    "Hopper-v3": {"steps": 18_000_000},
}
"""Where the default departs from the paper, per problem, because a measurement says so."""


def default_config(problem: str, preset: str = "tuned") -> Config:
    """The settings of a preset for a problem."""
    name = problem.removeprefix("ucb_moppo/")
    config = Config(problem=name, preset=preset)  # type: ignore[arg-type]
    if preset == "paper":
        return override(config, steps=20_000_000 if name != "Hopper-v3" else 72_000_000)
    config = override(config, **TUNED.get(name, {}))
    return override(config, **QUICK) if preset == "quick" else config


def override(config: Config, **changes: Any) -> Config:
    """``config`` with settings replaced by name, whichever section they belong to; None leaves one alone."""
    changes = {name: _tupled(value) for name, value in changes.items() if value is not None}
    own = {f.name for f in dataclasses.fields(Config)} - set(SECTIONS)
    sections = {}
    known = set(own)
    for section, kind in SECTIONS.items():
        names = {f.name for f in dataclasses.fields(kind)}
        known |= names
        mine = {name: value for name, value in changes.items() if name in names}
        sections[section] = dataclasses.replace(getattr(config, section), **mine)
    for name in changes:
        _require(name in known, f"unknown setting {name!r}; {nearest_names(name, known)}")
    top = {name: value for name, value in changes.items() if name in own}
    return dataclasses.replace(config, **top, **sections)


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, (list, tuple)) else value


def resolve(config: Config, spec: EnvSpec) -> Config:
    """Decide every setting left open, and check the settings against the problem and each other."""
    search = config.search
    if config.reference_point is not None:
        _require(
            len(config.reference_point) == spec.num_objectives,
            f"reference point {config.reference_point} has {len(config.reference_point)} numbers, "
            f"but {spec.name} has {spec.num_objectives} objectives",
        )
    policies = search.policies or (len(search.pivots) if search.pivots else None)
    policies = policies or default_num_policies(spec.num_objectives)
    _require(
        search.pivots is None or len(search.pivots) == policies,
        f"policies is {policies} but {len(search.pivots or ())} pivots are given; leave --policies out",
    )
    config = override(
        config,
        policies=policies,
        candidates=search.candidates or max(search.active, default_num_candidates(spec.num_objectives)),
        horizon=spec.horizon,
        reference_point=spec.reference_point,
    )
    _require(
        policies * (config.search.candidates or 1) <= MAX_LATTICE_POINTS,
        f"policies is {policies} and candidates {config.search.candidates}: their product may not exceed "
        f"{MAX_LATTICE_POINTS} weights; lower --policies or --candidates",
    )
    iterations = config.num_iterations
    _require(
        iterations >= 1,
        f"steps is {config.steps}, too few for one iteration: {config.num_policies} policies × "
        f"{config.ppo.samples} samples need --steps {config.steps_per_iteration} at least",
    )
    stage = search.stage_iterations or default_stage_iterations(config)
    warmup = search.warmup if search.warmup is not None else max(1, round(iterations / 8 / stage)) * stage
    return override(
        config,
        stage_iterations=stage,
        warmup=min(warmup, iterations),
        resample_iterations=search.resample_iterations or stage,
        shards=resolve_shards(config),
    )


def resolve_shards(config: Config) -> int:
    """S: what was asked for, or one per core for a run that is worth starting processes for."""
    policies = config.num_policies
    if config.shards is not None:
        _require(
            config.shards <= policies,
            f"shards is {config.shards} but there are only {policies} policies; give --shards {policies} or less",
        )
        return config.shards
    _require(config.executor != "ray", "how a cluster is used is yours to say: give --shards with --executor ray")
    short = config.steps < MIN_STEPS_TO_SHARD or not found_by_import(config.problem)
    if config.executor == "local" or (config.executor == "auto" and short):
        return 1
    return min(len(available_cores()), policies)


def default_stage_iterations(config: Config) -> int:
    """C: 20, or more where evaluating the probes would cost over a fifth of training, or less in a short run."""
    assert config.horizon is not None
    evaluated = config.search.probes * config.episodes * config.horizon
    wanted = max(20, math.ceil(5 * evaluated / config.ppo.samples))
    return max(1, min(wanted, config.num_iterations // 5))


def to_json(config: Config) -> dict[str, Any]:
    """Plain data for ``config.json``."""
    return dataclasses.asdict(config)


def from_json(data: Mapping[str, Any]) -> Config:
    """The config that ``to_json`` made data of; settings may also stand flat, outside their section."""
    _require(isinstance(data, Mapping) and "problem" in data, "the config names no 'problem'")
    flat = {name: value for name, value in data.items() if name not in SECTIONS}
    for section in SECTIONS:
        flat |= data.get(section, {})
    problem, preset = flat.pop("problem"), flat.pop("preset", "tuned")
    return override(default_config(problem, preset), **flat)
