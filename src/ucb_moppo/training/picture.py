"""The picture of the front that a run leaves."""

from __future__ import annotations

import io
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ucb_moppo.store.guarded import write_file
from ucb_moppo.store.run import Run

PLAIN_TEXT: dict[Any, Any] = {"text.parse_math": False, "text.usetex": False, "axes.formatter.use_mathtext": False}
"""Words as they are: names come from files, and a $ in one is a dollar."""


def draw_front(run: Run, path: Path) -> Path:
    """A picture of the front: a panel per pair of objectives, coloured by the weight of the first."""
    with matplotlib.rc_context(PLAIN_TEXT):
        write_file(path, draw_picture(run))
    return path


def draw_picture(run: Run) -> bytes:
    """The picture as a PNG."""
    everything, front, found = run.evaluated(), run.front(), run.summary
    pairs = list(combinations(range(everything.returns.shape[1]), 2))[:6]
    figure = Figure(figsize=(1.2 + 4.8 * len(pairs), 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(pairs), squeeze=False)[0]
    for axes, (i, j) in zip(panels, pairs, strict=True):
        axes.scatter(everything.returns[:, i], everything.returns[:, j], s=12, color="0.8", label="dominated")
        marks = axes.scatter(
            front.returns[:, i],
            front.returns[:, j],
            s=28,
            c=front.weights[:, 0],
            vmin=0,
            vmax=1,
            label="front",
        )
        axes.set(xlabel=found["objectives"][i], ylabel=found["objectives"][j])
    panels[0].legend(frameon=False)
    figure.colorbar(marks, ax=panels, label=f"weight of {found['objectives'][0]}")
    figure.suptitle(
        f"{found['problem']}, {found['method']}, seed {found['seed']}, {found['training_steps']:,} training steps: "
        f"HV {found['hypervolume']:.4g}, EU {found['expected_utility']:.4g}",
        fontsize=10,
    )
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=150)
    return picture.getvalue()
