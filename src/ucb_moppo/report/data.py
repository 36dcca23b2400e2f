"""What a run's files say, as arrays. Reads runs that still train, and says readably what is broken in others."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucb_moppo import registry
from ucb_moppo.bench.result import COSTS, KEPT, is_result, read_result
from ucb_moppo.errors import ConfigError, RunFormatError, UcbMoppoWarning, UnsafeFileError
from ucb_moppo.objectives.utility import Goal
from ucb_moppo.objectives.weights import even_divisions
from ucb_moppo.store.layout import CONFIG, EVALUATIONS, FRONT, METRICS, SUMMARY
from ucb_moppo.store.records import check_metrics, check_settings, check_summary, describe_utility
from ucb_moppo.store.run import Front, Run, front_from_columns, load_run, on_front

METHOD_ORDER = tuple(registry.METHODS)
"""In the order in which reports list them; any other method comes after these."""
INDICATOR_LABELS = {name: entry.help for name, entry in registry.INDICATORS.entries.items()}
"""The indicators that every run has, and what tables call them."""
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
            return np.asarray(self.evaluated.returns @ preference)
        return goal.values(self.outcomes, preference[None])

    @cached_property
    def goal(self) -> Goal | None:
        """What a preference means; None where that is code that nobody has imported."""
        try:
            return self.run.goal
        except ConfigError:
            return None

    @cached_property
    def outcomes(self) -> NDArray:
        """[K·P, E, m] what the utility of every pair is taken of."""
        return self.run.outcomes()

    @property
    def stages(self) -> list[int]:
        return [int(line["stage"]) for line in self.metrics]


def load_data(path: str | Path) -> RunData:
    """Everything of a run that has reached its first evaluation."""
    run = load_run(path)
    summary = run.summary
    check_summary(summary, run.path / SUMMARY)
    check_settings(run.config, run.path / CONFIG)
    evaluated, on_front = read_front(run)
    _check_whole(run, evaluated, summary)
    num_objectives = evaluated.returns.shape[1]
    metrics, history = read_metrics(run, num_objectives), read_history(run, num_objectives)
    # A run that goes on may have been read between two stages: what both files have is whole.
    length = min(len(metrics), len(history))
    if not length:
        raise RunFormatError(f"{run.path} has no evaluation yet; look again after its first stage")
    return RunData(
        path=run.path,
        name=run.path.resolve().name,
        summary=summary,
        config=run.config,
        metrics=metrics[:length],
        points=Front(*(column[on_front] for column in evaluated)),
        run=run,
        evaluated=evaluated,
        on_front=on_front,
        history=history[:length],
    )


def load_result_file(path: Path) -> ComparedRun:
    """A result file, as the run that it was made of would be read."""
    data = read_result(path)
    names = ("problem", "method", "seed", "objectives", "reference_point", "finished", "policies", "parameters")
    summary = {name: data[name] for name in (*names, "seconds", "commit", "hardware")} | data["found"]
    summary |= {"stopped": data.get("stopped"), "evaluation_discount": data.get("evaluation_discount") or 1.0}
    _check_extra_indicators(summary, path)
    curve = {name: column for name, column in data["curve"].items() if name in (*COSTS, *INDICATOR_LABELS, KEPT)}
    extra = data["curve"].get(EXTRA_INDICATORS, {})
    if extra:
        curve[EXTRA_INDICATORS] = [
            dict(zip(extra, values, strict=True)) for values in zip(*extra.values(), strict=True)
        ]
    return ComparedRun(
        path=path,
        name=path.stem,
        summary=summary | {f"{kind}_steps": data["steps"][kind] for kind in STEP_KINDS},
        config=data["config"],
        metrics=_rows(curve),
        points=Front(*(np.array(data["front"][name]) for name in Front._fields)),
    )


def _rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Columns of one length as a row for each of their entries."""
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def load_all(paths: Sequence[str | Path]) -> list[ComparedRun]:
    """Runs and results, each once, with names that tell them apart."""
    places = list(dict.fromkeys(place for path in paths for place in find_runs(Path(path).resolve())))
    runs = drop_copies([load_result_file(place) if place.is_file() else load_data(place) for place in places])
    names = [run.name for run in runs]
    return [
        replace(run, name=f"{run.path.resolve().parent.name}/{run.name}") if names.count(run.name) > 1 else run
        for run in runs
    ]


def find_runs(path: Path) -> list[Path]:
    """A run's directory or a result file stands for itself, any other directory for the result files in it."""
    if not path.is_dir() or (path / CONFIG).exists():
        return [path] if path.is_file() else [load_run(path).path]
    found = [file for file in sorted(path.rglob("*.json")) if _is_result_or_warn(file)]
    if not found:
        raise RunFormatError(
            f"{path} holds neither a run nor result files; name the directory of a run, or one that "
            f"`ucb-moppo bench` wrote results to"
        )
    return found


