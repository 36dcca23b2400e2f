"""The picture of a run's front: a file that the run leaves, and a figure for whoever asks for one."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ucb_moppo.store.guarded import write_file
from ucb_moppo.store.pairs import PointLayer, draw_pairs, pairs_size
from ucb_moppo.store.records import describe_hypervolume, describe_utility

if TYPE_CHECKING:
    from ucb_moppo.store.run import Run

PLAIN_TEXT: dict[Any, Any] = {"text.parse_math": False, "text.usetex": False, "axes.formatter.use_mathtext": False}
"""Words as they are: names come from files, and a $ in one is a dollar."""


class FrontFigure(Figure):
    """A figure that a notebook shows by itself, without pyplot, which would show it twice."""

    def _repr_png_(self) -> bytes:
        return to_png(self)


def draw_front(run: Run, path: Path) -> Path:
    """Draw the front into a file."""
    with matplotlib.rc_context(PLAIN_TEXT):
        write_file(path, to_png(make_figure(run)))
    return path


def to_png(figure: Figure) -> bytes:
    """A figure as a picture."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=150)
    return picture.getvalue()


def make_figure(run: Run) -> Figure:
    """The front: a panel per pair of objectives, coloured by the weight of the first.

    With more than three objectives the panels form a matrix.
    """
    with matplotlib.rc_context(PLAIN_TEXT):
        everything, front, found = run.evaluated(), run.front(), run.summary
        colours: dict[str, Any] = {"c": front.weights[:, 0], "vmin": 0, "vmax": 1}
        figure, panels = draw_panels(
            found["objectives"],
            [
                PointLayer(everything.returns, {"s": 12, "color": "0.8", "label": "dominated"}),
                PointLayer(front.returns, {"s": 28, "label": "front", **colours}),
            ],
        )
        marks, bar = panels[0].collections[-1], 20 * len(panels) ** 0.25
        figure.colorbar(marks, ax=panels, label=f"weight of {found['objectives'][0]}", aspect=bar)
        add_legend(figure, panels[0], matrix=len(found["objectives"]) > 3)
        figure.suptitle(make_title(found), fontsize=10)
    return figure


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


def add_legend(figure: Figure, axes: Axes, matrix: bool) -> None:
    """Say what the marks are: in the first panel, or above the diagonal of a matrix, where there is room."""
    if matrix:
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, frameon=False, loc="upper right", bbox_to_anchor=(0.8, 0.9))
    else:
        axes.legend(frameon=False)


def make_title(found: Mapping[str, Any]) -> str:
    """What was trained for how long, and what was found."""
    discount = found.get("evaluation_discount", 1.0)
    discounted = "" if discount == 1 else f", returns discounted by {discount:g}"
    utility = f", utility {describe_utility(found)}" if describe_utility(found) else ""
    return (
        f"{found['problem']}, {found['method']}, seed {found['seed']}, {found['training_steps']:,} training steps: "
        f"{describe_hypervolume(found)}, EU {found['expected_utility']:.4g}{utility}{discounted}"
    )
