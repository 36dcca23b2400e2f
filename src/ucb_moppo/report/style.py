"""How figures look and how they are written; every one names the runs, seeds and steps it shows."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from matplotlib.typing import LineStyleType
from numpy.typing import NDArray

from ucb_moppo.errors import RunFormatError
from ucb_moppo.report.runs import ComparedRun
from ucb_moppo.report.sections import METHOD_ORDER, Group, Section
from ucb_moppo.report.words import describe_runs
from ucb_moppo.store.guarded import write_below
from ucb_moppo.store.picture import LOOK, PLAIN_TEXT

MATPLOTLIB_SETTINGS: dict[Any, Any] = {
    **LOOK,
    "axes.titlesize": 10,
    "axes.formatter.limits": (-4, 5),
    "font.size": 9,
    "svg.hashsalt": "ucb-moppo",
    # Names come from files: a $ in one is a dollar, and no LaTeX is ever run.
    **PLAIN_TEXT,
}
# Okabe and Ito's colours, which people who do not see red and green alike can tell apart.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#B8A800")
OBJECTIVE_COLOURS = (*PALETTE, "#7B3F00", "#8A8A8A")
"""Of the first, second, … objective."""
LINES_AND_MARKERS: tuple[tuple[LineStyleType, str], ...] = (("-", "o"), ("--", "s"), (":", "^"), ("-.", "D"))
"""Of the first, second, … group that has a colour."""
DOMINATED = "0.82"


@dataclass(frozen=True)
class Picture:
    """A figure to write, with what a person reads below it and hears instead of it."""

    name: str
    title: str
    caption: str
    figure: Figure


def new_figure(width: float, height: float) -> Figure:
    """A blank figure, without any window system."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def new_panels(width: float, row_height: float, count: int, columns: int) -> tuple[Figure, list[Axes]]:
    """A blank figure of ``count`` panels in rows of ``columns``; what is left of the last row stays empty."""
    rows = -(-count // columns)
    figure = new_figure(width, row_height * rows)
    panels = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for axes in panels[count:]:
        axes.remove()
    return figure, panels[:count]


def finish_picture(figure: Figure, name: str, title: str, caption: str, runs: Sequence[ComparedRun]) -> Picture:
    """Put the title above, and below which runs, seeds and steps are shown; neither wider than the figure."""
    width = figure.get_size_inches()[0]
    source = describe_runs(list(runs))
    figure.suptitle(textwrap.fill(title, int(width * 10)), fontsize=11, fontweight="bold")
    figure.supxlabel(textwrap.fill(source, int(width * 17)), fontsize=7, color="0.35")
    return Picture(name, title, f"{caption} Shown: {source}.", figure)


def save_picture(picture: Picture, out: Path, name: str) -> str:
    """Write PNG and SVG into the report's folder of figures; the SVG's text, for the page."""
    png, svg = draw_picture(picture)
    write_below(out, f"figures/{name}.png", png)
    write_below(out, f"figures/{name}.svg", svg.encode())
    return svg


@contextmanager
def undrawable(name: str) -> Iterator[None]:
    """Matplotlib fails in its own ways at a number of thirty digits: the run that has it is to blame."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as fault:
        reason = str(fault).splitlines()[0]
        raise RunFormatError(
            f"the picture {name} cannot be drawn ({reason:.80}): look for numbers in its runs that cannot be right"
        ) from fault


def draw_picture(picture: Picture) -> tuple[bytes, str]:
    """A figure as PNG and as SVG; refused where its numbers are beyond what can be drawn."""
    drawn, text = io.BytesIO(), io.StringIO()
    with matplotlib.rc_context(MATPLOTLIB_SETTINGS), undrawable(picture.name):
        picture.figure.savefig(drawn, format="png", dpi=160)
        picture.figure.set_layout_engine("none")  # laid out once; doing it again takes half of the time
        picture.figure.savefig(text, format="svg", metadata={"Date": None})
    return drawn.getvalue(), text.getvalue()


def wrap_name(name: str, width: int = 12) -> str:
    """A name in lines of about ``width`` characters; a longer word stays whole."""
    return textwrap.fill(name, width, break_long_words=False)


def steps_axis(axes: Axes, label: str = "training steps") -> None:
    """Steps as 500k and 2M."""
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel(label)


class GroupStyle(NamedTuple):
    """What tells a group from the others of a figure."""

    colour: str
    line: LineStyleType
    marker: str


def style_groups(section: Section) -> list[tuple[Group, GroupStyle]]:
    """The groups of a section, each with a style of its own; once no colour is free, lines and markers change."""
    colours = group_colours([group.label for group in section.groups])
    repeats = [colours[:index].count(colour) for index, colour in enumerate(colours)]
    styles = [
        GroupStyle(colour, *LINES_AND_MARKERS[repeat % len(LINES_AND_MARKERS)])
        for colour, repeat in zip(colours, repeats, strict=True)
    ]
    return list(zip(section.groups, styles, strict=True))


def group_colours(labels: Sequence[str]) -> list[str]:
    """A known method's own colour, the same in every report; for others the next that fewest groups here have."""
    own = {method: PALETTE[place % len(PALETTE)] for place, method in enumerate(METHOD_ORDER)}
    taken = [own[label] for label in labels if label in own]
    colours = []
    for index, label in enumerate(labels):
        if label in own:
            colours.append(own[label])
            continue
        start = (4 + index) % len(PALETTE)
        colours.append(min(PALETTE[start:] + PALETTE[:start], key=taken.count))
        taken.append(colours[-1])
    return colours


def legend_beside(figure: Figure, **entries: Any) -> None:
    """A legend to the right of all panels and below the title, which may be as wide as the figure."""
    figure.legend(loc="outside right center", **entries)


def weight_colours(weights: NDArray) -> NDArray:
    """Weights [n, m] as colours [n, 3]: each objective has one, and a weight mixes them."""
    corners = np.array([to_rgb(PALETTE[j % len(PALETTE)]) for j in range(weights.shape[1])])
    return np.clip(weights @ corners, 0, 1)


def objective_colour(objective: int) -> str:
    """The colour of points whose weight is largest there."""
    return OBJECTIVE_COLOURS[objective % len(OBJECTIVE_COLOURS)]


def weight_key(axes: Axes, objectives: Sequence[str]) -> None:
    """The colours of the weights of three objectives: a triangle with an objective at each corner."""
    from ucb_moppo.objectives.weights import simplex_lattice

    lattice = simplex_lattice(3, 20)
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.87]])
    places = lattice @ corners
    axes.scatter(places[:, 0], places[:, 1], c=weight_colours(lattice), s=14, marker="h", linewidths=0)
    spots: tuple[dict[str, Any], ...] = (
        {"ha": "center", "va": "top"},
        {"ha": "center", "va": "top"},
        {"ha": "center", "va": "bottom"},
    )
    for corner, objective, spot in zip(corners, objectives, spots, strict=True):
        down = 0.1 if spot["va"] == "bottom" else -0.1
        axes.text(corner[0], corner[1] + down, wrap_name(objective), fontsize=7, **spot)
    axes.scatter([0.0], [-0.95], s=12, color=DOMINATED, linewidths=0)
    axes.text(0.12, -0.95, "dominated", fontsize=7, va="center")
    axes.set(aspect="equal", xlim=(-0.5, 1.5), ylim=(-1.1, 1.45), title="colour: weight")
    axes.axis("off")