def _is_result_or_warn(file: Path) -> bool:
    """Whether a file in a folder of results is one; what is no file at all is left out, with a warning."""
    try:
        return is_result(file)
    except UnsafeFileError as fault:
        warnings.warn(f"left out: {fault}", UcbMoppoWarning, stacklevel=2)
        return False


def drop_copies(runs: Sequence[ComparedRun]) -> list[ComparedRun]:
    """A result file of a run that is given as a directory too, or a second copy of one, does not count again."""
    kept: list[ComparedRun] = []
    known = {_fingerprint(run) for run in runs if isinstance(run, RunData)}
    for run in runs:
        if isinstance(run, RunData) or _fingerprint(run) not in known:
            kept.append(run)
            known.add(_fingerprint(run))
    return kept


def _fingerprint(run: ComparedRun) -> str:
    """The same for a run and its result file; the seconds tell it from any other."""
    return json.dumps([run.config, *(run.summary.get(name) for name in ("seconds", *INDICATOR_LABELS))])


def _check_extra_indicators(record: Mapping[str, Any], path: Path) -> None:
    extra = record.get(EXTRA_INDICATORS, {})
    if not isinstance(extra, Mapping) or not all(x is None or isinstance(x, (int, float)) for x in extra.values()):
        raise RunFormatError(f"{path}: {EXTRA_INDICATORS} must hold a number or null for each of its names")


def _check_whole(run: Run, evaluated: Front, summary: Mapping[str, Any]) -> None:
    """Every policy has as many rows as any other, with a return for each objective; a table cut off has not."""
    num_policies, num_objectives = int(summary["policies"]), len(summary["objectives"])
    if evaluated.returns.shape[1] != num_objectives:
        raise RunFormatError(
            f"{run.path / FRONT} has {evaluated.returns.shape[1]} objectives and {SUMMARY} {num_objectives}"
        )
    policies, counts = np.unique(evaluated.policy, return_counts=True)
    whole = len(policies) == num_policies and np.array_equal(policies, np.arange(len(policies)))
    if not whole or counts.min() != counts.max():
        raise RunFormatError(
            f"{run.path / FRONT} is not whole: {len(evaluated.policy)} rows, not the same number for each of "
            f"{num_policies} policies"
        )


def read_front(run: Run) -> tuple[Front, NDArray]:
    """All evaluated pairs and which of them [n] are on the front, from one reading of the table."""
    table = run.table()
    if not len(table.get("policy", table)):
        raise RunFormatError(f"{run.path} has an empty front.csv; nothing has been evaluated")
    return front_from_columns(table, run.path / FRONT), on_front(table)


def read_metrics(run: Run, num_objectives: int) -> list[dict[str, Any]]:
    """The lines of ``metrics.jsonl``, each known to hold what a reader relies on."""
    lines = run.metrics()
    check_metrics(lines, run.path / METRICS, num_objectives)
    return lines


def read_history(run: Run, num_objectives: int) -> list[Front]:
    """Every evaluation in ``evaluations.csv``, in order."""
    table, path = run.evaluations(), run.path / EVALUATIONS
    if not table:
        return []
    everything = front_from_columns(table, path)
    if everything.returns.shape[1] != num_objectives:
        raise RunFormatError(f"{path} has {everything.returns.shape[1]} objectives and front.csv {num_objectives}")
    if "stage" not in table or not np.isfinite(table["stage"]).all():
        raise RunFormatError(f"{path} has a row without its stage")
    cuts = np.flatnonzero(np.diff(table["stage"])) + 1
    return [Front(*parts) for parts in zip(*(np.split(column, cuts) for column in everything), strict=True)]


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
    divisions = run.config.get("utility_divisions") or usual
    steps = "" if divisions == usual else f", utility over steps of 1/{divisions}"
    return f"{steps}, utility {run.utility}" if run.utility else steps


USUAL_PROTOCOL = "gymnasium"


def protocol_of(run: ComparedRun) -> str:
    """The protocol of a run, and by what its returns are discounted: pgmorl, or gymnasium discounted by 0.99."""
    name = str(run.config.get("protocol", USUAL_PROTOCOL))
    return name if run.discount == 1 else f"{name} {describe_discount(run.discount)}"


def describe_discount(discount: float) -> str:
    """Say that returns are discounted; nothing of those that are not."""
    return "" if discount == 1 else f"discounted by {discount:g}"


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


