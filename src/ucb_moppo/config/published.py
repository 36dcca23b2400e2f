"""The settings of others' methods: published ones per problem, under those that were given."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ucb_moppo.config.settings import fields_of
from ucb_moppo.errors import ConfigError, nearest_names, require
from ucb_moppo.registry import METHODS, import_target


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
    known = fields_of(published)
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
