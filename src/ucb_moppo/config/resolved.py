"""What settings resolve to: everything that was left open is decided from the problem and the length of the run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial, singledispatch
from itertools import pairwise
from typing import NamedTuple, overload

from ucb_moppo.algos.ppo.ppo_settings import PPOConfig, PPOSettings
from ucb_moppo.config.measuring import decide_measuring
from ucb_moppo.config.presets import default_settings
from ucb_moppo.config.published import published_settings
from ucb_moppo.config.settings import AUTO, MoppoSettings, PeerSettings, RunSettings, fields_of, override
from ucb_moppo.cores import available_cores
from ucb_moppo.envs import found_by_import, read_name, registered_here_alone
from ucb_moppo.errors import require
from ucb_moppo.objectives.goal_settings import GoalSettings
from ucb_moppo.objectives.utility import LINEAR_GOAL, Goal, make_goal, read_floors
from ucb_moppo.objectives.weights import MAX_LATTICE_POINTS, default_num_candidates, default_num_policies
from ucb_moppo.registry import EXECUTORS, UTILITIES
from ucb_moppo.search.search_settings import SearchConfig, SearchSettings, check_search
from ucb_moppo.spec import EnvSpec

NUM_ENVIRONMENTS = 100
"""Environments of a run, over all sub-spaces."""
MIN_ITERATIONS, MIN_CHOICE_ITERATIONS, MIN_ROLLOUT_STEPS = 50, 250, 10
"""A short run has shorter rollouts, down to these, so that it is updated as often as this, or, where actions are
choices, that."""
QUARTER = 0.25
"""Share of a run's steps that evaluation stays under."""
DRAWN, WARMUP = 0.25, 0.125
"""Share of a run before the search begins: on weights drawn at random, or on the pivots in a static layout."""
MIN_SUBSPACES = 4
MIN_STAGES, MAX_STAGES = 3, 20
CHOICE_RATE, CHOICE_ENTROPY, CHOICE_DISCOUNT = 1e-3, 0.2, 0.995
"""Of choices: they settle early on the first that pays, so they are learnt faster, kept open for longer and, in an
episode of many steps, looked further ahead from than this."""
MAX_SCORED_OBJECTIVES = 3
AMPLE_STEPS = 10**9
MIN_STEPS_TO_SHARD = 200_000
"""Training steps below which a run stays in one process unless told otherwise: processes take seconds to start."""


class Division(NamedTuple):
    """Sub-spaces of the simplex and how many weights of each are evaluated: the same for every method."""

    policies: int
    probes: int
    pivots: tuple[tuple[float, ...], ...] | None = None
    replicas: int = 1
    scales: tuple[float, ...] | None = None
    """Weights are spread over objectives divided by these; None: over the objectives as they are."""


@dataclass(frozen=True, kw_only=True)
class MoppoConfig(MoppoSettings):
    """A run of ours with nothing left open: what may still be None (pivots, the address of a cluster) is then not
    given at all, and where it runs (executor, threads) does not change what it computes."""

    horizon: int
    reference_point: tuple[float, ...]
    objective_scales: tuple[float, ...]
    episodes: int
    evaluation_discount: float
    utility_divisions: int
    shards: int
    ppo: PPOConfig = field(default_factory=PPOConfig)
    search: SearchConfig

    def make_goal(self, spec: EnvSpec) -> Goal:
        """What a preference means, for the problem."""
        return make_goal(self.goal, spec, self.objective_scales)

    @property
    def sampled(self) -> bool:
        """Whether evaluations sample actions."""
        return self.goal.actions == "sampled"

    @property
    def accrued_scales(self) -> tuple[float, ...]:
        """What accrued returns are divided by where policies see them; empty: they do not.

        The way from nadir to ideal, or what a horizon of rewards of the objectives' scale would return.
        """
        if self.goal.criterion != "esr":
            return ()
        if self.goal.ideal is None:
            return tuple(scale * self.horizon for scale in self.objective_scales)
        return tuple(high - low for high, low in zip(self.goal.ideal, self.goal.nadir or (), strict=True))

    @property
    def num_subspaces(self) -> int:
        """All that policies are kept for, replicas included."""
        return self.search.policies * self.search.replicas

    @property
    def shared_iterations(self) -> int:
        """Iterations in which one policy learns for all sub-spaces (of a replica)."""
        return self.search.together if self.search.layout == "parting" else 0

    @property
    def rollout_steps(self) -> int:
        """T, steps of every environment in an iteration."""
        return self.search.samples // self.search.active

    @property
    def steps_per_iteration(self) -> int:
        return self.num_subspaces * self.search.samples

    @property
    def num_iterations(self) -> int:
        return self.steps // self.steps_per_iteration

    @property
    def num_stages(self) -> int:
        """Stages of C iterations or less; one always ends with the warm-up, and one where policies part."""
        return sum(math.ceil((b - a) / self.search.stage_iterations) for a, b in pairwise(self.boundaries))

    @property
    def boundaries(self) -> list[int]:
        """Iterations at which a stage always ends: the warm-up's last, the parting, and that of the run."""
        inside = {self.search.warmup, self.shared_iterations} - {0}
        return [0, *sorted(cut for cut in inside if cut < self.num_iterations), self.num_iterations]

    @property
    def division(self) -> Division:
        search = self.search
        return Division(search.policies, search.probes, search.pivots, search.replicas, self.objective_scales)


