"""Which runs may stand together: a section holds those of one problem and protocol, a group those of one method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucb_moppo import registry
from ucb_moppo.config import settings_that_count
from ucb_moppo.objectives.weights import even_divisions
from ucb_moppo.report.protocols import protocol_of
from ucb_moppo.report.runs import ComparedRun

METHOD_ORDER = tuple(registry.METHODS)
"""In the order in which reports list them; any other method comes after these."""
SHARED = ("episodes",)
"""Settings that mean the same to every method; the others are compared among methods that have the same ones. The
budget of steps is not one: time may have ended a run before, so tables say what was trained (`trained_steps`)."""
NOT_SETTINGS = (
    *("problem", "protocol", "method", "seed", "preset", "horizon", "reference_point"),
    *("evaluation_discount", "utility_divisions"),
    *("threads", "executor", "shards", "ray_address", "checkpoint_stages", "checkpoint_seconds", "max_seconds"),
)
"""What a section or a seed settles, or what does not change how a method works."""


@dataclass(frozen=True)
class Group:
    """Runs of one method on one problem that differ in nothing but their seed."""

    label: str
    runs: tuple[ComparedRun, ...]

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    def values(self, indicator: str) -> NDArray:
        """[seeds] the final value of an indicator in each run; NaN where it is missing."""
        return np.array([run.final(indicator) for run in self.runs], float)

    def place(self) -> tuple[int, str]:
        """Where a report lists the group: methods it knows in their order, then the others, each by label."""
        method = self.runs[0].method
        return METHOD_ORDER.index(method) if method in METHOD_ORDER else len(METHOD_ORDER), self.label


@dataclass(frozen=True)
class Section:
    """Runs whose numbers may share a column: one problem, horizon, reference point, discount and lattice."""

    title: str
    groups: tuple[Group, ...]

    @property
    def runs(self) -> list[ComparedRun]:
        return [run for group in self.groups for run in group.runs]

    @property
    def first(self) -> ComparedRun:
        return self.runs[0]

    @property
    def problem(self) -> str:
        return self.first.problem


def all_labels(sections: Sequence[Section]) -> list[str]:
    """Every method of several sections once, in the order of a report."""
    groups = {group.label: group for section in sections for group in section.groups}
    return [group.label for group in sorted(groups.values(), key=Group.place)]


def make_sections(runs: list[ComparedRun]) -> list[Section]:
    """Sort runs by problem and protocol, then into groups that differ in their seed alone."""
    comparable: dict[str, list[ComparedRun]] = {}
    for run in runs:
        comparable.setdefault(_conditions(run), []).append(run)
    problems = [run.problem for run, *_ in comparable.values()]
    return [
        Section(runs[0].problem if problems.count(runs[0].problem) == 1 else title, tuple(make_groups(runs)))
        for title, runs in comparable.items()
    ]


def _conditions(run: ComparedRun) -> str:
    reference = ", ".join(f"{x:g}" for x in run.reference_point)
    variant = f"protocol {protocol_of(run)}, horizon {run.config.get('horizon')}"
    return f"{run.problem} ({variant}, reference point {reference}{_utility_of(run)})"


def _utility_of(run: ComparedRun) -> str:
    """How the expected utility was measured, where it is not as usual."""
    usual = even_divisions(len(run.objectives))
    divisions = run.utility_divisions
    steps = "" if divisions == usual else f", utility over steps of 1/{divisions}"
    return f"{steps}, utility {run.utility}" if run.utility else steps


def by_protocol(sections: Sequence[Section]) -> dict[str, list[Section]]:
    """Sections by the protocol they follow: numbers of two protocols must not share a column."""
    found: dict[str, list[Section]] = {}
    for section in sections:
        found.setdefault(protocol_of(section.first), []).append(section)
    return found


def make_groups(runs: list[ComparedRun]) -> list[Group]:
    """One group per method, or per method and settings where the settings differ too."""
    differing = {run: _differing(run, runs) for run in runs}
    found: dict[str, list[ComparedRun]] = {}
    for run in runs:
        own = _flat_settings(run)
        extra = ", ".join(f"{name} {_short(own[name])}" for name in differing[run] if name in own)
        found.setdefault(f"{run.method} ({extra})" if extra else run.method, []).append(run)
    groups = [Group(label, tuple(sorted(its, key=lambda run: run.seed))) for label, its in found.items()]
    return sorted(groups, key=Group.place)


def _differing(run: ComparedRun, runs: list[ComparedRun]) -> list[str]:
    """Settings in which some other run differs from this one; one that a run does not know is no difference."""
    own, kin = _flat_settings(run), [_flat_settings(one) for one in runs if _family(one) == _family(run)]
    everyone = [_flat_settings(one) for one in runs]
    return [
        name
        for name in sorted(own)
        if any(str(one.get(name, own[name])) != str(own[name]) for one in (everyone if name in SHARED else kin))
    ]


def _family(run: ComparedRun) -> str:
    """Our own methods have the same settings; every other method has its own."""
    return "ours" if "search" in run.config else run.method


def _flat_settings(run: ComparedRun) -> dict[str, Any]:
    """Every setting that may tell two runs of a method apart."""
    flat: dict[str, Any] = {}
    for name, value in settings_that_count(run.config).items():
        flat |= value if isinstance(value, Mapping) else {name: value}
    return {name: value for name, value in flat.items() if name not in NOT_SETTINGS}


def _short(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
