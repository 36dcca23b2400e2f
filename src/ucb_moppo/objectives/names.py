"""Objectives by their names, and numbers given for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.errors import ConfigError, nearest_names


def find_objective(name: str, objectives: Sequence[str]) -> int:
    """The objective that a name means: its own name, a part that no other has, or its number from 1."""
    folded, names = name.strip().casefold(), [objective.casefold() for objective in objectives]
    if folded in names:
        return names.index(folded)
    if folded.isdecimal() and 1 <= int(folded) <= len(names):
        return int(folded) - 1
    having = [j for j, objective in enumerate(names) if folded and folded in objective]
    if len(having) == 1:
        return having[0]
    if having:
        raise ConfigError(f"{name!r} may mean {' or '.join(objectives[j] for j in having)}; give more of its name")
    raise ConfigError(f"there is no objective {name!r}; {nearest_names(name, objectives)}")


def per_objective(given: Mapping[str, float], objectives: Sequence[str], missing: float) -> NDArray:
    """[m] the number given for each objective, by name; ``missing`` where none is."""
    values = np.full(len(objectives), missing)
    for name, value in given.items():
        values[find_objective(name, objectives)] = check_number(name, value)
    return values


def check_number(name: str, value: object) -> float:
    """``value`` as a finite number."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ConfigError(f"{name} is {value!r}; give a number, e.g. {name}=2000") from None
    if not np.isfinite(number):
        raise ConfigError(f"{name} is {value!r}; give a finite number")
    return number