@dataclass(frozen=True, kw_only=True)
class PeerConfig(PeerSettings):
    """A run of another's method with nothing left open."""

    horizon: int
    reference_point: tuple[float, ...]
    objective_scales: tuple[float, ...]
    episodes: int
    evaluation_discount: float
    utility_divisions: int
    policies: int
    probes: int
    evaluations: int

    def make_goal(self, spec: EnvSpec) -> Goal:
        """What a preference means: a weighted sum."""
        return LINEAR_GOAL

    @property
    def sampled(self) -> bool:
        """Whether evaluations sample actions: others' policies are deterministic."""
        return False

    @property
    def accrued_scales(self) -> tuple[float, ...]:
        """Others' policies see what their environments show."""
        return ()

    @property
    def num_iterations(self) -> int:
        """Progress is counted in steps."""
        return self.steps

    @property
    def steps_per_iteration(self) -> int:
        return 1

    @property
    def division(self) -> Division:
        return Division(self.policies, self.probes, scales=self.objective_scales)


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
    for name in ("reference_point", "objective_scales"):
        numbers = getattr(settings, name)
        require(
            numbers is None or len(numbers) == spec.num_objectives,
            f"{name} {numbers} has {len(numbers or ())} numbers, "
            f"but {spec.name} has {spec.num_objectives} objectives",
        )
    return decide(settings, spec)


def decide_scales(settings: RunSettings, spec: EnvSpec) -> tuple[float, ...]:
    """Those given, else none: objectives as they are."""
    return settings.objective_scales or (1.0,) * spec.num_objectives


@singledispatch
def decide(settings: RunSettings, spec: EnvSpec) -> RunConfig:
    """Decide what was left open, by the kind of settings."""
    raise TypeError(f"{type(settings).__name__} says nothing about a method")


