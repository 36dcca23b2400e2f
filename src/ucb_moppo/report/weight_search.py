"""Figures of the search for weights: what was selected at each stage, and how well the surrogate foresaw it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ucb_moppo.report.curves import bulk_limits
from ucb_moppo.report.runs import RunData
from ucb_moppo.report.style import PALETTE, Picture, finish_picture, new_figure, steps_axis


def selection_picture(run: RunData) -> Picture | None:
    """Stage × weight: how many environments trained near each weight. None before the first stage."""
    trained = [line for line in run.metrics if line.get("selected_weights")]
    if not trained:
        return None
    image = selection_counts(run)
    stages = [line["stage"] for line in trained]
    figure = new_figure(10.4, min(8.0, 2.6 + 0.14 * len(stages)))
    axes = figure.subplots()
    _draw_counts(axes, image, stages)
    _label_weights(axes, run, image.shape[1])
    bar = figure.colorbar(axes.images[0], ax=axes, label="environments near the weight")
    bar.set_ticks(np.unique(np.linspace(0, image.max(), 6).round()).tolist())
    title = f"Weights selected at each stage, {run.problem}, method {run.method}"
    caption = (
        "A row is a stage, from the first at the bottom; a column is an evaluated weight. White: not trained on."
    )
    return finish_picture(figure, f"selection-{run.name}", title, caption, [run])


def selection_counts(run: RunData) -> NDArray:
    """[stages, K·P] environments whose weight was nearest to each evaluated weight of those that choose with it."""
    order, policy = column_order(run), run.evaluated.policy
    rows = []
    for line in run.metrics:
        if not line.get("selected_weights"):
            continue
        counts, group = np.zeros(len(policy), int), choosing_together(run, line)
        for k, selected in enumerate(line["selected_weights"]):
            own = np.flatnonzero(policy // group == k // group)
            nearest = cdist(np.asarray(selected), run.evaluated.weights[own]).argmin(axis=1)
            np.add.at(counts, own[nearest], 1)
        rows.append(counts[order])
    return np.array(rows)


def choosing_together(run: RunData, line: Mapping[str, Any]) -> int:
    """How many neighbouring sub-spaces shared a policy in a stage, and chose weights for all of them."""
    search = run.config.get("search", {})
    shared = search.get("layout") == "parting" and line["iteration"] <= search["together"]
    return int(search["policies"]) if shared else 1


def column_order(run: RunData) -> NDArray:
    """Columns by policy, and by the weight of the first objective within a policy (for m = 2, just the latter)."""
    weights, policy = run.evaluated.weights, run.evaluated.policy
    return np.lexsort((policy, weights[:, 0])) if weights.shape[1] == 2 else np.lexsort((weights[:, 0], policy))


def _draw_counts(axes: Axes, image: NDArray, stages: list[int]) -> None:
    shades = count_shades(int(image.max()))
    extent = (0, image.shape[1], -0.5, len(stages) - 0.5)
    axes.imshow(image, aspect="auto", origin="lower", cmap=shades, extent=extent, interpolation="nearest", vmin=0)
    ticks = range(0, len(stages), -(-len(stages) // 10))
    axes.set_yticks(ticks, [str(stages[i]) for i in ticks])
    axes.set_ylabel("stage")
    axes.grid(False)


def count_shades(levels: int) -> ListedColormap:
    """White for none, then from light to dark."""
    import matplotlib

    dark = matplotlib.colormaps["viridis_r"](np.linspace(0.05, 1, 256))
    empty = max(1, round(256 * 0.5 / max(1, levels)))
    dark[:empty] = 1.0
    return ListedColormap(dark)


def _label_weights(axes: Axes, run: RunData, columns: int) -> None:
    if len(run.objectives) == 2:
        axes.set_xticks(np.linspace(0, columns, 11), [f"{x:.1f}" for x in np.linspace(0, 1, 11)])
        axes.set_xlabel(f"weight of {run.objectives[0]}")
        return
    per_policy, step = columns // run.num_policies, max(1, run.num_policies // 18)
    shown = np.arange(0, run.num_policies, step)
    axes.set_xticks((shown + 0.5) * per_policy, [str(k) for k in shown])
    axes.set_xlabel(f"policy; within it, its weights by the weight of {run.objectives[0]}")
    for k in range(1, run.num_policies):
        axes.axvline(k * per_policy, color="0.85", linewidth=0.5)


def surrogate_picture(run: RunData) -> Picture | None:
    """Predicted against realised change, its error over stages, and β·σ. None for a method without surrogate."""
    lines = [line for line in run.metrics if (line.get("surrogate") or {}).get("predicted")]
    if not lines:
        return None
    m = len(run.objectives)
    figure = new_figure(11.4, 1.2 + 2.7 * m)
    panels = figure.subplots(m, 3, squeeze=False)
    predicted, realised = (
        np.array([line["surrogate"][name] for line in lines], float).reshape(len(lines), -1, m)
        for name in ("predicted", "realised")
    )
    steps = np.array([line["training_steps"] for line in lines])
    for j, row in enumerate(panels):
        _draw_predictions(row[0], predicted[..., j], realised[..., j], run.objectives[j])
        _draw_errors(row[1], steps, lines, j)
        _draw_uncertainty(row[2], steps, lines, j)
    title = f"What the surrogate foresaw, {run.problem}, method {run.method}"
    caption = (
        "Left: predicted against realised change of each evaluated weight over a stage (the "
        "outermost hundredth is cut off). Middle: mean absolute "
        "error, beside the mean change that predicting none would miss. Right: the bonus β·σ at selected weights."
    )
    return finish_picture(figure, f"surrogate-{run.name}", title, caption, [run])


def _draw_predictions(axes: Axes, predicted: NDArray, realised: NDArray, objective: str) -> None:
    x, y = predicted.ravel(), realised.ravel()
    finite = np.isfinite(x) & np.isfinite(y)
    axes.scatter(x[finite], y[finite], s=5, alpha=0.35, linewidths=0, color=PALETTE[0])
    limits = bulk_limits(np.concatenate([x[finite], y[finite]]))
    axes.plot(limits, limits, color="0.4", linewidth=0.8, linestyle="--")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set(xlim=limits, ylim=limits, xlabel="predicted change", ylabel="realised change", title=objective)


def _draw_errors(axes: Axes, steps: NDArray, lines: list, j: int) -> None:
    for name, label, colour in (
        ("absolute_error", "error of the surrogate", PALETTE[0]),
        ("absolute_change", "error of predicting no change", "0.6"),
    ):
        errors = np.array([line["surrogate"][name][j] for line in lines], float)
        axes.plot(steps, errors, color=colour, label=label, marker=".")
    axes.set(ylabel="mean absolute error", ylim=(0, None))
    _legend_above(axes)
    steps_axis(axes)


def _draw_uncertainty(axes: Axes, steps: NDArray, lines: list, j: int) -> None:
    bonus = np.array([line["surrogate"]["beta_sigma"] for line in lines], float)[..., j]
    axes.plot(steps, bonus.mean(axis=1), color=PALETTE[4], marker=".", label="mean over policies")
    low, high = bonus.min(axis=1), bonus.max(axis=1)
    axes.fill_between(steps, low, high, color=PALETTE[4], alpha=0.18, lw=0, label="range over policies")
    axes.set(ylabel="β·σ at selected weights", ylim=(0, None))
    _legend_above(axes)
    steps_axis(axes)


def _legend_above(axes: Axes) -> None:
    """A legend over what is drawn, with room made for it."""
    axes.set_ylim(0, 1.22 * axes.get_ylim()[1])
    axes.legend(fontsize=7, loc="upper right")
