"""The result file: what one run found and cost, small enough to share. Reading one executes nothing.

kind, format           what the file is
problem, method, seed  which cell it is
config                 every setting of the run
commit, versions, hardware  where it comes from; nothing names the machine, its owner or a path
finished, stopped      whether the run reached its last step, and what ended it if not
steps                  environment steps: training, evaluation, pretraining
seconds                wall time of the run
objectives, reference_point, policies, parameters  of the problem, and what the method keeps
found                  the indicators at the end
curve                  the indicators at every evaluation, with the steps and seconds spent until then
front                  the non-dominated evaluated pairs: policy, weights, returns
diverged               every time a policy diverged
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ucb_moppo.errors import DamagedFileError
from ucb_moppo.store.run import Run
from ucb_moppo.store.storage import (
    check_format,
    finite_or_none,
    parse_json,
    parse_object,
    read_bytes,
    replace_file,
    writing,
)

FORMAT, KIND = 1, "ucb-moppo result"
MAX_RESULT = 16 << 20
COSTS = ("training_steps", "evaluation_steps", "pretraining_steps", "seconds")
INDICATORS = ("hypervolume", "expected_utility", "sparsity", "cardinality")


def make_result(run: Run, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a run; ``provenance`` holds its commit and hardware."""
    summary, lines, front = run.summary, run.metrics(), run.front()
    return {
        "kind": KIND,
        "format": FORMAT,
        **{name: summary[name] for name in ("problem", "method", "seed")},
        "config": run.config,
        "commit": provenance["commit"],
        "versions": summary.get("versions", {}),
        "hardware": provenance["hardware"],
        "finished": summary["finished"],
        "stopped": summary.get("stopped"),
        "steps": {name.removesuffix("_steps"): summary.get(name, 0) for name in COSTS[:3]},
        "seconds": summary["seconds"],
        **{name: summary[name] for name in ("objectives", "reference_point", "policies", "parameters")},
        "found": {name: summary[name] for name in INDICATORS},
        "curve": {
            **{name: [line.get(name, 0) for line in lines] for name in COSTS},
            **{name: [line.get(name) for line in lines] for name in INDICATORS},
        },
        "front": {
            "policy": front.policy.tolist(),
            "weights": front.weights.tolist(),
            "returns": front.returns.tolist(),
        },
        "diverged": summary.get("diverged", []),
    }


def write_result(path: Path, result: Mapping[str, Any]) -> None:
    """A line per entry: small, and a change of one shows as one."""
    plain = finite_or_none(result)
    lines = [f"{json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in plain.items()]
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


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
    for name, (fits, wanted) in _ENTRIES.items():
        if not fits(data.get(name)):
            raise DamagedFileError(f"{path}: {name} is {_short(data.get(name))}; it must be {wanted}")
    _check_numbers(data, path)
    return data


def _check_numbers(data: Mapping[str, Any], path: Path) -> None:
    """Curves of one length, a front of the problem's objectives."""
    curve, front, m = data["curve"], data["front"], len(data["objectives"])
    length = len(curve.get("training_steps") or ())
    for name in (*COSTS, *INDICATORS):
        fits = _is_number if name in COSTS else _is_number_or_none  # an indicator may be undefined
        if not length or not _is_list(curve.get(name), fits, length):
            raise DamagedFileError(f"{path}: curve {name} must hold a number for each of {length} evaluations")
    size = len(front["policy"]) if isinstance(front.get("policy"), list) else 0
    for name in ("weights", "returns"):
        if not size or not _is_list(front.get(name), lambda row: _is_list(row, _is_number, m), size):
            raise DamagedFileError(f"{path}: front {name} must hold {m} numbers for each of {size} points")
    if not _is_list(front["policy"], _is_count) or len(data["reference_point"]) != m:
        raise DamagedFileError(f"{path}: the front's policies or the reference point do not fit {m} objectives")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_number_or_none(value: Any) -> bool:
    return value is None or _is_number(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_list(values: Any, fits: Callable[[Any], bool], length: int | None = None) -> bool:
    return isinstance(values, list) and (length is None or len(values) == length) and all(map(fits, values))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_config(value: Any) -> bool:
    return isinstance(value, dict) and (value.get("horizon") is None or _is_count(value["horizon"]))


def _has(names: tuple[str, ...], fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(fits(value.get(name)) for name in names)


_ENTRIES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "problem": (_is_text, "text"),
    "method": (_is_text, "text"),
    "seed": (_is_count, "a whole number"),
    "config": (_is_config, "an object of settings, the horizon a whole number"),
    "commit": (_is_text, "text"),
    "versions": (_is_object, "an object of versions"),
    "hardware": (_is_object, "an object"),
    "finished": (lambda value: isinstance(value, bool), "true or false"),
    "steps": (_has(("training", "evaluation", "pretraining"), _is_count), "training, evaluation and pretraining"),
    "seconds": (_is_number, "a number"),
    "objectives": (lambda value: _is_list(value, _is_text) and len(value) > 1, "a list of at least two names"),
    "reference_point": (lambda value: _is_list(value, _is_number), "a list of numbers"),
    "policies": (_is_count, "a whole number"),
    "parameters": (_is_count, "a whole number"),
    "found": (_has(INDICATORS, _is_number_or_none), "the indicators"),
    "curve": (_is_object, "an object of lists"),
    "front": (_is_object, "an object of lists"),
}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."
