"""What a run is told before anything is given: the best measured settings, the paper's, or a first look's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from ucb_moppo.config.settings import (
    OWN,
    SECTIONS,
    MoppoSettings,
    PeerSettings,
    RunSettings,
    override,
    settings_type,
)
from ucb_moppo.errors import require

QUICK = {"steps": 1_000_000, "policies": 5, "probes": 8}
TUNED: dict[str, dict[str, Any]] = {
    "Swimmer-v2": {"gamma": 0.999},
    "Ant-v2": {"log_std": -1.0, "policies": 5, "probes": 20},
    "Hopper-v3": {"steps": 18_000_000},
}
"""Where the default departs from the paper, per problem, because a measurement says so."""


def default_settings(problem: str, preset: str = "tuned") -> MoppoSettings:
    """The settings of a preset for a problem, for our methods."""
    name = problem.removeprefix("ucb_moppo/")
    settings = MoppoSettings(problem=name, preset=preset)  # type: ignore[arg-type]
    settings.check()
    if preset == "paper":
        return override(settings, steps=20_000_000 if name != "Hopper-v3" else 72_000_000)
    settings = override(settings, **TUNED.get(name, {}))
    return override(settings, **QUICK) if preset == "quick" else settings


def default_peer_settings(problem: str, preset: str = "tuned") -> PeerSettings:
    """The settings of another's method: as many steps as a run of ours has under the preset."""
    ours = default_settings(problem, preset)
    return PeerSettings(problem=ours.problem, steps=ours.steps, preset=ours.preset)


DEFAULTS: dict[type[RunSettings], Callable[[str, str], MoppoSettings | PeerSettings]] = {
    MoppoSettings: default_settings,
    PeerSettings: default_peer_settings,
}


def make_settings(
    problem: str, method: str = "ucb", preset: str = "tuned", **changes: Any
) -> MoppoSettings | PeerSettings:
    """Settings by name, over the preset's; of another's method, those of its own among them."""
    return override(DEFAULTS[settings_type(method)](problem, preset), method=method, **changes)


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
