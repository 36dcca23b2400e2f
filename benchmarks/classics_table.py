"""The classics against their true fronts: what share of hypervolume and expected utility results have, as a table.

    python benchmarks/classics_table.py [results/classics]

True fronts are MO-Gymnasium's own, discounted as the results are. Three are put right here: all that four-room pays
can be had within its 200 steps; resource-gathering's enemies can be walked around, which its list leaves out; and a
draw of minecart's ore that is negative counts 0, where its front has the mean of the positive ones.
Weighted sums find the convex part alone; expected utility does not miss the rest, the hypervolume does.
"""

from __future__ import annotations

import statistics
import sys
import warnings
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from seeds_table import print_table, spread

from ucb_moppo.bench.result import read_result
from ucb_moppo.envs.adapter import make_env
from ucb_moppo.objectives.pareto import expected_utility, hypervolume
from ucb_moppo.objectives.weights import simplex_lattice

EVERYTHING = {"four-room-v0": [[5.0, 5.0, 5.0]], "resource-gathering-v0": [[0.0, 1.0, 1.0]]}
"""What pays the most of every objective at once, undiscounted: the whole front."""
HEAD = ("problem", "steps", "seeds", "HV", "of the true HV", "EU", "of the true EU", "seconds")


def true_front(problem: str, discount: float) -> NDArray | None:
    """The returns [n, m] of the best there is; None where nobody knows."""
    if problem in EVERYTHING:
        return np.array(EVERYTHING[problem]) if discount == 1 else None
    env: Any = make_env(problem).unwrapped
    for mine in getattr(env, "mines", ()):  # minecart's, whose front is made of what its mines say
        mine.distribution_means = partial(mean_ore, mine)
    find = getattr(env, "pareto_front", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return None if find is None else np.array(find(gamma=discount))


def mean_ore(mine: Any) -> NDArray:
    """What a draw from one of minecart's mines yields on average, of each ore.

    Minecart's front takes a full cart to hold the capacity in these shares, which is 1.4% too much at most.
    """
    means, deviations = np.array([ore.args for ore in mine.distributions]).T
    return clipped_mean(means, deviations)


def clipped_mean(mean: NDArray, deviation: NDArray) -> NDArray:
    """E[max(0, X)] of normal X: μ Φ(μ/σ) + σ φ(μ/σ), and max(0, μ) where nothing is left to chance."""
    ratio = np.divide(mean, deviation, out=np.zeros_like(mean), where=deviation > 0)
    noisy = mean * norm.cdf(ratio) + deviation * norm.pdf(ratio)
    return np.where(deviation > 0, noisy, np.maximum(mean, 0))


def true_values(result: dict[str, Any]) -> tuple[float, float] | None:
    """Hypervolume and expected utility of the true front, measured as the result was."""
    front = true_front(result["problem"], result["evaluation_discount"])
    if front is None:
        return None
    weights = simplex_lattice(front.shape[1], result["config"]["utility_divisions"])
    return hypervolume(front, result["reference_point"]), expected_utility(front, weights)


def describe(results: list[dict[str, Any]]) -> tuple[str, ...]:
    """A row about the seeds of one problem."""
    truth, first = true_values(results[0]), results[0]
    found = [[one["found"][name] for one in results] for name in ("hypervolume", "expected_utility")]
    shares = [
        "unknown" if truth is None else f"{statistics.mean(values) / best:.1%}"
        for values, best in zip(found, truth or (1.0, 1.0), strict=True)
    ]
    return (
        first["problem"],
        f"{first['steps']['training']:,}",
        str(len(results)),
        *(cell for values, share in zip(found, shares, strict=True) for cell in (spread(values), share)),
        f"{statistics.median(one['seconds'] for one in results):.0f}",
    )


def main(folder: Path) -> None:
    by_problem: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(folder.glob("*/*.json")):
        result = read_result(path)
        by_problem[result["problem"]].append(result)
    print_table(HEAD, [describe(results) for results in by_problem.values()])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results/classics"))
