"""How well the weight steers a policy: the rank correlation of w₁ and V₁ among the weights it was evaluated on.

    python benchmarks/steering.py runs/search-study/*/ucb-seed*

A line a problem: the median over all policies of all runs, the share of them above 0.9, and the median sparsity.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ucb_moppo.engine.trainer import rank_correlation
from ucb_moppo.store.run import Run

STEADY = 0.9


def correlations(run: Run) -> list[float]:
    """Of each policy of a run that was evaluated on more than two weights, where its returns vary at all."""
    evaluated = run.evaluated()
    pairs = [
        (evaluated.weights[rows, 0], evaluated.returns[rows, 0])
        for policy in np.unique(evaluated.policy)
        if np.count_nonzero(rows := evaluated.policy == policy) > 2
    ]
    return [found for weights, returns in pairs if np.isfinite(found := rank_correlation(weights, returns))]


def describe(name: str, runs: Iterable[Run]) -> str:
    """One line about runs of the same problem."""
    runs = list(runs)
    found = [correlation for run in runs for correlation in correlations(run)]
    steady = np.mean(np.array(found) > STEADY)
    sparsity = np.median([run.summary["sparsity"] for run in runs])
    told = f"median {np.median(found):.2f}   {steady:.0%} above {STEADY}   sparsity {sparsity:.3g}"
    return f"{name:16} {len(runs):3} runs   {told}"


def main(paths: Sequence[str]) -> None:
    by_problem: dict[str, list[Run]] = defaultdict(list)
    for path in map(Path, paths):
        if (path / "summary.json").exists():
            run = Run(path)
            by_problem[run.summary["problem"]].append(run)
    if not by_problem:
        raise SystemExit(__doc__)
    for name, runs in sorted(by_problem.items()):
        print(describe(name, runs))


if __name__ == "__main__":
    main(sys.argv[1:])
