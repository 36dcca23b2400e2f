"""Figures of fronts: scatter for two objectives, projections for three, parallel coordinates and pairs for more."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.typing import LineStyleType
from numpy.typing import NDArray

from ucb_moppo.objectives.pareto import nondominated
from ucb_moppo.report.runs import ComparedRun, RunData
from ucb_moppo.report.sections import Section
from ucb_moppo.report.style import (
    DOMINATED,
    PALETTE,
    GroupStyle,
    Picture,
    finish_picture,
    legend_beside,
    new_figure,
    objective_colour,
    steps_axis,
    style_groups,
    weight_colours,
    weight_key,
    wrap_name,
)
from ucb_moppo.report.words import describe_curves
from ucb_moppo.store.pairs import PointLayer, draw_pairs, pairs_size

NUM_PANELS = 8


def front_picture(run: RunData) -> Picture:
    """The front of one run, coloured by weight."""
    draw = {2: _front_of_two, 3: _front_of_three}.get(len(run.objectives), _front_of_many)
    figure, caption = draw(run)
    title = f"Front of {run.problem}, method {run.method}"
    return finish_picture(figure, f"front-{run.name}", title, caption, [run])


def _front_of_two(run: RunData) -> tuple[Figure, str]:
    figure = new_figure(6.4, 4.6)
    axes = figure.subplots()
    _scatter_dominated(axes, run, 0, 1)
    marks = axes.scatter(
        run.front[:, 0],
        run.front[:, 1],
        c=run.evaluated.weights[run.on_front, 0],
        vmin=0,
        vmax=1,
        s=34,
        label="on the front",
        zorder=3,
    )
    axes.set(xlabel=run.objectives[0], ylabel=run.objectives[1])
    figure.colorbar(marks, ax=axes, label=f"weight of {run.objectives[0]}")
    axes.legend()
    return figure, "Each point is one policy under one weight; both objectives are maximised."


def _front_of_three(run: RunData) -> tuple[Figure, str]:
    figure = new_figure(12.4, 3.9)
    *panels, key = figure.subplots(1, 4, width_ratios=(3, 3, 3, 1.5))
    colours = weight_colours(run.evaluated.weights[run.on_front])
    for axes, (i, j) in zip(panels, combinations(range(3), 2), strict=True):
        _scatter_dominated(axes, run, i, j)
        axes.scatter(run.front[:, i], run.front[:, j], c=colours, s=26, zorder=3, label="on the front")
        axes.set(xlabel=run.objectives[i], ylabel=run.objectives[j])
    weight_key(key, run.objectives)
    return figure, "Three projections of one front; grey points are dominated. All objectives are maximised."


def _front_of_many(run: RunData) -> tuple[Figure, str]:
    figure = new_figure(max(6.4, 1.5 * len(run.objectives)), 4.6)
    axes = figure.subplots()
    parallel_coordinates(axes, run.front, run.objectives, _largest_colours(run.evaluated.weights[run.on_front]))
    _largest_legend(figure, run)
    return figure, "A line is a point of the front: what it gets in each objective, from worst to best found."


def _largest_colours(weights: NDArray) -> list[str]:
    """The colour of each weight [n, m]: that of the objective it is largest on."""
    return [objective_colour(int(j)) for j in weights.argmax(axis=1)]


def _largest_legend(figure: Figure, run: RunData, **more: Any) -> None:
    largest = np.unique(run.evaluated.weights[run.on_front].argmax(axis=1))
    handles = [Line2D([], [], color=objective_colour(int(j)), label=run.objectives[j], **more) for j in largest]
    legend_beside(figure, handles=handles, title="largest weight on")


def pairs_picture(run: RunData) -> Picture:
    """Every objective of a run against every other."""
    size = pairs_size(len(run.objectives))
    figure = new_figure(size + 1.4, size)
    colours = _largest_colours(run.evaluated.weights[run.on_front])
    dominated = PointLayer(run.evaluated.returns[~run.on_front], {"s": 4, "color": DOMINATED, "linewidths": 0})
    on_front = PointLayer(run.front, {"s": 9, "c": colours, "linewidths": 0, "zorder": 3})
    draw_pairs(figure, run.objectives, [dominated, on_front])
    _largest_legend(figure, run, linestyle="", marker="o")
    title = f"Front of {run.problem} by pairs of objectives, method {run.method}"
    caption = "Each point is one policy under one weight; grey points are dominated. All objectives are maximised."
    return finish_picture(figure, f"pairs-{run.name}", title, caption, [run])


def _scatter_dominated(axes: Axes, run: RunData, i: int, j: int) -> None:
    others = run.evaluated.returns[~run.on_front]
    axes.scatter(others[:, i], others[:, j], s=12, color=DOMINATED, linewidths=0, label="dominated")


def parallel_coordinates(
    axes: Axes,
    points: NDArray,
    objectives: Sequence[str],
    colours: Sequence,
    limits: NDArray | None = None,
    line: LineStyleType = "-",
) -> None:
    """Lines [n, m] over one axis per objective, each scaled to ``limits`` [2, m] (by default what there is)."""
    m = len(objectives)
    limits = np.stack([points.min(0), points.max(0)]) if limits is None else limits
    span = np.where(limits[1] > limits[0], limits[1] - limits[0], 1.0)
    scaled = (points - limits[0]) / span
    lines = np.stack([np.broadcast_to(np.arange(m), scaled.shape), scaled], axis=-1)
    axes.add_collection(LineCollection(list(lines), colors=colours, linestyles=line, linewidths=1.2, alpha=0.8))
    for j in range(m):
        axes.vlines(j, 0, 1, color="0.6", linewidth=0.8, zorder=0)
        for level, value, side in ((0, limits[0, j], "top"), (1, limits[1, j], "bottom")):
            axes.text(j, level + (0.03 if level else -0.03), f"{value:.4g}", ha="center", va=side, fontsize=7)
    axes.set(xlim=(-0.4, m - 0.6), ylim=(-0.12, 1.12), yticks=[])
    axes.set_xticks(range(m), [wrap_name(name) for name in objectives])
    axes.grid(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)


# --- how the front grew ------------------------------------------------------------------------------------


def growth_picture(run: RunData) -> Picture:
    """Eight panels through training as in the paper: seven fronts, and the hypervolume over them.

    A run with fewer evaluations has fewer panels.
    """
    chosen = spread(len(run.history), NUM_PANELS - 1)
    rows, columns = _grid(len(chosen) + 1)
    figure = new_figure(3.1 * max(2, columns), 3.1 * rows)
    panels = list(figure.subplots(rows, columns, squeeze=False).ravel())
    limits = growth_limits(run)
    for axes, index in zip(panels, chosen, strict=False):
        _draw_stage(axes, run, index, limits)
    _draw_hypervolume(panels[len(chosen)], run, chosen)
    for axes in panels[len(chosen) + 1 :]:
        axes.remove()
    if len(run.objectives) <= 3:
        _colour_bar(figure, panels[: len(chosen) + 1], run, limits)
    else:
        _number_axes(figure, run.objectives)
    title = f"How the CCS of {run.problem} grew, method {run.method}"
    caption = "Evaluations at evenly spaced stages, and the hypervolume of all of them."
    if len(run.objectives) > 3:
        caption += " A line is a point of the front, in the colour of its largest weight."
    caption = f"{caption} {describe_curves(run)}".strip()
    return finish_picture(figure, f"growth-{run.name}", title, caption, [run])


def _grid(count: int) -> tuple[int, int]:
    """Rows and columns for so many panels, at most four beside each other."""
    rows = -(-count // (NUM_PANELS // 2))
    return rows, -(-count // rows)


def _draw_hypervolume(axes: Axes, run: RunData, chosen: NDArray) -> None:
    values = run.series("hypervolume")
    axes.plot(run.steps, values, color=PALETTE[0])
    axes.plot(run.steps[chosen], values[chosen], "o", color=PALETTE[0], markersize=4, label="panels")
    axes.set(title="hypervolume", ylim=(0, None))
    axes.legend(loc="lower right")
    steps_axis(axes)


def _colour_bar(figure: Figure, panels: list[Axes], run: RunData, limits: NDArray) -> None:
    """What the colours of the fronts mean: see ``_draw_stage``."""
    scale, label = ((0.0, 1.0), f"weight of {run.objectives[0]}")
    if len(run.objectives) == 3:
        scale, label = (limits[0, 2], limits[1, 2]), run.objectives[2]
    figure.colorbar(ScalarMappable(Normalize(*scale)), ax=panels, label=label, aspect=35)


def _number_axes(figure: Figure, objectives: Sequence[str]) -> None:
    """The names of numbered axes, each in the colour of lines whose weight is largest there."""
    handles = [
        Line2D([], [], color=objective_colour(j), label=f"{j + 1} {wrap_name(name, 16)}")
        for j, name in enumerate(objectives)
    ]
    legend_beside(figure, handles=handles, title="axis")


def spread(length: int, count: int) -> NDArray:
    """At most ``count`` evenly spaced indices into ``length``, both ends included."""
    return np.unique(np.linspace(0, length - 1, min(count, length)).round().astype(int))


def growth_limits(run: RunData) -> NDArray:
    """[2, m] around all fronts and most of what they dominate: a runaway start does not stretch them."""
    values = np.concatenate([one.returns for one in run.history])
    values = values[np.isfinite(values).all(1)]
    fronts = np.concatenate([one.returns[nondominated(one.returns)] for one in run.history])
    low, high = np.minimum(np.percentile(values, 1, axis=0), fronts.min(0)), values.max(0)
    margin = np.where(high > low, 0.06 * (high - low), 1.0)
    return np.stack([low - margin, high + margin])


def _draw_stage(axes: Axes, run: RunData, index: int, limits: NDArray) -> None:
    _, weights, returns = run.history[index]
    front = nondominated(returns)
    axes.set_title(f"stage {run.stages[index]}, {run.steps[index]:,.0f} steps")
    if len(run.objectives) > 3:
        parallel_coordinates(axes, returns[front], run.objectives, _largest_colours(weights[front]), limits)
        axes.set_xticks(range(len(run.objectives)), [str(j + 1) for j in range(len(run.objectives))])
        return
    colour = returns[:, 2] if len(run.objectives) == 3 else weights[:, 0]
    scale = limits[:, 2] if len(run.objectives) == 3 else (0, 1)
    axes.scatter(returns[~front, 0], returns[~front, 1], s=8, color=DOMINATED, linewidths=0)
    x, y = returns[front, 0], returns[front, 1]
    axes.scatter(x, y, s=16, c=colour[front], vmin=scale[0], vmax=scale[1], zorder=3)
    axes.set(xlim=limits[:, 0], ylim=limits[:, 1], xlabel=run.objectives[0], ylabel=run.objectives[1])


# --- several runs ------------------------------------------------------------------------------------------


def overlay_picture(section: Section) -> Picture:
    """The fronts of all runs of a problem in one picture, a colour per method."""
    m = len(section.first.objectives)
    pairs = list(combinations(range(m), 2)) if m <= 3 else []
    figure = new_figure(6.4 if m == 2 else 12.4 if m == 3 else max(7.4, 1.5 * m), 4.4)
    panels = figure.subplots(1, max(1, len(pairs)), squeeze=False)[0]
    everything = np.concatenate([run.front for run in section.runs])
    limits = np.stack([everything.min(0), everything.max(0)])
    handles = []
    for group, style in style_groups(section):
        look: dict[str, Any] = {"linestyle": "", "marker": style.marker} if pairs else {"linestyle": style.line}
        handles.append(Line2D([], [], color=style.colour, label=group.label, **look))
        for run in group.runs:
            _overlay_run(panels, run, pairs, style, limits)
    legend_beside(figure, handles=handles)
    return finish_picture(
        figure,
        f"fronts-{section.title}",
        f"Fronts of {section.title}",
        "The points on the front of every run, a colour per method; all seeds of a method share it.",
        section.runs,
    )


def overlay_pairs_picture(section: Section) -> Picture:
    """The fronts of all runs of a problem of many objectives, every objective against every other."""
    objectives = section.first.objectives
    size = pairs_size(len(objectives))
    figure = new_figure(size + 1.4, size)
    layers, handles = [], []
    for group, style in style_groups(section):
        look: dict[str, Any] = {"color": style.colour, "marker": style.marker}
        handles.append(Line2D([], [], linestyle="", label=group.label, **look))
        points = np.concatenate([run.front for run in group.runs])
        layers.append(PointLayer(points, {"s": 9, "alpha": 0.7, "linewidths": 0, **look}))
    draw_pairs(figure, objectives, layers)
    legend_beside(figure, handles=handles)
    title = f"Fronts of {section.title} by pairs of objectives"
    caption = "The points on the front of every run, a colour per method; all seeds of a method share it."
    return finish_picture(figure, f"pairs-{section.title}", title, caption, section.runs)


def _overlay_run(
    panels: Sequence[Axes], run: ComparedRun, pairs: list[tuple[int, int]], style: GroupStyle, limits: NDArray
) -> None:
    if not pairs:
        colours = [style.colour] * len(run.front)
        parallel_coordinates(panels[0], run.front, run.objectives, colours, limits, style.line)
    for axes, (i, j) in zip(panels, pairs, strict=False):
        x, y = run.front[:, i], run.front[:, j]
        axes.scatter(x, y, s=18, color=style.colour, marker=style.marker, alpha=0.7, linewidths=0)
        axes.set(xlabel=run.objectives[i], ylabel=run.objectives[j])
