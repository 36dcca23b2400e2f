"""The picture of a run's front: a file that the run leaves, and a figure for whoever asks for one."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from numpy.typing import NDArray

from ucb_moppo.store.guarded import write_file
from ucb_moppo.store.pairs import PointLayer, draw_pairs, pairs_size
from ucb_moppo.store.records import describe_hypervolume, describe_utility

if TYPE_CHECKING:
    from ucb_moppo.store.found import Found
    from ucb_moppo.store.front import Front

PLAIN_TEXT: dict[Any, Any] = {"text.parse_math": False, "text.usetex": False, "axes.formatter.use_mathtext": False}
"""Words as they are: names come from files, and a $ in one is a dollar."""
LOOK: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.92",
    "axes.axisbelow": True,
    "legend.frameon": False,
}
"""Of every figure, here and in reports: little ink that is not data."""


class FrontFigure(Figure):
    """A figure that a notebook shows by itself, without pyplot, which would show it twice."""

    def _repr_png_(self) -> bytes:
        return to_png(self)


def draw_front(run: Found, path: Path) -> Path:
    """Draw the front into a file."""
    with matplotlib.rc_context(PLAIN_TEXT):
        write_file(path, to_png(make_figure(run)))
    return path


def to_png(figure: Figure) -> bytes:
    """A figure as a picture."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=150)
    return picture.getvalue()


def make_figure(run: Found) -> Figure:
    """The front: a panel per pair of objectives, coloured by the weight of the first.

    With more than three objectives the panels form a matrix.
    """
    with matplotlib.rc_context(PLAIN_TEXT | LOOK):
        everything, front, found = run.evaluated(), run.front(), run.summary
        objectives, stands = found["objectives"], run.confirmed()
        ring: dict[str, Any] = {"s": 18, "facecolors": "none", "edgecolors": "0.6", "linewidths": 0.8}
        colours: dict[str, Any] = {"c": front.weights[stands, 0], "vmin": 0, "vmax": 1}
        dominated = {"label": "dominated"} if count_drawn(everything) > count_drawn(front) else {}
        figure, panels = draw_panels(
            objectives,
            [
                PointLayer(everything.returns, {"s": 12, "color": "0.75", **dominated}),
                *([] if stands.all() else [PointLayer(front.returns[~stands], ring | {"label": "not confirmed"})]),
                PointLayer(front.returns[stands], {"s": 34, "label": "front", "zorder": 3, **colours}),
            ],
        )
        marks, bar = panels[0].collections[-1], 20 * len(panels) ** 0.25
        figure.colorbar(marks, ax=panels, label=f"weight of {objectives[0]}", aspect=bar)
        if len(objectives) <= 3:
            draw_errors(panels, front.returns[stands], run.front_errors()[stands])
        if len(objectives) == 2:
            shade_dominated(panels[0], front.returns[stands])
        add_legend(figure, panels[0], matrix=len(objectives) > 3)
        figure.suptitle(make_title(found), fontsize=10)
    return figure


def count_drawn(points: Front) -> int:
    """How many points can be drawn; those of a policy that diverged cannot."""
    return int(np.isfinite(points.returns).all(axis=1).sum())


def draw_panels(objectives: Sequence[str], layers: Sequence[PointLayer]) -> tuple[Figure, list[Axes]]:
    """A panel per pair of objectives: beside each other up to three objectives, else as a matrix."""
    if len(objectives) > 3:
        size = pairs_size(len(objectives))
        figure = FrontFigure(figsize=(size + 1.2, size), layout="constrained")
        FigureCanvasAgg(figure)
        small = [layer._replace(look=layer.look | {"s": layer.look["s"] / 4}) for layer in layers]
        return figure, draw_pairs(figure, objectives, small)
    pairs = list(combinations(range(len(objectives)), 2))
    figure = FrontFigure(figsize=(1.2 + 4.8 * len(pairs), 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = list(figure.subplots(1, len(pairs), squeeze=False)[0])
    for axes, (i, j) in zip(panels, pairs, strict=True):
        for points, look in layers:
            axes.scatter(points[:, i], points[:, j], **look)
        axes.set(xlabel=objectives[i], ylabel=objectives[j])
    return figure, panels


def draw_errors(panels: Sequence[Axes], points: NDArray, errors: NDArray) -> None:
    """Whiskers of one standard error at points [n, m] that were measured, a panel per pair of objectives."""
    measured = np.isfinite(errors).all(axis=1) & np.isfinite(points).all(axis=1)
    if not measured.any():
        return
    points, errors = points[measured], errors[measured]
    for axes, (i, j) in zip(panels, combinations(range(points.shape[1]), 2), strict=True):
        look: dict[str, Any] = {"fmt": "none", "ecolor": "0.6", "elinewidth": 0.8, "label": "± standard error"}
        axes.errorbar(points[:, i], points[:, j], errors[:, j], errors[:, i], **look)


def shade_dominated(axes: Axes, points: NDArray) -> None:
    """Shade all that points [n, 2] are better than, the hypervolume, as far as the axes show it."""
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        return
    left, bottom = axes.get_xlim()[0], axes.get_ylim()[0]
    x, y = points[np.argsort(points[:, 0])].T
    y = np.maximum.accumulate(y[::-1])[::-1]  # the best of the second objective with at least so much of the first
    edge = np.stack([np.repeat(x, 2), np.append(np.repeat(y, 2)[1:], bottom)], axis=1)
    corners = np.concatenate([[[left, bottom], [left, y[0]]], edge])
    axes.add_patch(Polygon(corners, color="#0072B2", alpha=0.07, linewidth=0, zorder=0, label="covered"))


def add_legend(figure: Figure, axes: Axes, matrix: bool) -> None:
    """Say what the marks are: in the first panel, or above the diagonal of a matrix, where there is room."""
    if matrix:
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, frameon=False, loc="upper right", bbox_to_anchor=(0.8, 0.9))
    else:
        axes.legend(loc="best")


def make_title(found: Mapping[str, Any]) -> str:
    """What was trained for how long, and what was found."""
    discount = found.get("evaluation_discount", 1.0)
    discounted = "" if discount == 1 else f", returns discounted by {discount:g}"
    utility = f", utility {describe_utility(found)}" if describe_utility(found) else ""
    return (
        f"{found['problem']}, {found['method']}, seed {found['seed']}, {found['training_steps']:,} training steps: "
        f"{describe_hypervolume(found)}, EU {found['expected_utility']:.4g}{utility}{discounted}"
    )
