"""What settings resolve to: everything that was left open is decided from the problem and the length of the run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch
from typing import NamedTuple, overload

from ucb_moppo.config.presets import default_settings
from ucb_moppo.config.published import published_settings
from ucb_moppo.config.settings import AUTO, MoppoSettings, PeerSettings, RunSettings, fields_of, override
from ucb_moppo.cores import available_cores
from ucb_moppo.envs import found_by_import
from ucb_moppo.errors import require
from ucb_moppo.objectives.weights import MAX_LATTICE_POINTS, default_num_candidates, default_num_policies
from ucb_moppo.registry import EXECUTORS
from ucb_moppo.search.search_settings import SearchConfig, SearchSettings
from ucb_moppo.spec import EnvSpec

MIN_STEPS_TO_SHARD = 200_000
"""Training steps below which a run stays in one process unless told otherwise: processes take seconds to start."""


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
    return decide(settings, spec)


@singledispatch
def decide(settings: RunSettings, spec: EnvSpec) -> RunConfig:
    """Decide what was left open, by the kind of settings."""
    raise TypeError(f"{type(settings).__name__} says nothing about a method")


@decide.register
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
        **fields_of(settings)
        | {
            "horizon": spec.horizon,
            "reference_point": spec.reference_point,
            "shards": decide_num_shards(settings, num_policies),
            "search": SearchConfig(**fields_of(search) | decided),
        }
    )


@decide.register
def resolve_peer(settings: PeerSettings, spec: EnvSpec) -> PeerConfig:
    """Decide what another's method leaves open: weights and evaluations as ours, its own settings as published."""
    ours = comparable_config(settings, spec)
    return PeerConfig(
        **fields_of(settings)
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
