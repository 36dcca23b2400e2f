"""The page's plots, for two, three and more objectives. Everything is drawn by plotly in the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from ucb_moppo.objectives.pareto import nondominated
from ucb_moppo.report.interactive import CAMERA
from ucb_moppo.report.runs import RunData
from ucb_moppo.report.style import weight_colours, wrap_name
from ucb_moppo.viewer.choice import Choice

FRONT_COLOUR, DOMINATED_COLOUR, CHOSEN_COLOUR, NEIGHBOUR_COLOUR = "#0072B2", "#c9c9c9", "#D50032", "#222222"
OTHER_COLOUR = "#8E24AA"  # no mixture of the colours that weights have
FEW_AXES = 5
"""So many parallel axes have room for their words in a usual size."""
LAYOUT: dict[str, Any] = {
    "template": "plotly_white",
    "margin": {"l": 60, "r": 20, "t": 36, "b": 56},
    "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    "uirevision": "keep",  # a reader's zoom and rotation stay when the highlighted point moves
}


VIEWS = {
    3: {"flat": "projections", "rotate": "rotate in 3-D"},
    4: {"flat": "a line for each point", "pairs": "every pair of objectives"},
}
"""Ways to look at a front of so many objectives (four: or more), and what the page calls them."""


def pairs(num_objectives: int) -> list[tuple[int, int]]:
    """The pairs of objectives that are plotted against each other."""
    return list(combinations(range(num_objectives), 2))


def front_figure(
    data: RunData,
    chosen: Choice,
    neighbours: Sequence[Choice],
    other: tuple[RunData, Choice] | None = None,
    view: str = "flat",
) -> go.Figure:
    """The front with the chosen point, its neighbours and, laid over it, another run's; ``view`` as in `VIEWS`."""
    layers = make_layers(data, chosen, neighbours, other)
    if len(data.objectives) > 3 and view == "pairs":
        return pairs_figure(data.objectives, layers)
    if len(data.objectives) > 3:
        return parallel_figure(data.objectives, layers, front_limits(data, other))
    if len(data.objectives) == 3 and view == "rotate":
        return rotating_figure(data.objectives, layers)
    return projection_figure(data.objectives, layers)


Layer = Mapping[str, Any]
"""name, points [n, m], text [n], marker: one kind of point in every plot."""


def make_layers(
    data: RunData, chosen: Choice, neighbours: Sequence[Choice], other: tuple[RunData, Choice] | None
) -> list[Layer]:
    """What is drawn, from back to front."""
    on = data.on_front
    layers: list[Layer] = [
        _layer_of_rows("dominated", data, ~on, {"size": 4, "color": DOMINATED_COLOUR}),
        _layer_of_rows("front", data, on, {"size": 8, "color": _colours(data.evaluated.weights[on])}),
    ]
    if other is not None:
        theirs, best = other
        open_marker = {
            "size": 9,
            "color": OTHER_COLOUR,
            "symbol": "diamond-open",
            "line": {"width": 1.5, "color": OTHER_COLOUR},
        }
        layers.append(_layer_of_rows(f"front of {theirs.name}", theirs, theirs.on_front, open_marker))
        layers.append(
            _layer_of_choices(
                f"best of {theirs.name}", [best], {"size": 15, "color": OTHER_COLOUR, "symbol": "diamond"}
            )
        )
    ring = {"size": 15, "color": NEIGHBOUR_COLOUR, "symbol": "circle-open", "line": {"width": 2}}
    if neighbours:
        layers.append(_layer_of_choices("neighbours", neighbours, ring))
    layers.append(_layer_of_choices("chosen", [chosen], {"size": 17, "color": CHOSEN_COLOUR, "symbol": "star"}))
    return layers


def _colours(weights: NDArray) -> Any:
    if weights.shape[1] > 3:
        return FRONT_COLOUR
    return [f"rgb({r},{g},{b})" for r, g, b in (255 * weight_colours(weights)).round().astype(int)]


def _layer_of_rows(name: str, data: RunData, rows: NDArray, marker: dict[str, Any]) -> Layer:
    found = data.evaluated
    text = [_describe(k, w) for k, w in zip(found.policy[rows], found.weights[rows], strict=True)]
    return {"name": name, "points": found.returns[rows], "text": text, "marker": marker}


def _layer_of_choices(name: str, choices: Sequence[Choice], marker: dict[str, Any]) -> Layer:
    points = np.array([choice.returns for choice in choices])
    return {
        "name": name,
        "points": points,
        "text": [_describe(c.policy, c.weight) for c in choices],
        "marker": marker,
    }


