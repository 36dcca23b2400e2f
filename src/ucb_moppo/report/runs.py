"""A run as a report sees it: what it found and cost, from its directory or from a result file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucb_moppo import registry
from ucb_moppo.errors import ConfigError
from ucb_moppo.objectives.utility import Goal
from ucb_moppo.objectives.weights import even_divisions
from ucb_moppo.store.front import Front, measured_rows, measured_values
from ucb_moppo.store.records import describe_utility
from ucb_moppo.store.run import Run

INDICATOR_LABELS = {name: entry.help for name, entry in registry.INDICATORS.entries.items()}
"""The indicators that every run has, and what tables call them."""
COMPARED = ("hypervolume", "expected_utility")
"""What methods are compared by; of the others a table for the eye shows the mean alone, and CSV everything."""
EXTRA_INDICATORS = "extra_indicators"
"""Where a summary and a line of metrics hold, by name, the indicators that only some runs have."""
STEP_KINDS = ("training", "pretraining", "evaluation")
"""Kinds of environment steps, all of which are counted."""


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """What one run found and cost: all that methods are compared by. From its directory or from a result file."""

    path: Path
    name: str
    """Of its directory or file; with the directory above it where a report would have two of that name."""
    summary: dict[str, Any]
    config: dict[str, Any]
    metrics: list[dict[str, Any]]
    """A line per evaluation; line 0 is the one before any training."""
    points: Front
    """The newest front: its policies, weights and returns."""

    @property
    def problem(self) -> str:
        return str(self.summary["problem"])

    @property
    def method(self) -> str:
        return str(self.summary["method"])

    @property
    def seed(self) -> int:
        return int(self.summary["seed"])

    @property
    def objectives(self) -> list[str]:
        return list(self.summary["objectives"])

    @property
    def reference_point(self) -> list[float]:
        return list(self.summary["reference_point"])

    @property
    def discount(self) -> float:
        """Of the returns it was evaluated by; older runs do not say and are undiscounted."""
        name = "evaluation_discount"
        return float(self.summary.get(name) or self.config.get(name) or 1.0)

    @property
    def utility_divisions(self) -> int:
        """Of the lattice of weights of its expected utility; older runs do not say and have the usual one."""
        return self.config.get("utility_divisions") or even_divisions(len(self.objectives))

    @property
    def utility(self) -> str:
        """What a preference means, where it is not a weighted sum; else nothing."""
        goal = self.config.get("goal")
        return describe_utility(goal) if isinstance(goal, Mapping) else ""

    @property
    def steps(self) -> NDArray:
        """[S] steps of training, and of pre-training where a method has one, at every evaluation."""
        return self.series("training_steps") + np.nan_to_num(self.series("pretraining_steps"))

    @property
    def all_steps(self) -> NDArray:
        """[S] environment steps of every kind at every evaluation: training, pre-training, evaluation."""
        return np.sum([np.nan_to_num(self.series(f"{kind}_steps")) for kind in STEP_KINDS], axis=0)

    @property
    def front(self) -> NDArray:
        """[n, m] the returns on the front."""
        return self.points.returns

    @property
    def extra_indicators(self) -> list[str]:
        """Names of the indicators that this run has beside those of every run."""
        return [name for name in self.summary.get(EXTRA_INDICATORS, {}) if name not in self.summary]

    def final(self, indicator: str) -> float | None:
        """The value of an indicator at the end; None where it is missing."""
        return _number_in(self.summary, indicator)

    def series(self, name: str) -> NDArray:
        """[S] one number of every evaluation; NaN where it is missing."""
        return np.array([_number_in(line, name) for line in self.metrics], float)


def _number_in(record: Mapping[str, Any], name: str) -> float | None:
    """A number of a summary or a line of metrics, an extra indicator or any other; None where it is missing."""
    found: float | None = record[name] if name in record else record.get(EXTRA_INDICATORS, {}).get(name)
    return found


def indicator_labels(runs: Sequence[ComparedRun]) -> dict[str, str]:
    """The indicators that any of the runs has, and what tables call them."""
    return INDICATOR_LABELS | {name: name for run in runs for name in run.extra_indicators}


@dataclass(frozen=True, eq=False)
class RunData(ComparedRun):
    """A run's files at one moment. K policies, P evaluated weights each, m objectives, S evaluations."""

    run: Run
    evaluated: Front
    """The newest evaluation of all K·P (policy, weight) pairs."""
    on_front: NDArray
    """[K·P] which of those are on the front."""
    history: list[Front]
    """All pairs of every evaluation; another method may keep more policies at one than at the one before."""

    @property
    def num_policies(self) -> int:
        return int(self.evaluated.policy.max()) + 1

    def values(self, preference: NDArray) -> NDArray:
        """[K·P] what every evaluated pair is worth for a preference [m], by what was measured.

        Looking at a run imports nothing: where its utility is somebody's own, nearer to what a pair was trained for
        is better.
        """
        goal = self.goal
        if goal is None:
            return -np.linalg.norm(self.evaluated.weights - preference, axis=1)
        if goal.is_linear:
            return measured_values(self.evaluated.returns, self.measured, preference)
        return goal.values(self.outcomes, preference[None])

    @cached_property
    def goal(self) -> Goal | None:
        """What a preference means; None where that is code that nobody has imported."""
        try:
            return self.run.goal
        except ConfigError:
            return None

    @cached_property
    def measured(self) -> NDArray:
        """[K·P] which pairs show held-out episodes; all of them before any were."""
        return measured_rows(self.run.table())

    @cached_property
    def outcomes(self) -> NDArray:
        """[K·P, E, m] what the utility of every pair is taken of."""
        return self.run.outcomes()

    @property
    def stages(self) -> list[int]:
        return [int(line["stage"]) for line in self.metrics]
