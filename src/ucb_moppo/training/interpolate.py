"""The paper's interpolation study: every policy on more and more weights of its sub-space, without training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.errors import ConfigError, RunFormatError
from ucb_moppo.registry import INDICATORS
from ucb_moppo.store.guarded import file_size, read_bytes, replace_file
from ucb_moppo.store.storage import parse_columns

STUDY_FILE = "interpolation.csv"
MAX_STUDY = 1 << 20
HELD_OUT_COLUMN = "held_out"
STUDY_COLUMNS = ("weights_per_policy", *INDICATORS, "evaluation_steps", "episodes", HELD_OUT_COLUMN)


def interpolate_run(
    path: Path,
    counts: Sequence[int],
    episodes: int | None = None,
    *,
    held_out: int | None = None,
    threads: int = 0,
    on_result: Callable[[dict[str, Any]], None] = lambda result: None,
) -> list[dict[str, Any]]:
    """Evaluate a run on each number of weights per policy; the table goes into the run, a row at a time.

    Each front is chosen by ``episodes`` and measured by ``held_out`` others, both as in the run where None: the
    more points compete, the luckier is the best of them.
    """
    from ucb_moppo.training.reevaluate import evaluate_run

    if not counts:
        raise ConfigError("--weights is empty; give how many weights per policy to evaluate, e.g. 10 20 50 100")
    results: list[dict[str, Any]] = []
    for count in sorted(set(counts)):
        results.append(evaluate_run(path, count, episodes, held_out=held_out, threads=threads))
        lines = [",".join(STUDY_COLUMNS), *(",".join(str(row[name]) for name in STUDY_COLUMNS) for row in results)]
        replace_file(path, STUDY_FILE, ("\n".join(lines) + "\n").encode())
        on_result(results[-1])
    return results


def read_study(path: Path) -> dict[str, NDArray] | None:
    """The columns of a run's study; None where it has none."""
    if file_size(path, STUDY_FILE) is None:
        return None
    columns = parse_columns(read_bytes(path, STUDY_FILE, MAX_STUDY), path / STUDY_FILE)
    # Studies of older versions measured nothing again, and had no column that says so.
    columns = {HELD_OUT_COLUMN: np.zeros(len(next(iter(columns.values()), ()))), **columns}
    missing = [name for name in STUDY_COLUMNS if name not in columns]
    if missing:
        raise RunFormatError(f"{path / STUDY_FILE} has no column {', '.join(missing)}")
    return {name: columns[name] for name in STUDY_COLUMNS}
