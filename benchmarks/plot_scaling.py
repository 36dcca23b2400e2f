"""The picture of docs/scaling.md, from the tables that benchmarks/scaling.py left in results/scaling.

python benchmarks/plot_scaling.py
"""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

ROOT = Path(__file__).parents[1]
TABLES, PICTURE = ROOT / "results" / "scaling", ROOT / "docs" / "scaling.png"


def read(name: str) -> list[dict[str, str]]:
    with (TABLES / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def draw(axes: Axes, name: str, y: str, title: str, label: str) -> None:
    """One column of a table against the number that was varied."""
    rows = read(name)
    x = [int(row[name]) for row in rows]
    values = [float(row[y]) for row in rows]
    axes.plot(x, values, "o-", color="#2b6cb0")
    axes.set(xlabel=label, ylabel=y, title=title, ylim=(0, 1.1 * max(values)), xscale="log")
    axes.set_xticks(x, [str(value) for value in x])
    axes.minorticks_off()


def draw_hypervolume(axes: Axes) -> None:
    rows = read("hypervolume")
    for size, colour in zip(
        sorted({int(row["points"]) for row in rows}), ("#90cdf4", "#4299e1", "#2a4365"), strict=True
    ):
        chosen = [row for row in rows if int(row["points"]) == size]
        x, y = ([float(row[name]) for row in chosen] for name in ("objectives", "CPU seconds"))
        axes.semilogy(x, y, "o-", color=colour, label=f"{size} points")
    axes.set(xlabel="objectives m", ylabel="CPU seconds", title="hypervolume of a front")
    axes.legend(frameon=False)


def main() -> None:
    figure, axes = plt.subplots(2, 3, figsize=(13, 7), layout="constrained")
    problem = read("policies")[0]["problem"]
    draw(axes[0, 0], "policies", "steps per second", f"throughput, {problem}", "policies K")
    draw(axes[0, 1], "active", "steps per second", "throughput", "environments per policy N")
    draw(axes[0, 2], "shards", "steps per second", "throughput", "shards S")
    draw(axes[1, 0], "policies", "memory, GiB", "memory of all processes", "policies K")
    draw(axes[1, 1], "shards", "memory, GiB", "memory of all processes", "shards S")
    draw_hypervolume(axes[1, 2])
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE, dpi=90, metadata={"Software": None})


if __name__ == "__main__":
    main()