@decide.register
def resolve_moppo(settings: MoppoSettings, spec: EnvSpec) -> MoppoConfig:
    """Decide what our methods leave open."""
    search, ppo = settings.search, settings.ppo
    policies = decide_num_policies(search, spec.num_objectives, settings.steps // spec.horizon)
    active = search.active or max(1, NUM_ENVIRONMENTS // policies)
    environments = policies * search.replicas * active
    least = MIN_CHOICE_ITERATIONS if spec.action.chosen else MIN_ITERATIONS
    samples = search.samples or active * decide_rollout_steps(search.rollout, settings.steps // least, environments)
    candidates = search.candidates or max(active, default_num_candidates(spec.num_objectives))
    require(
        policies * candidates <= MAX_LATTICE_POINTS,
        f"policies is {policies} and candidates {candidates}: their product may not exceed "
        f"{MAX_LATTICE_POINTS} weights; lower --policies or --candidates",
    )
    subspaces = policies * search.replicas
    iterations = settings.steps // (subspaces * samples)
    require(
        iterations >= 1,
        f"steps is {settings.steps}, too few for one iteration: {subspaces} policies × "
        f"{samples} samples need --steps {subspaces * samples} at least",
    )
    simulated = candidates if search.candidate_values == "simulate" else 0
    effort = decide_evaluation(settings, subspaces, spec.horizon, iterations, simulated)
    if search.warmup is None:
        effort = leave_a_search(effort, subspaces, spec.horizon, iterations * subspaces * samples, simulated)
    stage, warmup = decide_stages(search, effort.stages, iterations)
    parting = search.layout == "parting"
    together = iterations if search.together is None else search.together
    episode = math.ceil(spec.horizon * active / samples)
    decided = {
        "policies": policies,
        "candidates": candidates,
        "active": active,
        "samples": samples,
        "probes": effort.probes,
        "stage_iterations": stage,
        "warmup": min(warmup, iterations),
        "together": min(together, iterations),
        "acquisition": search.acquisition or decide_acquisition(spec.num_objectives, settings.goal),
        "resample_iterations": search.resample_iterations or (episode if parting else stage),
    }
    check_search(SearchConfig(**fields_of(search) | decided))
    return MoppoConfig(
        **fields_of(settings)
        | decide_measuring(settings, spec.num_objectives)
        | {
            "horizon": spec.horizon,
            "reference_point": spec.reference_point,
            "objective_scales": decide_scales(settings, spec),
            "episodes": effort.episodes,
            "shards": decide_num_shards(settings, subspaces),
            "ppo": decide_learning(ppo, spec, settings.goal),
            "goal": decide_goal(settings, spec),
            "search": SearchConfig(**fields_of(search) | decided),
        }
    )


class Effort(NamedTuple):
    """What a run spends on evaluation: probes of each sub-space, episodes of each, stages that end in it."""

    probes: int
    episodes: int
    stages: int


def decide_evaluation(
    settings: MoppoSettings, subspaces: int, horizon: int, iterations: int, simulated: int = 0
) -> Effort:
    """As much as takes a fifth of the training steps, if every episode lasted to the horizon.

    Where that is little, there are fewer probes, down to one, before there are fewer than three stages.
    ``simulated`` are candidates of each sub-space that are evaluated beside the probes.
    """
    search, budget = settings.search, settings.steps / 5
    cost = partial(evaluation_cost, subspaces=subspaces, horizon=horizon, simulated=simulated)
    choices = [
        Effort(search.probes or probes, settings.episodes or episodes, MIN_STAGES)
        for probes, episodes in ((8, 2), (8, 1), (5, 1), (3, 1), (2, 1), (1, 1))
    ]
    chosen = next((effort for effort in choices if cost(effort) <= budget), choices[-1])
    affordable = int(budget // cost(chosen._replace(stages=0))) - 1
    return chosen._replace(stages=max(1, min(affordable, MAX_STAGES, iterations)))


def evaluation_cost(effort: Effort, *, subspaces: int, horizon: int, simulated: int) -> int:
    """Steps of an evaluation before training and one after every stage, if every episode lasts to the horizon."""
    return subspaces * (effort.probes + simulated) * effort.episodes * horizon * (effort.stages + 1)


def leave_a_search(effort: Effort, subspaces: int, horizon: int, steps: int, simulated: int = 0) -> Effort:
    """Two stages at least, the second of which searches.

    One, where that alone keeps evaluation under a quarter of the training ``steps``; but whoever has candidates
    simulated wants them searched.
    """
    cost = partial(evaluation_cost, subspaces=subspaces, horizon=horizon, simulated=simulated)
    one, two = (cost(effort._replace(stages=stages)) for stages in (1, 2))
    spared = one < QUARTER * steps <= two and not simulated
    return effort._replace(stages=max(1 if spared else 2, effort.stages))


def decide_stages(search: SearchSettings, stages: int, iterations: int) -> tuple[int, int]:
    """C and Q: the run in so many ``stages``, the first of them warm-up.

    About a quarter of the run is, an eighth in a static layout, in whole stages. Where stages are given that are as
    long as the run, it is a part of one, so that something is left to search.
    """
    stage = search.stage_iterations or math.ceil(iterations / stages)
    if search.warmup is not None:
        return stage, search.warmup
    share = DRAWN if search.layout == "parting" else WARMUP
    warmup = max(1, round(iterations * share / stage)) * stage
    if warmup >= iterations and search.stage_iterations is not None:
        warmup = max(1, round(iterations * share))
    return stage, warmup


@decide.register
def resolve_peer(settings: PeerSettings, spec: EnvSpec) -> PeerConfig:
    """Decide what another's method leaves open: weights and evaluations as ours, its own settings as published."""
    ours = comparable_config(settings, spec)
    return PeerConfig(
        **fields_of(settings)
        | decide_measuring(settings, spec.num_objectives)
        | {
            "problem": settings.problem.removeprefix("ucb_moppo/"),
            "horizon": spec.horizon,
            "reference_point": spec.reference_point,
            "objective_scales": decide_scales(settings, spec),
            "episodes": ours.episodes,
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
    ample = resolve(override(ours, steps=max(settings.steps, AMPLE_STEPS)), spec)
    return resolve(override(ours, steps=max(settings.steps, ample.steps_per_iteration)), spec)


def decide_goal(settings: MoppoSettings, spec: EnvSpec) -> GoalSettings:
    """The goal with its nadir, and floors by the whole names of objectives; refused where it does not fit."""
    goal = settings.goal
    if goal.is_linear:
        return goal
    discount = decide_measuring(settings, spec.num_objectives)["evaluation_discount"]
    require(
        discount == 1,
        f"utility is {goal.utility}, which is taken of undiscounted returns, but these are discounted by "
        f"{discount}: leave out --evaluation-discount and --protocol cmorl",
    )
    floors = tuple(f"{name}={value!r}" for name, value in read_floors(goal.floors, spec.objectives))
    decided = replace(goal, nadir=goal.nadir or spec.reference_point, floors=floors)
    if goal.utility in UTILITIES:
        make_goal(decided, spec, settings.objective_scales)
    return decided


def decide_learning(ppo: PPOSettings, spec: EnvSpec, goal: GoalSettings) -> PPOConfig:
    """What was left open: PPO's usual values, or those for choices, which must be tried to an episode's end.

    Differences of a utility add up to it without a discount only.
    """
    usual = {"gamma": 0.99, "learning_rate": 3e-4, "entropy_coefficient": 0.0, "cells": 128}
    if spec.action.chosen:
        usual = {
            "gamma": max(CHOICE_DISCOUNT, 1 - 2 / spec.horizon),
            "learning_rate": CHOICE_RATE,
            "entropy_coefficient": CHOICE_ENTROPY / max(1, len(spec.action.choices)),  # entropies add up
            "cells": 64,
        }
    if goal.criterion == "esr":
        usual |= {"gamma": 1.0}
    given = {name: value for name, value in fields_of(ppo).items() if value is not None}
    return PPOConfig(**usual | given)


def decide_acquisition(num_objectives: int, goal: GoalSettings) -> str:
    """The hypervolume where it can be computed often enough and weights say it all, else the expected utility."""
    return "hypervolume" if goal.is_linear and num_objectives <= MAX_SCORED_OBJECTIVES else "expected_utility"


def decide_rollout_steps(rollout: int, samples: int, environments: int) -> int:
    """T: as long as asked for, if all environments together then take ``samples`` an iteration or fewer."""
    return min(rollout, max(MIN_ROLLOUT_STEPS, samples // environments))


def decide_num_policies(search: SearchSettings, num_objectives: int, episodes: int) -> int:
    """K: as asked, as many as there are pivots, the paper's in its layout, or two per objective.

    Fewer, down to four, where a run of so many ``episodes`` could not evaluate each twice within a fifth of it.
    """
    policies = search.policies or (len(search.pivots) if search.pivots else None)
    if policies is None and search.layout == "static":
        policies = default_num_policies(num_objectives)
    elif policies is None:
        policies = min(2 * num_objectives, max(MIN_SUBSPACES, episodes // 10))
    require(
        search.pivots is None or len(search.pivots) == policies,
        f"policies is {policies} but {len(search.pivots or ())} pivots are given; leave --policies out",
    )
    return policies


def decide_num_shards(settings: MoppoSettings, num_subspaces: int) -> int:
    """S: what was asked for, or one per core for a run that is worth starting processes for."""
    check_found_elsewhere(settings)
    if settings.shards is not None:
        require(
            settings.shards <= num_subspaces,
            f"shards is {settings.shards} but there are only {num_subspaces} policies; "
            f"give --shards {num_subspaces} or less",
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
    return min(len(available_cores()), num_subspaces)


def check_found_elsewhere(settings: MoppoSettings) -> None:
    """Refuse processes or a cluster for a problem that they could not find by its name."""
    if settings.executor == AUTO or EXECUTORS.entries[settings.executor].in_this_process:
        return
    require(
        not registered_here_alone(settings.problem),
        f"{settings.problem!r} is registered by this program alone; put it into a module and name it "
        f"module:{read_name(settings.problem).env_id}, so that other processes find it, or leave --executor out",
    )
