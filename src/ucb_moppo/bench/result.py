"""The result file: what one run found and cost, small enough to share. Reading one executes nothing.

kind, format           what the file is
problem, method, seed  which cell it is
config                 every setting of the run
commit, versions, hardware  where it comes from; nothing names the machine, its owner or a path
finished, stopped      whether the run reached its last step, and what ended it if not
steps                  environment steps: training, evaluation, pretraining
seconds                wall time of the run
objectives, reference_point, policies, parameters  of the problem, and what the method keeps
evaluation_discount    of the returns that everything found is measured by; missing: 1
found                  the indicators at the end
curve                  the indicators at every evaluation, with the steps and seconds spent until then
front                  the non-dominated evaluated pairs: policy, weights, returns
diverged               every time a policy diverged
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, defstruct

from ucb_moppo.bench.provenance import Provenance
from ucb_moppo.errors import DamagedFileError
from ucb_moppo.objectives.indicators import HYPERVOLUME_ERROR
from ucb_moppo.registry import INDICATORS
from ucb_moppo.store.guarded import read_bytes, write_file, writing
from ucb_moppo.store.layout import METRICS, SUMMARY
from ucb_moppo.store.records import Discount, check_metrics, check_summary
from ucb_moppo.store.run import Run
from ucb_moppo.store.storage import (
    Count,
    Number,
    check_format,
    finite_or_none,
    has_type,
    parse_json,
    parse_object,
)

FORMAT, KIND = 1, "ucb-moppo result"
MAX_RESULT = 16 << 20
COSTS = ("training_steps", "evaluation_steps", "pretraining_steps", "seconds")
KEPT = "policies"
"""How many there were at each evaluation; runs before version 0.3.0 did not count them."""
MEASURED = ("episodes", "steps", "intervals")
"""Of how a finished run's front was measured; a run without held-out episodes has none of it."""
FORESIGHT = ("rank_correlation", "coverage", "absolute_error", "absolute_change")
"""What the surrogate's predictions came to, at every evaluation that followed one."""
EXTRA = "extra_indicators"
"""Where the indicators that only some runs have stand by name, in what was found and in the curve."""


def make_result(run: Run, provenance: Provenance) -> dict[str, Any]:
    """The result of a run that comes from where ``provenance`` says."""
    summary, lines, front = run.summary, run.metrics(), run.front()
    check_summary(summary, run.path / SUMMARY)
    check_metrics(lines, run.path / METRICS, front.returns.shape[1])
    return {
        "kind": KIND,
        "format": FORMAT,
        **{name: summary[name] for name in ("problem", "method", "seed")},
        "config": run.config,
        "commit": provenance.commit,
        "versions": summary.get("versions", {}),
        "hardware": provenance.hardware,
        "finished": summary["finished"],
        "stopped": summary.get("stopped"),
        "steps": {name.removesuffix("_steps"): summary.get(name, 0) for name in COSTS[:3]},
        "seconds": summary["seconds"],
        **{name: summary[name] for name in ("objectives", "reference_point", "policies", "parameters")},
        "evaluation_discount": summary.get("evaluation_discount", 1.0),
        "found": {name: summary.get(name) for name in INDICATORS} | _sometimes_found(summary),
        "held_out": {name: summary.get("held_out", {}).get(name) for name in MEASURED},
        "curve": {
            **{name: [line.get(name, 0) for line in lines] for name in COSTS},
            **{name: [line.get(name) for line in lines] for name in (*INDICATORS, KEPT)},
            **_extra_curves(lines, summary),
        },
        "surrogate": {name: [(line.get("surrogate") or {}).get(name) for line in lines] for name in FORESIGHT},
        "front": {
            "policy": front.policy.tolist(),
            "weights": front.weights.tolist(),
            "returns": front.returns.tolist(),
            "errors": run.front_errors().tolist(),
        },
        "diverged": summary.get("diverged", []),
    }