SHARED = ("episodes",)
"""Settings that mean the same to every method; the others are compared among methods that have the same ones. The
budget of steps is not one: time may have ended a run before, so tables say what was trained (`trained_steps`)."""
NOT_SETTINGS = (
    *("problem", "protocol", "method", "seed", "preset", "horizon", "reference_point"),
    *("evaluation_discount", "utility_divisions"),
    *("threads", "executor", "shards", "ray_address", "checkpoint_stages", "checkpoint_seconds", "max_seconds"),
)
"""What a section or a seed settles, or what does not change how a method works."""


def _differing(run: ComparedRun, runs: list[ComparedRun]) -> list[str]:
    """Settings in which some other run differs from this one; one that a run does not know is no difference."""
    own, kin = _flat_settings(run), [_flat_settings(one) for one in runs if _family(one) == _family(run)]
    everyone = [_flat_settings(one) for one in runs]
    return [
        name
        for name in sorted(own)
        if any(str(one.get(name, own[name])) != str(own[name]) for one in (everyone if name in SHARED else kin))
    ]


def trained_steps(groups: Sequence[Group]) -> str:
    """Where methods differ in it, how long each trained, pre-training included: ucb 2,000, pgmorl 500 to 900."""
    found: dict[str, set[int]] = {}
    for group in groups:
        steps = {sum(int(run.summary.get(name, 0)) for name in TRAINED) for run in group.runs}
        found.setdefault(group.label, set()).update(steps)
    if len(set().union(*found.values())) < 2:
        return ""
    spans = {label: dict.fromkeys((min(steps), max(steps))) for label, steps in found.items()}
    listed = [f"{label} {' to '.join(f'{count:,}' for count in span)}" for label, span in spans.items()]
    return f"Training steps: {', '.join(listed)}."


TRAINED = ("training_steps", "pretraining_steps")


def _family(run: ComparedRun) -> str:
    """Our own methods have the same settings; every other method has its own."""
    return "ours" if "search" in run.config else run.method


def _flat_settings(run: ComparedRun) -> dict[str, Any]:
    """Every setting that may tell two runs of a method apart."""
    flat: dict[str, Any] = {}
    for name, value in run.config.items():
        flat |= value if isinstance(value, Mapping) else {name: value}
    return {name: value for name, value in flat.items() if name not in NOT_SETTINGS}


def _short(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


STATES_OF_ONE = {
    "unfinished": " so far",
    "timed out": ", where its time was up",
    "ended early": ", where it was ended early",
}
STATES_OF_MANY = {
    "unfinished": "still training",
    "timed out": "ended by a limit of time",
    "ended early": "ended early",
}


def describe_runs(runs: list[ComparedRun]) -> str:
    """Which runs, seeds and steps a figure shows, and whether its returns are discounted."""
    discounts = sorted({run.discount for run in runs} - {1.0})
    discounted = "".join(f" · returns {describe_discount(discount)}" for discount in discounts)
    return _describe_runs(runs) + discounted


def _describe_runs(runs: list[ComparedRun]) -> str:
    steps = sorted({int(run.summary["training_steps"]) for run in runs})
    counted = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    if len(runs) == 1:
        word = STATES_OF_ONE.get(_state(runs[0]), "")
        return f"run {runs[0].name} · seed {runs[0].seed} · {counted} training steps{word}"
    states = Counter(map(_state, runs))
    state = "".join(f" · {states[name]} {word}" for name, word in STATES_OF_MANY.items() if states[name])
    if len(runs) > 4:
        return f"{_list_seeds(runs)} · {counted} training steps{state}"
    names = ", ".join(run.name for run in runs)
    return f"runs {names} · {_seeds([run.seed for run in runs])} · {counted} training steps{state}"


def _state(run: ComparedRun) -> str:
    if run.summary.get("finished"):
        return "finished"
    stopped = run.summary.get("stopped")
    return {None: "unfinished", "max_seconds": "timed out"}.get(stopped, "ended early")


def _list_seeds(runs: list[ComparedRun]) -> str:
    """Many runs in one line: Swimmer-v2 ucb seeds 0, 1, mean seeds 0, 1."""
    found: dict[str, list[int]] = {}
    for run in runs:
        found.setdefault(f"{run.problem} {run.method}", []).append(run.seed)
    listed = [f"{name} {_seeds(seeds)}" for name, seeds in found.items()]
    return f"{len(runs)} runs: " + "; ".join(listed)


def _seeds(seeds: list[int]) -> str:
    """Each seed once: seeds 0, 1."""
    each = sorted(set(seeds))
    return f"seed{'s' * (len(each) > 1)} {', '.join(map(str, each))}"
