"""Reads runs and results for a report: also those that still train; it says readably what is broken in others."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.bench.result import COSTS, KEPT, is_result, read_result
from ucb_moppo.errors import RunFormatError, UcbMoppoWarning, UnsafeFileError
from ucb_moppo.report.runs import EXTRA_INDICATORS, INDICATOR_LABELS, STEP_KINDS, ComparedRun, RunData
from ucb_moppo.store.front import Front, front_from_columns, on_front
from ucb_moppo.store.layout import CONFIG, EVALUATIONS, FRONT, METRICS, SUMMARY
from ucb_moppo.store.records import check_metrics, check_settings, check_summary
from ucb_moppo.store.run import Run, load_run


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


# --- a run's directory -------------------------------------------------------------------------------------


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
        points=evaluated.take(on_front),
        run=run,
        evaluated=evaluated,
        on_front=on_front,
        history=history[:length],
    )


def read_front(run: Run) -> tuple[Front, NDArray]:
    """All evaluated pairs and which of them [n] are on the front, from one reading of the table."""
    table = run.table()
    if not len(table.get("policy", table)):
        raise RunFormatError(f"{run.path} has an empty front.csv; nothing has been evaluated")
    return front_from_columns(table, run.path / FRONT), on_front(table)


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


# --- a result file -----------------------------------------------------------------------------------------


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
        points=Front(**{name: np.array(data["front"][name]) for name in ("policy", "weights", "returns")}),
    )


def _check_extra_indicators(record: Mapping[str, Any], path: Path) -> None:
    extra = record.get(EXTRA_INDICATORS, {})
    if not isinstance(extra, Mapping) or not all(x is None or isinstance(x, (int, float)) for x in extra.values()):
        raise RunFormatError(f"{path}: {EXTRA_INDICATORS} must hold a number or null for each of its names")


def _rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Columns of one length as a row for each of their entries."""
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