def _sometimes_found(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What only some runs have: indicators of their own, and the error of a hypervolume that is an estimate."""
    return {name: summary[name] for name in (EXTRA, HYPERVOLUME_ERROR) if summary.get(name)}


def _extra_curves(lines: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> dict[str, Any]:
    """The user's own indicators at every evaluation."""
    curves = {name: [line.get(EXTRA, {}).get(name) for line in lines] for name in summary.get(EXTRA, {})}
    return {EXTRA: curves} if curves else {}


def write_result(path: Path, result: Mapping[str, Any]) -> None:
    """A line per entry: small, and a change of one shows as one."""
    plain = finite_or_none(result)
    lines = [f"{json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in plain.items()]
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def is_result(path: Path) -> bool:
    """Whether a JSON file says that it is a result file; one that is not JSON at all is damaged."""
    data = parse_json(read_bytes(path.parent, path.name, MAX_RESULT), path)
    return isinstance(data, dict) and data.get("kind") == KIND


def read_result(path: Path) -> dict[str, Any]:
    """A result file, known to hold what a reader relies on: kinds, lengths and finite numbers."""
    data = parse_object(read_bytes(path.parent, path.name, MAX_RESULT), path)
    if data.get("kind") != KIND:
        raise DamagedFileError(f"{path} is not a {KIND}: its kind is {data.get('kind')!r}")
    check_format(data.get("format"), FORMAT, FORMAT, path, "make it again with `ucb-moppo bench`")
    for name, (kind, wanted) in ENTRIES.items():
        if not has_type(data.get(name), kind):
            raise DamagedFileError(f"{path}: {name} is {_short(data.get(name))}; it must be {wanted}")
    _check_lengths(data, path)
    return data


class Settings(Struct):
    """Of a run's settings, the one that a reader computes with."""

    horizon: Count | None = None
    evaluation_discount: Discount | None = None


class Steps(Struct):
    training: Count
    evaluation: Count
    pretraining: Count


Curves = dict[str, list[Number | None]]
Indicators = defstruct(
    "Indicators",
    [
        *((name, Number | None, None) for name in INDICATORS),
        (EXTRA, dict[str, Number | None] | None, None),
        (HYPERVOLUME_ERROR, Number | None, None),
    ],
)
"""Each may be undefined."""


ENTRIES: dict[str, tuple[Any, str]] = {
    "problem": (str, "text"),
    "method": (str, "text"),
    "seed": (Count, "a whole number"),
    "config": (Settings, "an object of settings, the horizon a whole number"),
    "commit": (str, "text"),
    "versions": (dict, "an object of versions"),
    "hardware": (dict, "an object"),
    "finished": (bool, "true or false"),
    "steps": (Steps, "training, evaluation and pretraining"),
    "seconds": (Number, "a number"),
    "objectives": (Annotated[list[str], Meta(min_length=2)], "a list of at least two names"),
    "reference_point": (list[Number], "a list of numbers"),
    "evaluation_discount": (Discount | None, "a number from 0, which it is above, to 1"),
    "policies": (Count, "a whole number"),
    "parameters": (Count, "a whole number"),
    "found": (Indicators, "the indicators"),
    "curve": (dict, "an object of lists"),
    "front": (dict, "an object of lists"),
}
"""What a result must hold, of which type, and how to say so."""


def _check_lengths(data: Mapping[str, Any], path: Path) -> None:
    """Refuse curves of different lengths, and a front of other than the problem's objectives."""
    curve, front, m = data["curve"], data["front"], len(data["objectives"])
    length, size = _length(curve.get("training_steps")), _length(front.get("policy"))
    for name in (*COSTS, *INDICATORS, KEPT):
        kind = Number if name in COSTS else Number | None
        # A file that is older than an indicator lacks it.
        column = curve.get(name, None if name in COSTS else [None] * length)
        if not length or not has_type(column, _list_of(kind, length)):
            raise DamagedFileError(f"{path}: curve {name} must hold a number for each of {length} evaluations")
    extra = curve.get(EXTRA, {})
    if not has_type(extra, Curves) or any(len(values) != length for values in extra.values()):
        raise DamagedFileError(f"{path}: curve {EXTRA} must hold a number or null for each of {length} evaluations")
    for name in ("weights", "returns"):
        if not size or not has_type(front.get(name), _list_of(_list_of(Number, m), size)):
            raise DamagedFileError(f"{path}: front {name} must hold {m} numbers for each of {size} points")
    if not has_type(front["policy"], list[Count]) or len(data["reference_point"]) != m:
        raise DamagedFileError(f"{path}: the front's policies or the reference point do not fit {m} objectives")


def _list_of(kind: Any, length: int) -> Any:
    return Annotated[list[kind], Meta(min_length=length, max_length=length)]


def _length(values: Any) -> int:
    return len(values) if isinstance(values, list) else 0


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."
