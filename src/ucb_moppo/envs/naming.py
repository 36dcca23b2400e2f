"""What the name of a problem says: where it is registered, which environment it is, and what that is made with."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ucb_moppo.errors import ConfigError

OPTIONS_FROM = "@"


class Name(NamedTuple):
    """The parts of "package.module:fruit-tree-v0@depth=5"."""

    module: str
    """Imported first, so that it registers the environment; empty where none is named."""
    env_id: str
    options: dict[str, Any]
    """What ``gymnasium.make`` is given beside the id."""


def read_name(problem: str) -> Name:
    """The parts of a problem's name; refused where what follows an @ is not name=value, name=value, …"""
    place, _, options = problem.partition(OPTIONS_FROM)
    module, _, env_id = place.rpartition(":")
    pairs = [pair.partition("=") for pair in options.split(",")] if OPTIONS_FROM in problem else []
    names = [name.strip() for name, _, _ in pairs]
    if not all(name.isidentifier() and equals for name, (_, equals, _) in zip(names, pairs, strict=True)):
        raise ConfigError(f"{problem!r}: after {OPTIONS_FROM} come options as in fruit-tree-v0@depth=5,dim=6")
    if len(set(names)) < len(names):
        raise ConfigError(f"{problem!r} gives an option twice; leave one out")
    return Name(module, env_id, {name: read_value(text) for name, (_, _, text) in zip(names, pairs, strict=True)})


def read_value(text: str) -> Any:
    """A number, true, false or null as JSON has them; any other text is itself."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, list | dict) else value
