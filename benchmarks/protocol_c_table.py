"""Protocol C beside what C-MORL and D3PO printed, as the table that documents show.

    python benchmarks/protocol_c_table.py [results/protocol-c]

Mean ± standard deviation over seeds of hypervolume, expected utility and sparsity, and the median of points. Bold
is what is better than both of them: above in the first two, no more than theirs in sparsity.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from seeds_table import print_table

from ucb_moppo.bench.result import read_result
from ucb_moppo.report.paper import Published, published_class_c

OTHERS = ("C-MORL", "D3PO")
HEAD = ("problem", "seeds", "HV", "EU", "sparsity", "points", *(f"{name}: HV / EU / sparsity" for name in OTHERS))


def spread(values: list[float], unit: float = 1.0, digits: int = 0) -> str:
    """Mean ± standard deviation in units of ``unit``."""
    mean, deviation = statistics.mean(values) / unit, statistics.stdev(values) / unit if len(values) > 1 else 0.0
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}" + (f" e{len(f'{unit:.0f}') - 1}" if unit != 1 else "")


def bold(text: str, better: bool) -> str:
    """Stress what is better than all others'."""
    return f"**{text}**" if better else text


def describe_other(row: Published) -> str:
    """Printed numbers of one method."""
    return f"{row.hypervolume:.4g} / {row.expected_utility:g} / {row.sparsity:g}".replace("e+0", "e")


def describe(problem: str, results: list[dict[str, Any]]) -> tuple[str, ...]:
    """A row about the seeds of one problem."""
    found = [one["found"] for one in results]
    volumes, utilities, gaps = (
        [one[name] for one in found] for name in ("hypervolume", "expected_utility", "sparsity")
    )
    others = [row for row in published_class_c(problem) if row.method in OTHERS and row.sparsity is not None]
    unit = 10.0 ** (len(f"{statistics.mean(volumes):.0f}") - 1)
    return (
        problem,
        ", ".join(str(seed) for seed in sorted(one["seed"] for one in results)),
        bold(spread(volumes, unit, 2), statistics.mean(volumes) > max(row.hypervolume or 0.0 for row in others)),
        bold(spread(utilities), statistics.mean(utilities) > max(row.expected_utility or 0.0 for row in others)),
        bold(spread(gaps), statistics.mean(gaps) <= min(row.sparsity or 0.0 for row in others)),
        f"{statistics.median(one['cardinality'] for one in found):.0f}",
        *(describe_other(row) for name in OTHERS for row in others if row.method == name),
    )


def main(folder: Path) -> None:
    by_problem: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(folder.glob("*/*.json")):
        result = read_result(path)
        by_problem[result["problem"]].append(result)
    print_table(HEAD, [describe(problem, results) for problem, results in by_problem.items()])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results/protocol-c"))
