"""A run for the eye: text and tables on a terminal, and a picture of the front."""

from __future__ import annotations

import io
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from ucb_moppo.durations import format_seconds
from ucb_moppo.store.layout import PICTURE
from ucb_moppo.store.run import Run
from ucb_moppo.store.storage import replace_file


def summary_lines(run: Run) -> list[str]:
    """What was run and found, in a few lines."""
    found = run.summary
    early = f"ended by {found['stopped']}" if found.get("stopped") else "not finished"
    state = "finished" if found["finished"] else early
    return [
        f"{found['method']} on {found['problem']}, seed {found['seed']}, {state}",
        f"HV {found['hypervolume']:.4g}   EU {found['expected_utility']:.4g}   "
        f"sparsity {found['sparsity']:.4g}   {found['cardinality']} points on the front "
        f"from {found['policies']} policies",
        f"{describe_steps(found)} in {format_seconds(found['seconds'])}",
        *(
            f"policy {event['policy']} diverged in iteration {event['iteration']} and was {event['action']}"
            for event in found.get("diverged", [])
        ),
        f"run: {run.path}   picture: {run.path / PICTURE}",
    ]


def describe_steps(summary: Mapping[str, Any]) -> str:
    """All steps taken in environments, by what they were for."""
    before = f"{summary['pretraining_steps']:,} pre-training, " if summary.get("pretraining_steps") else ""
    return f"{before}{summary['training_steps']:,} training and {summary['evaluation_steps']:,} evaluation steps"


def front_table(run: Run, rows: int) -> Table:
    """The front, or ``rows`` of it spread evenly, by the first objective."""
    front, names = run.front(), run.summary["objectives"]
    order = np.argsort(front.returns[:, 0])
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(rows, len(order))).round().astype(int))]
    title = f"{len(chosen)} of {len(order)} points of the front"
    table = Table("policy", "weight", *names, title=title, title_justify="left")
    for i in chosen:
        weight = ", ".join(f"{x:.3f}" for x in front.weights[i])
        table.add_row(str(front.policy[i]), weight, *(f"{x:,.1f}" for x in front.returns[i]))
    return table


def draw_front(run: Run, path: Path) -> Path:
    """A picture of the front: a panel per pair of objectives, coloured by the weight of the first."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

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
    replace_file(path, picture.getvalue())
    return path
