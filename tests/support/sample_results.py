"""Result files written by hand, whose every number a test can derive, and what must hold of any."""

from __future__ import annotations

import getpass
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ucb_moppo.bench.result import FORMAT, KIND, write_result
from ucb_moppo.store.layout import directory_name

SHARES = (0.0, 0.5, 1.0)
"""Of its final HV and EU that a result has at its three evaluations, 1,000 training steps and 10 s apart."""


def sample_result(
    problem: str = "Swimmer-v2",
    method: str = "ucb",
    seed: int = 0,
    hypervolume: float = 100.0,
    expected_utility: float = 10.0,
    pretraining: int = 0,
    **changes: Any,
) -> dict[str, Any]:
    """Training steps 0, 1,000, 2,000; evaluation steps 100, 200, 300; ``pretraining`` steps before all of them."""
    training, evaluation = [0, 1000, 2000], [100, 200, 300]
    found = {"hypervolume": hypervolume, "expected_utility": expected_utility, "sparsity": 1.0, "cardinality": 2}
    config = {"problem": problem, "method": method, "seed": seed, "steps": 2000, "horizon": 1000}
    return {
        "kind": KIND,
        "format": FORMAT,
        **{"problem": problem, "method": method, "seed": seed, "finished": True, "seconds": 21.0},
        "config": config | ({"search": {"policies": 10}} if method in ("ucb", "mean", "random", "fixed") else {}),
        **{"commit": "0123abc", "versions": {}, "hardware": {"cpu": "abacus", "cores_used": 1}},
        "steps": {"training": training[-1], "evaluation": evaluation[-1], "pretraining": pretraining},
        **{"objectives": ["speed", "energy"], "reference_point": [0.0, 0.0], "policies": 10, "parameters": 1234},
        "found": found,
        "curve": {
            **{"training_steps": training, "evaluation_steps": evaluation, "pretraining_steps": [pretraining] * 3},
            **{"seconds": [1.0, 11.0, 21.0], "sparsity": [1.0] * 3, "cardinality": [2] * 3},
            **{name: [share * found[name] for share in SHARES] for name in ("hypervolume", "expected_utility")},
        },
        "front": {"policy": [0, 9], "weights": [[0.0, 1.0], [1.0, 0.0]], "returns": [[1.0, 2.0], [2.0, 1.0]]},
        "diverged": [],
        **changes,
    }


def write_results(directory: Path, problem: str, method: str, hypervolumes: Sequence[float], **others: Any) -> None:
    """A result file per hypervolume, seeds 0, 1, …, where a sweep would put them. EU is a tenth of HV."""
    for seed, value in enumerate(hypervolumes):
        result = sample_result(problem, method, seed, value, value / 10, **others)
        write_result(directory / directory_name(problem) / f"{directory_name(method)}-seed{seed}.json", result)


def texts(data: Any) -> list[str]:
    """Every name and every text anywhere in plain data."""
    if isinstance(data, dict):
        return [text for key, value in data.items() for text in (key, *texts(value))]
    if isinstance(data, list):
        return [text for value in data for text in texts(value)]
    return [data] if isinstance(data, str) else []


def assert_names_no_machine(found: dict[str, Any]) -> None:
    """No path, host or user anywhere."""
    for text in texts(found):
        assert not re.search(r"(^|\s)[/~\\]|[A-Z]:\\|/home|/tmp|/root", text), text
        assert platform.node() not in text
        assert text != getpass.getuser()
