"""Settings as options of the command line: how tyro is told what the settings' own types and texts say.

The settings know nothing of tyro. Here a dataclass with the same fields is made of them, which tyro can read; what
it read is turned back into settings.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, is_dataclass
from functools import lru_cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import tyro

from ucb_moppo.config import AUTO
from ucb_moppo.envs import PROTOCOLS
from ucb_moppo.registry import ACQUISITIONS, EXECUTORS, METHODS, SELECTIONS, SURROGATES, UTILITIES, Registry

Kind = TypeVar("Kind")
UNSET = ("None", "")
"""How tyro shows a setting that is left open, and an empty list."""


def hint(default: str) -> Any:
    """Help of a setting that is decided from the problem or the run: says how, unless the preset has said what."""
    return tyro.conf.arg(help_behavior_hint=lambda value: f"(default: {default if value in UNSET else value})")


def open_choice(literal: Any) -> Any:
    """One of the names of a Literal, or nothing. tyro itself counts None among the names, and then refuses it."""
    names = get_args(literal)
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="{" + ",".join(names) + "}",
        instance_from_str=lambda words: words[0],
        is_instance=lambda value: value is None or value in names,
        str_from_instance=lambda value: [str(value)],
        choices=names,
    )


def named_choice(registry: Registry[Any], what: str, **more: str) -> Any:
    """Help of a setting that names something: what it is for, what may be named, and what each name stands for."""
    names = registry.choices.replace("{", "{" + "".join(f"{name}," for name in more))
    return tyro.conf.arg(
        metavar=names, help="; ".join([what, *(f"{n}: {h}" for n, h in more.items()), registry.help])
    )


def executor_choice(what: str) -> Any:
    """Help of a setting that names an executor, or leaves it to the run."""
    return named_choice(EXECUTORS, what, **{AUTO: "processes where there are several shards and cores, else local"})


SPECIAL: dict[str, tuple[Any, ...]] = {
    "problem": (tyro.conf.Positional, tyro.conf.arg(metavar="PROBLEM", help_behavior_hint="")),
    "method": (named_choice(METHODS, "How weights are chosen, or whose method trains"),),
    "protocol": (tyro.conf.arg(metavar="{" + ",".join(PROTOCOLS) + "}"),),
    "acquisition": (named_choice(ACQUISITIONS, "What a candidate is scored by"),),
    "surrogate": (named_choice(SURROGATES, "What predicts the change that training on a weight brings"),),
    "utility": (named_choice(UTILITIES, "What a preference makes of returns"),),
    "selection": (named_choice(SELECTIONS, "How weights are picked by their scores"),),
    "executor": (executor_choice("Where shards of policies run"),),
    "pivots": (tyro.conf.Suppress,),
    "settings": (tyro.conf.Suppress,),
}
"""What the types and texts of the settings do not say, by the name of a setting."""


@lru_cache
def options_type(kind: Any) -> Any:
    """A dataclass of settings with the same fields, annotated as tyro reads them; sections stand flat."""
    hints = get_type_hints(kind, include_extras=True)
    fields: list[tuple[str, Any, Any]] = []
    for field in dataclasses.fields(kind):
        plain, texts = _split(hints[field.name])
        if is_dataclass(plain):
            plain, marks = options_type(plain), (tyro.conf.arg(name=""),)  # type: ignore[arg-type]
        else:
            marks = (*SPECIAL.get(field.name, ()), *map(hint, texts))
        annotation: Any = Annotated[(plain, *marks)] if marks else plain
        fields.append((field.name, annotation, _with_default(field)))
    options = dataclasses.make_dataclass(f"{kind.__name__}Options", fields, bases=(kind,), frozen=True)
    options.__doc__ = kind.__doc__
    return options


def _with_default(field: dataclasses.Field[Any]) -> Any:
    """A field with the default of another."""
    if field.default_factory is not MISSING:
        return dataclasses.field(default_factory=field.default_factory)
    return dataclasses.field(default=field.default)


def _split(annotation: Any) -> tuple[Any, list[str]]:
    """A type and the texts that stand beside it."""
    if get_origin(annotation) is not Annotated:
        return annotation, []
    plain, *beside = get_args(annotation)
    return plain, [text for text in beside if isinstance(text, str)]


def to_options(settings: Any) -> Any:
    """Settings as an instance of their `options_type`."""
    kind = options_type(type(settings))  # type: ignore[arg-type]
    return kind(**{n: to_options(v) if is_dataclass(v) else v for n, v in _items(settings)})


def to_settings(options: Any, kind: type[Kind]) -> Kind:
    """The settings that an instance of ``options_type(kind)`` holds."""
    types = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    return kind(**{n: to_settings(v, hints[n]) if is_dataclass(v) else v for n, v in _items(options) if n in types})


def _items(holder: Any) -> list[tuple[str, Any]]:
    return [(f.name, getattr(holder, f.name)) for f in dataclasses.fields(holder)]
