"""What results have over their seeds, a row for each problem and method, as the table that documents show.

    python benchmarks/seeds_table.py results/search-study [results/protocol-c ...]

Mean ± standard deviation of hypervolume and expected utility, and the median of sparsity.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from ucb_moppo.bench.result import read_result

HEAD = ("problem", "method", "steps", "seeds", "HV", "EU", "sparsity", "points", "seconds")


def spread(values: list[float], digits: int = 4) -> str:
    """Mean and standard deviation."""
    return f"{statistics.mean(values):.{digits}g} ± {statistics.stdev(values) if len(values) > 1 else 0:.2g}"


def describe(results: list[dict[str, Any]]) -> tuple[str, ...]:
    """A row about the seeds of one method on one problem."""
    first, found = results[0], [one["found"] for one in results]
    gaps = [one["sparsity"] for one in found if one["sparsity"] is not None]
    return (
        first["problem"],
        first["method"],
        f"{first['steps']['training']:,}",
        ", ".join(str(seed) for seed in sorted(one["seed"] for one in results)),
        spread([one["hypervolume"] for one in found]),
        spread([one["expected_utility"] for one in found]),
        f"{statistics.median(gaps):.2g}" if gaps else "–",
        f"{statistics.median(one['cardinality'] for one in found):.0f}",
        f"{statistics.median(one['seconds'] for one in results):.0f}",
    )


def print_table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Markdown."""
    print("\n".join("| " + " | ".join(row) + " |" for row in [head, ("---",) * len(head), *rows]))


def main(folders: list[Path]) -> None:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for path in (path for folder in folders for path in sorted(folder.glob("*/*.json"))):
        result = read_result(path)
        groups[result["problem"], result["method"]].append(result)
    print_table(HEAD, [describe(results) for _, results in sorted(groups.items())])


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])
