"""Pictures of the example: the map of a network, the three operating points side by side, and the front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from cells import links, signal
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from mobile_env.core.base import MComCore
from mobile_env.core.entities import BaseStation
from numpy.typing import NDArray

# Okabe and Ito's colours, which people who do not see red and green alike can tell apart.
POINT_COLOURS = ("#D55E00", "#0072B2", "#009E73")
BASELINE_LINES = ("-.", ":", "--", (0, (6, 2)))
SIGNS = (1, 1, -1, -1)
"""Of what is maximised, to what a person reads: costs count up."""
NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Of the stations."""
AWAKE, ASLEEP = "#222222", "#9A9A9A"


def new_figure(width: float, height: float) -> Figure:
    """A blank figure, without any window system."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def draw_map(network: MComCore) -> NDArray:
    """The map as a picture [height, width, 3]."""
    figure = new_figure(4, 4 * network.height / network.width)
    draw_cells(figure.subplots(), network)
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[:, :, :3].copy()


def draw_cells(axes: Axes, network: MComCore) -> None:
    """Stations with their reach, users by how well they are served, and who is connected to whom."""
    connected = links(network)
    for number, station in network.stations.items():
        draw_station(axes, network, station, awake=any(bs == number for bs, _ in connected))
    for bs, ue in connected:
        station, user = network.stations[bs], network.users[ue]
        axes.plot([station.x, user.x], [station.y, user.y], color="0.35", linewidth=1.2, zorder=1)
    users, served = list(network.users.values()), {user for _, user in connected}
    axes.scatter(
        [user.x for user in users],
        [user.y for user in users],
        c=[network.utilities.get(user, -1.0) for user in users],
        cmap=colormaps["viridis"],
        vmin=-1,
        vmax=1,
        s=70,
        edgecolors=["black" if user.ue_id in served else "#D55E00" for user in users],
        linewidths=1.5,
        zorder=3,
    )
    axes.set(xlim=(0, network.width), ylim=(0, network.height), aspect="equal", xticks=[], yticks=[])


def draw_station(axes: Axes, network: MComCore, station: BaseStation, awake: bool) -> None:
    """One station: filled while it serves somebody, hollow and dotted while it sleeps."""
    colour, line = (AWAKE, "-") if awake else (ASLEEP, ":")
    axes.add_patch(
        Circle((station.x, station.y), reach(network, station), fill=False, color=colour, linestyle=line, alpha=0.5)
    )
    face = colour if awake else "white"
    axes.plot(station.x, station.y, "^", markersize=13, color=colour, markerfacecolor=face, zorder=2)
    label = NAMES[station.bs_id] + ("" if awake else " asleep")
    place = {"xytext": (0, -17), "textcoords": "offset points", "ha": "center"}
    axes.annotate(label, (station.x, station.y), fontsize=8, **place)


def reach(network: MComCore, station: BaseStation) -> int:
    """Metres up to which users can connect to a station."""
    probe = next(iter(network.users.values()))
    place = probe.x, probe.y
    distance = 1
    try:
        probe.x, probe.y = station.x + distance, station.y
        while signal(network, station, probe) > 0:
            distance += 1
            probe.x = station.x + distance
    finally:
        probe.x, probe.y = place
    return distance - 1


def draw_operating_points(networks: Mapping[str, MComCore], captions: Sequence[str], path: Path) -> None:
    """The same moment of the same episode under each operating point, with a caption below each map."""
    one = next(iter(networks.values()))
    figure = new_figure(3.6 * len(networks) + 1.2, 3.6 * one.height / one.width + 0.6)
    panels = figure.subplots(1, len(networks), squeeze=False)[0]
    for axes, (name, network), caption in zip(panels, networks.items(), captions, strict=True):
        draw_cells(axes, network)
        axes.set_title(name, fontsize=11)
        axes.set_xlabel(caption, fontsize=8)
    figure.colorbar(panels[0].collections[-1], ax=panels, label="utility of a user", shrink=0.7)
    figure.savefig(path, dpi=100)


def draw_front(
    front: NDArray,
    points: Mapping[str, NDArray],
    baselines: Mapping[str, NDArray],
    labels: Sequence[str],
    path: Path,
) -> None:
    """Parallel coordinates, up is better: the front [n, m] thin, points [m] in colour, baselines in black."""
    figure = new_figure(8.5, 4.2)
    axes = figure.subplots()
    everything = np.vstack([front, *points.values(), *baselines.values()])
    low, span = everything.min(axis=0), np.maximum(np.ptp(everything, axis=0), 1e-9)
    places = np.arange(front.shape[1])
    axes.plot(places, ((front - low) / span).T, color="0.75", linewidth=0.6)
    for (name, line), colour in zip(points.items(), POINT_COLOURS, strict=True):
        axes.plot(places, (line - low) / span, color=colour, linewidth=2.6, label=name, zorder=3)
    for (name, line), style in zip(baselines.items(), BASELINE_LINES, strict=True):
        axes.plot(places, (line - low) / span, color="black", linewidth=1.3, linestyle=style, label=name, zorder=2)
    for place in places:
        axes.axvline(place, color="0.4", linewidth=0.8)
        for height, value in ((-0.04, low[place]), (1.04, low[place] + span[place])):
            shown = np.round(value * SIGNS[place], 2) + 0
            axes.text(place, height, f"{shown:g}", ha="center", va="center", fontsize=8)
    axes.set(yticks=[], ylim=(-0.09, 1.09), xticks=places, xticklabels=labels, ylabel="better →")
    axes.spines[:].set_visible(False)
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    figure.savefig(path, dpi=100)
