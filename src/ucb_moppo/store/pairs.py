"""Every objective against every other: fronts of more than three objectives as a matrix of small panels."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

PANEL = 1.5
"""Inches of a panel's side."""


class PointLayer(NamedTuple):
    """Points [n, m] that look alike, one kind of mark in every panel."""

    points: NDArray
    look: dict[str, Any]
    """Arguments of ``scatter``."""


def pairs_size(num_objectives: int) -> float:
    """Inches of the side of a figure that holds all pairs."""
    return max(6.4, PANEL * (num_objectives - 1) + 1.0)


def draw_pairs(figure: Figure, objectives: Sequence[str], layers: Sequence[PointLayer]) -> list[Axes]:
    """Fill a figure with a panel per pair: objective i + 1 below column i, j + 2 beside row j, j >= i.

    What is above the diagonal would be the same again and stays empty. The panels, row by row.
    """
    size = len(objectives) - 1
    grid = figure.subplots(size, size, sharex="col", sharey="row", squeeze=False)
    panels = []
    for row in range(size):
        for column in range(size):
            axes = grid[row, column]
            if column > row:
                axes.remove()
                continue
            for layer in layers:
                axes.scatter(layer.points[:, column], layer.points[:, row + 1], **layer.look)
            axes.tick_params(labelsize=6)
            axes.locator_params(nbins=3)
            if column == 0:
                axes.set_ylabel(textwrap.fill(objectives[row + 1], 14), fontsize=7)
            if row == size - 1:
                axes.set_xlabel(textwrap.fill(objectives[column], 14), fontsize=7)
            panels.append(axes)
    return panels
