"""What a summary and a line of metrics must hold for a reader to rely on it: kinds, bounds and lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct, ValidationError, defstruct

from ucb_moppo.errors import RunFormatError
from ucb_moppo.registry import INDICATORS
from ucb_moppo.store.storage import Count, Number

Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Discount = Annotated[float, Meta(gt=0, le=1)]
Extra = dict[str, Number | None]
Indicators = defstruct("Indicators", [(name, Number | None) for name in INDICATORS])
"""Each may be undefined, but is named."""
SomeIndicators = defstruct("SomeIndicators", [(name, Number | None, None) for name in INDICATORS])
"""A run that is older than an indicator lacks it."""


class Settings(Struct):
    """Of a run's settings, those that a reader computes with."""

    horizon: Count | None = None
    evaluation_discount: Discount | None = None
    search: dict[str, Any] | None = None


class Divergence(Struct):
    """A time that a policy diverged."""

    policy: Count
    iteration: Count
    action: str


class HeldOut(Struct):
    """What the indicators of a run that has ended were measured by."""

    episodes: Count
    intervals: dict[str, tuple[Number | None, Number | None]]
    spare_episodes: Count = 0


class Summary(Struct):
    """What was found and what it cost, beside the indicators."""

    problem: str
    method: str
    seed: Whole
    objectives: Annotated[list[str], Meta(min_length=2)]
    reference_point: list[Number]
    finished: bool
    policies: Count
    training_steps: Count
    parameters: Count | None = None
    evaluation_steps: Count = 0
    pretraining_steps: Count = 0
    peer_evaluation_steps: Count = 0
    seconds: Number = 0.0
    stopped: str | None = None
    diverged: list[Divergence] = msgspec.field(default_factory=list)
    extra_indicators: Extra = msgspec.field(default_factory=dict)
    evaluation_discount: Discount = 1.0
    utility: str = "linear"
    criterion: str = "ser"
    hypervolume_error: Number | None = None
    held_out: HeldOut | None = None
    commit: str | None = None
    hardware: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if len(self.reference_point) != len(self.objectives):
            raise ValueError(f"reference_point has {len(self.reference_point)} of {len(self.objectives)} numbers")


class Surrogate(Struct):
    """What a surrogate foresaw at the evaluated weights and what came of it."""

    predicted: list[Any] | None = None
    realised: list[Any] | None = None
    absolute_error: list[Number | None] | None = None
    absolute_change: list[Number | None] | None = None
    beta_sigma: list[Any] | None = None


class Line(Struct):
    """A line of metrics, beside the indicators."""

    stage: Count
    training_steps: Count
    iteration: Count = 0
    evaluation_steps: Count | None = None
    pretraining_steps: Count | None = None
    seconds: Number | None = None
    policies: Count | None = None
    stage_seconds: dict[str, Number] | None = None
    selected_weights: list[list[list[Number]]] | None = None
    surrogate: Surrogate | None = None
    extra_indicators: Extra = msgspec.field(default_factory=dict)
    hypervolume_error: Number | None = None


def describe_hypervolume(found: Mapping[str, Any]) -> str:
    """HV 5.6e+04, or HV ≈ 5.6e+04 ± 2e+02 where it is an estimate with a standard error."""
    value, error = found["hypervolume"], found.get("hypervolume_error")
    if value is None or not error:
        return "HV undefined" if value is None else f"HV {value:.4g}"
    return f"HV ≈ {value:.4g} ± {error:.1g}"


CRITERIA = {"ser": "of the mean return (SER)", "esr": "of each episode's return (ESR)"}


def describe_utility(found: Mapping[str, Any]) -> str:
    """Say what a preference means, if it is not a weighted sum: chebyshev, of the mean return (SER)."""
    utility = str(found.get("utility", "linear"))
    if utility == "linear":
        return ""
    criterion = str(found.get("criterion", "ser"))
    return f"{utility}, {CRITERIA.get(criterion, criterion)}"


def check_summary(data: Mapping[str, Any], path: Path) -> None:
    """Refuse a summary that lacks something, or has something of another kind."""
    _check(data, Summary, path, "a whole summary")
    _check(data, Indicators, path, "a whole summary")


def check_settings(data: Mapping[str, Any], path: Path) -> None:
    """Refuse settings that a reader could not compute with."""
    _check(data, Settings, path, "a run's settings")


def check_metrics(lines: Sequence[Mapping[str, Any]], path: Path, num_objectives: int) -> None:
    """Refuse lines that lack something, or whose arrays do not fit the objectives or each other."""
    shapes = set()
    for number, data in enumerate(lines, 1):
        what = f"line {number} of metrics"
        line: Line = _check(data, Line, path, what)
        _check(data, SomeIndicators, path, what)
        for weights in line.selected_weights or []:
            if {len(weight) for weight in weights} - {num_objectives} or not weights:
                raise RunFormatError(f"{path}: {what} has selected weights of other than {num_objectives} numbers")
        if line.surrogate is not None and line.surrogate.predicted:
            shapes.add(_surrogate_shapes(line.surrogate, num_objectives))
    if len(shapes) > 1 or None in shapes:
        raise RunFormatError(f"{path} has surrogate's predictions of different shapes, or not for {num_objectives}")


def _surrogate_shapes(found: Surrogate, num_objectives: int) -> tuple[tuple[int, ...], ...] | None:
    """Shapes of everything that is foreseen and came about; None where they do not fit each other."""
    try:
        arrays = [np.array(getattr(found, name), float) for name in Surrogate.__struct_fields__]
    except (TypeError, ValueError, OverflowError):
        return None
    predicted, realised, error, change, bonus = (array.shape for array in arrays)
    fits = predicted == realised and len(bonus) == 2 and error == change == (num_objectives,)
    fits = fits and bonus[-1] == num_objectives and len(predicted) == 3 and predicted[-1] == num_objectives
    return (predicted, bonus) if fits and 0 not in (*predicted, *bonus) else None


def _check(data: Any, kind: Any, path: Path, what: str) -> Any:
    try:
        return msgspec.convert(data, kind)
    except (ValidationError, OverflowError) as fault:
        raise RunFormatError(f"{path} does not hold {what}: {fault}") from fault
