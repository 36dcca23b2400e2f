"""What kind of value a setting takes: told in words, and refused where it is another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import ValidationError, inspect

from ucb_moppo.errors import ConfigError


def check_types(settings: Mapping[str, Any], types: Mapping[str, Any]) -> None:
    """Refuse settings of another type than theirs, e.g. 2.5e6 or "2500000" steps."""
    for name, value in settings.items():
        info = inspect.type_info(types.get(name, Any))
        if isinstance(value, str) and isinstance(info, inspect.LiteralType):
            continue  # which names there are is the config's to say: it knows the nearest
        try:
            msgspec.convert(value, types.get(name, Any))
        except ValidationError as fault:
            within = f" ({fault})" if isinstance(value, list | tuple) else ""
            raise ConfigError(f"{name} is {value!r}; it must be {describe_type(info)}{within}") from fault


WORDS: dict[type[inspect.Type], str] = {
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.StrType: "text",
    inspect.LiteralType: "text",
    inspect.BoolType: "true or false",
    inspect.VarTupleType: "a list",
    inspect.NoneType: "null",
}


def describe_type(info: inspect.Type) -> str:
    """What a setting must be, in words."""
    kinds = info.types if isinstance(info, inspect.UnionType) else (info,)
    return " or ".join(WORDS.get(type(kind), "an object") for kind in kinds)