def _describe(policy: int, weight: NDArray) -> str:
    return f"policy {policy}, weight {', '.join(f'{x:.2f}' for x in weight)}"


def projection_figure(objectives: Sequence[str], layers: Sequence[Layer]) -> go.Figure:
    """A panel per pair of objectives."""
    panels = pairs(len(objectives))
    figure = make_subplots(1, len(panels), horizontal_spacing=0.1 if len(panels) > 1 else 0)
    for column, (i, j) in enumerate(panels, start=1):
        values = f"{objectives[i]} %{{x:,.1f}}<br>{objectives[j]} %{{y:,.1f}}"
        for layer in layers:
            figure.add_trace(
                go.Scatter(
                    x=layer["points"][:, i],
                    y=layer["points"][:, j],
                    mode="markers",
                    name=layer["name"],
                    legendgroup=layer["name"],
                    showlegend=column == 1,
                    marker=layer["marker"],
                    text=layer["text"],
                    hovertemplate=f"%{{text}}<br>{values}<extra></extra>",
                ),
                row=1,
                col=column,
            )
        figure.update_xaxes(title_text=objectives[i], row=1, col=column)
        figure.update_yaxes(title_text=objectives[j], row=1, col=column)
    return figure.update_layout(**LAYOUT)


# What three-dimensional plots know of the symbols used above.
_SYMBOLS_3D = {
    "star": "diamond",
    "diamond": "diamond",
    "diamond-open": "diamond-open",
    "circle-open": "circle-open",
}


def rotating_figure(objectives: Sequence[str], layers: Sequence[Layer]) -> go.Figure:
    """One plot of three objectives to turn with the mouse."""
    figure = go.Figure()
    for layer in layers:
        marker = dict(layer["marker"])
        marker["size"] = marker["size"] * 0.6
        if "symbol" in marker:
            marker["symbol"] = _SYMBOLS_3D[marker["symbol"]]
        x, y, z = layer["points"].T
        text = layer["text"]
        figure.add_trace(go.Scatter3d(x=x, y=y, z=z, mode="markers", name=layer["name"], marker=marker, text=text))
    scene: dict[str, Any] = {
        f"{axis}axis": {"title": {"text": name}, "nticks": 6} for axis, name in zip("xyz", objectives, strict=True)
    }
    scene |= {"aspectmode": "cube", "camera": CAMERA}
    return figure.update_layout(**LAYOUT, scene=scene)


def pairs_figure(objectives: Sequence[str], layers: Sequence[Layer]) -> go.Figure:
    """Every objective against every other, as a matrix of which the upper half would be the same again."""
    figure, values = go.Figure(), "%{xaxis.title.text} %{x:,.4g}<br>%{yaxis.title.text} %{y:,.4g}"
    for layer in layers:
        if not len(layer["points"]):
            continue
        marker = dict(layer["marker"])
        marker["size"] = max(3, marker["size"] * 0.6)
        columns = [
            {"label": name.replace(" ", "<br>"), "values": layer["points"][:, j]}
            for j, name in enumerate(objectives)
        ]
        figure.add_trace(
            go.Splom(
                dimensions=columns,
                name=layer["name"],
                marker=marker,
                text=layer["text"],
                hovertemplate=f"%{{text}}<br>{values}<extra></extra>",
                diagonal={"visible": False},
                showupperhalf=False,
            )
        )
    small = {"tickfont": {"size": 9}, "title": {"font": {"size": 10}}, "nticks": 3}
    numbers = ["", *range(2, len(objectives) + 1)]  # plotly counts axes from nothing and 2
    return figure.update_layout(**LAYOUT, **{f"{a}axis{n}": small for a in "xy" for n in numbers})


def front_limits(data: RunData, other: tuple[RunData, Choice] | None) -> NDArray:
    """[2, m] lowest and highest of what is drawn."""
    points = [data.front, *([other[0].front] if other else [])]
    everything = np.concatenate(points)
    return np.stack([everything.min(0), everything.max(0)])


