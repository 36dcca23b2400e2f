"""What a run is told before anything is given: the best measured settings, the paper's, or a first look's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from ucb_moppo.config.given import check_given
from ucb_moppo.config.measuring import measured_before
from ucb_moppo.config.settings import (
    OWN,
    SECTIONS,
    MoppoSettings,
    PeerSettings,
    RunSettings,
    override,
    settings_type,
)
from ucb_moppo.envs import find_problem, published_objectives, read_name
from ucb_moppo.errors import require
from ucb_moppo.objectives.weights import default_num_policies
from ucb_moppo.search.search_settings import SearchSettings

Kind = TypeVar("Kind", bound=MoppoSettings | PeerSettings)

QUICK = {"steps": 500_000}
PAPER: dict[str, Any] = {
    "layout": "static",
    "active": 10,
    "samples": 2500,
    "stagger": False,
    "stage_iterations": 20,
    "probes": 10,
    "episodes": 1,
    "replicas": 3,
    "candidate_values": "simulate",
    "surrogate": "elastic_net",
    "confidence": "objectives",
    "selection": "sequential",
    "acquisition": "hypervolume",
    "gamma": 0.99,
    "learning_rate": 3e-4,
    "entropy_coefficient": 0.0,
    "cells": 64,
    "target_kl": 0.0,
    "decay": False,
    "normalise_observations": False,
}
"""The paper's values: 2,500 samples of ten environments, three policies for each pivot that are merged, every
candidate simulated, and Stable-Baselines3's PPO: a constant learning rate, and observations as they come. Its
warm-up, 100 iterations of 800, is the eighth of the run that any static layout has."""
PAPER_SAMPLES = 2_000_000
"""Training steps of each of the paper's policies."""
BODIES: dict[str, dict[str, Any]] = {
    "swimmer": {"gamma": 0.9999, "rollout": 100, "cells": 64, "stagger": False},
    "half cheetah": {"gae_lambda": 0.9, "log_std": -0.7, "rollout": 25},
    "walker": {"gae_lambda": 0.9},
    "ant": {"log_std": -1.0, "rollout": 25, "entropy_coefficient": 0.005, "target_kl": 0.02},
    "hopper": {"rollout": 100},
    "humanoid": {"gamma": 0.97, "gae_lambda": 0.9, "log_std": -1.5, "minibatch": 256, "target_kl": 0.02},
    "lander": {"objective_scales": (1.0,) * 4},
    "lander with choices": {
        "objective_scales": (1.0,) * 4,
        "learning_rate": 3e-4,
        "entropy_coefficient": 0.05,
    },
}
"""Where the default departs from that of any problem, because a measurement on one of these bodies says so."""
TUNED: dict[str, dict[str, Any]] = {
    problem: BODIES[body]
    for body, problems in {
        "swimmer": ("Swimmer-v2", "mo-swimmer-v5"),
        "half cheetah": ("HalfCheetah-v2", "mo-halfcheetah-v5"),
        "walker": ("Walker2d-v2", "mo-walker2d-v5"),
        "ant": ("Ant-v2", "mo-ant-v5", "mo-ant-2obj-v5"),
        "hopper": ("Hopper-v2", "Hopper-v3", "mo-hopper-v5", "mo-hopper-2obj-v5"),
        "humanoid": ("mo-humanoid-v5",),
        "lander": ("mo-lunar-lander-continuous-v3",),
        "lander with choices": ("mo-lunar-lander-v3",),
    }.items()
    for problem in problems
}
"""The same body learns alike under other rewards."""


def default_settings(problem: str, preset: str = "tuned") -> MoppoSettings:
    """The settings of a preset for a problem, for our methods."""
    check_is_name(problem)
    name = problem.removeprefix("ucb_moppo/")
    settings = MoppoSettings(problem=name, preset=preset)  # type: ignore[arg-type]
    settings.check()
    if preset == "paper":
        return with_paper_steps(override(settings, **PAPER))
    settings = override(settings, **TUNED.get(read_name(name).env_id, {}))
    return override(settings, **QUICK) if preset == "quick" else settings


def check_is_name(problem: object) -> None:
    """Refuse an environment, or its class, where its id is needed: every process makes environments of its own."""
    made = getattr(getattr(problem, "spec", None), "id", None)
    kind = problem.__name__ if isinstance(problem, type) else type(problem).__name__
    require(
        isinstance(problem, str),
        f"problem is a {kind}; give its id as text, "
        + (f"{made!r}" if made else "e.g. 'mo-hopper-v5'")
        + ", or 'package.module:id' for an environment that a module of yours registers with Gymnasium",
    )


def with_paper_steps(settings: Kind) -> Kind:
    """The paper's steps for every policy that is asked for, under the preset `paper`; others as they are.

    Another's method has as many as the run of ours that it is compared with.
    """
    if settings.preset != "paper":
        return settings
    if isinstance(settings, MoppoSettings):
        search = settings.search
    else:
        search = SearchSettings(policies=settings.policies, replicas=PAPER["replicas"])
    usual = default_num_policies(count_objectives(settings.problem))
    policies = search.policies or len(search.pivots or ()) or usual
    return override(settings, steps=search.replicas * policies * PAPER_SAMPLES)


def count_objectives(problem: str) -> int:
    """Objectives of a native or a published problem; two, as most have, of one that nothing is known of here."""
    native = find_problem(problem)
    return len(native.objectives if native else published_objectives(problem)) or 2


def default_peer_settings(problem: str, preset: str = "tuned") -> PeerSettings:
    """The settings of another's method: as many steps as a run of ours has under the preset."""
    ours = default_settings(problem, preset)
    return PeerSettings(
        problem=ours.problem, steps=ours.steps, preset=ours.preset, objective_scales=ours.objective_scales
    )


DEFAULTS: dict[type[RunSettings], Callable[[str, str], MoppoSettings | PeerSettings]] = {
    MoppoSettings: default_settings,
    PeerSettings: default_peer_settings,
}


def make_settings(
    problem: str, method: str = "ucb", preset: str = "tuned", **changes: Any
) -> MoppoSettings | PeerSettings:
    """Settings by name, over the preset's; of another's method, those of its own among them."""
    settings = override(DEFAULTS[settings_type(method)](problem, preset), method=method, **changes)
    return settle(settings, {name for name, value in changes.items() if value is not None})


def settle(settings: Kind, given: Collection[str], read: Collection[str] = ()) -> Kind:
    """The settings with what follows from others of them, if it is neither ``given`` nor ``read`` from a file.

    Refused where what is given has no effect; a file may hold everything that a run has decided.
    """
    check_given(settings, given)
    known = {*given, *read}
    settings = settings if "steps" in known else with_paper_steps(settings)
    return settings if "gamma" in known else leave_discount_open(settings)


def leave_discount_open(settings: Kind) -> Kind:
    """Forget a preset's discount where it is one for sums: differences of a utility add up to it without any."""
    if not isinstance(settings, MoppoSettings) or settings.goal.criterion != "esr":
        return settings
    return dataclasses.replace(settings, ppo=dataclasses.replace(settings.ppo, gamma=None))


def from_run(config: Mapping[str, Any]) -> MoppoSettings | PeerSettings:
    """The settings of a run that was trained, from its config; what is newer than it was as it was then."""
    return from_json({**config, **measured_before(config)} if isinstance(config, Mapping) else config)


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
    return settle(override(settings, **flat), (), {name for name, value in flat.items() if value is not None})