def parallel_figure(objectives: Sequence[str], layers: Sequence[Layer], limits: NDArray) -> go.Figure:
    """Parallel coordinates: an axis per objective between its ``limits`` [2, m], a line per point."""
    span = np.where(limits[1] > limits[0], limits[1] - limits[0], 1.0)
    figure = go.Figure()
    for layer in layers:
        if layer["name"] == "dominated" or not len(layer["points"]):
            continue
        scaled = (layer["points"] - limits[0]) / span
        gap = np.full((len(scaled), 1), np.nan)  # ends one line before the next begins
        colour = _line_colour(layer)
        bold = layer["name"] == "chosen"
        figure.add_trace(
            go.Scatter(
                x=np.tile([*range(len(objectives)), np.nan], len(scaled)),
                y=np.hstack([scaled, gap]).ravel(),
                customdata=np.hstack([layer["points"], gap]).ravel(),
                mode="lines+markers" if bold else "lines",
                name=layer["name"],
                opacity=1 if bold else 0.55,
                line={"width": 4 if bold else 1.2, "color": colour},
                hovertemplate="%{customdata:,.4g}<extra>" + layer["name"] + "</extra>",
            )
        )
    ends = [-0.3, len(objectives) - 0.7]  # room for the words under the first and the last axis
    figure.update_xaxes(
        tickvals=list(range(len(objectives))),
        ticktext=name_axes(objectives, limits),
        range=ends,
        tickfont={"size": 12 if len(objectives) <= FEW_AXES else 10},
        ticklabeloverflow="allow",  # else plotly leaves out a name that it has turned and that would not fit
    )
    figure.update_yaxes(tickvals=[0, 1], ticktext=["worst", "best"], range=[-0.05, 1.05])
    return figure.update_layout(**LAYOUT)


def name_axes(objectives: Sequence[str], limits: NDArray) -> list[str]:
    """What stands under parallel axes: a name and its limits [2, m], in narrow lines where there are many."""
    gap = " … " if len(objectives) <= FEW_AXES else " …<br>"
    return [
        "<br>".join([*wrap_name(name).splitlines(), f"{low:.4g}{gap}{high:.4g}"])
        for name, low, high in zip(objectives, *limits, strict=True)
    ]


def _line_colour(layer: Layer) -> str:
    if layer["name"] == "neighbours":
        return NEIGHBOUR_COLOUR
    colour = layer["marker"]["color"]
    return colour if isinstance(colour, str) else FRONT_COLOUR


# --- history -----------------------------------------------------------------------------------------------


def history_figure(data: RunData, index: int) -> go.Figure:
    """How the front stood after one evaluation, over its newest; for the eye, in the first two objectives."""
    policy, weights, returns = data.history[index]
    front = nondominated(returns)
    if len(data.objectives) > 3:
        layers: list[Layer] = [
            {"name": "newest front", "points": data.front, "text": None, "marker": {"color": DOMINATED_COLOUR}},
            {"name": "then", "points": returns[front], "text": None, "marker": {"color": FRONT_COLOUR}},
        ]
        return parallel_figure(data.objectives, layers, history_extent(data))
    text = [_describe(k, w) for k, w in zip(policy, weights, strict=True)]
    then = {"size": 8, "color": _colours(weights[front])}
    layers = [
        {
            "name": "newest front",
            "points": data.front,
            "text": None,
            "marker": {"size": 5, "color": DOMINATED_COLOUR},
        },
        {"name": "then", "points": returns[front], "text": np.array(text)[front].tolist(), "marker": then},
    ]
    figure = projection_figure(data.objectives, layers)
    low, high = history_limits(data)
    for column, (i, j) in enumerate(pairs(len(data.objectives)), start=1):
        figure.update_xaxes(range=[low[i], high[i]], row=1, col=column)
        figure.update_yaxes(range=[low[j], high[j]], row=1, col=column)
    return figure


def history_extent(data: RunData) -> NDArray:
    """[2, m] lowest and highest of all evaluations' fronts and the newest: axes stay while the stage changes."""
    fronts = [one.returns[nondominated(one.returns)] for one in data.history]
    points = np.concatenate([*fronts, data.front])
    return np.stack([points.min(0), points.max(0)])


def history_limits(data: RunData) -> NDArray:
    """[2, m] around the fronts of all evaluations and the newest, with a margin."""
    low, high = history_extent(data)
    margin = np.where(high > low, 0.06 * (high - low), 1.0)
    return np.stack([low - margin, high + margin])


def curve_figure(data: RunData, index: int) -> go.Figure:
    """Hypervolume over training, with the moment the scrubber stands at."""
    steps, values = data.steps, data.series("hypervolume")
    figure = go.Figure(
        go.Scatter(x=steps, y=values, mode="lines", name="hypervolume", line={"color": FRONT_COLOUR})
    )
    now = {"size": 12, "color": CHOSEN_COLOUR}
    figure.add_trace(go.Scatter(x=[steps[index]], y=[values[index]], mode="markers", name="shown", marker=now))
    figure.update_xaxes(title_text="training steps")
    figure.update_yaxes(title_text="hypervolume")
    return figure.update_layout(**LAYOUT)
