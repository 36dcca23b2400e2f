"""Figures over training: indicators, their bands over seeds, costs, and the interpolation study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, PercentFormatter
from numpy.typing import NDArray

from ucb_moppo.bench.result import KEPT
from ucb_moppo.report.runs import COMPARED, INDICATOR_LABELS, ComparedRun, RunData, indicator_labels
from ucb_moppo.report.sections import Group, Section
from ucb_moppo.report.slug import slug
from ucb_moppo.report.statistics import make_band
from ucb_moppo.report.style import (
    PALETTE,
    GroupStyle,
    Picture,
    finish_picture,
    legend_beside,
    new_figure,
    new_panels,
    steps_axis,
    style_groups,
)
from ucb_moppo.report.words import describe_curves

CURVE_TITLES = {"hypervolume": "hypervolume", "expected_utility": "expected utility", "sparsity": "sparsity"}
CHARACTER_WIDTH = 0.0105
"""Width of a character in a bar, as a share of the bar."""
PART_COLOURS = {"training": PALETTE[0], "evaluating": PALETTE[1], "selecting": PALETTE[2], "other": "0.7"}


def indicators_picture(run: RunData) -> Picture:
    """HV, EU, sparsity and every extra indicator over training steps."""
    titles = CURVE_TITLES | {name: name for name in run.extra_indicators}
    figure, panels = new_panels(12.4, 3.6, len(titles), columns=3)
    for axes, (name, label) in zip(panels, titles.items(), strict=True):
        axes.plot(run.steps, run.series(name), color=PALETTE[0], marker="o", markersize=3)
        axes.set_title(label)
        steps_axis(axes)
    title = f"Quality of the front over training, {run.problem}, method {run.method}"
    caption = "Hypervolume and expected utility: more is better. Sparsity: for comparison with older papers only."
    caption = f"{caption} {describe_curves(run)}".strip()
    return finish_picture(figure, f"indicators-{run.name}", title, caption, [run])


def costs_picture(run: RunData) -> Picture:
    """Share of time and of environment steps in training and in evaluation."""
    figure = new_figure(8.4, 2.6)
    axes = figure.subplots()
    steps = {
        "training": float(run.summary["training_steps"] + run.summary.get("pretraining_steps", 0)),
        "evaluating": float(run.summary.get("evaluation_steps", 0)),
    }
    seconds = spent_seconds(run)
    _stacked_bar(axes, 1, steps, lambda value: f"{short_count(value)} steps")
    labels = ["environment steps"]
    if seconds:
        _stacked_bar(axes, 0, seconds, lambda value: f"{value:,.0f} s")
        labels.insert(0, "time")
    axes.set_yticks(range(2 - len(labels), 2), labels)
    axes.set(xlim=(0, 1), ylim=(1.5 - len(labels), 1.5))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(False)
    shown = {**steps, **(seconds or {})}
    handles = [axes.barh(0, 0, color=PART_COLOURS[name], label=name) for name in PART_COLOURS if name in shown]
    legend_beside(figure, handles=handles)
    caption = "Where environment steps and time went."
    if not seconds:
        caption += " This run did not record how its time was spent."
    return finish_picture(
        figure, f"costs-{run.name}", f"What {run.problem} cost, method {run.method}", caption, [run]
    )


def spent_seconds(run: RunData) -> dict[str, float]:
    """Seconds per part, over all stages; empty where a run did not record them."""
    parts = [line.get("stage_seconds") for line in run.metrics]
    whole = run.metrics[-1].get("seconds")
    if not all(parts) or whole is None:
        return {}
    total = {
        name: sum(float(part.get(name, 0)) for part in parts if part) for name in PART_COLOURS if name != "other"
    }
    rest = float(whole) - sum(total.values())
    return total | ({"other": rest} if rest > 0.005 * sum(total.values()) else {})


def _stacked_bar(axes: Axes, row: float, parts: Mapping[str, float], describe: Callable[[float], str]) -> None:
    whole, left = sum(parts.values()) or 1.0, 0.0
    for name, value in parts.items():
        share = value / whole
        axes.barh(row, share, left=left, height=0.55, color=PART_COLOURS[name])
        text = label_that_fits(share, describe(value))
        if text:
            ink = "black" if name == "evaluating" else "white"
            axes.text(left + share / 2, row, text, ha="center", va="center", color=ink, fontsize=8)
        left += share


def label_that_fits(share: float, words: str) -> str:
    """What can be read inside a part of a bar: its share and what it is of, its share alone, or nothing."""
    if share > CHARACTER_WIDTH * (len(words) + 1):
        return f"{share:.0%}\n{words}"
    return f"{share:.0%}" if share > CHARACTER_WIDTH * len("100%") else ""


def short_count(value: float) -> str:
    """Three digits of a count: 727k, 1.35M."""
    return EngFormatter(sep="")(float(f"{value:.3g}"))


# --- several runs ------------------------------------------------------------------------------------------


COST_AXES: dict[str, tuple[str, Callable[[ComparedRun], NDArray]]] = {
    "training": ("training steps", lambda run: run.steps),
    "environment": ("all environment steps", lambda run: run.all_steps),
    "time": ("seconds", lambda run: run.series("seconds")),
}
"""What methods may be compared over: what they trained on, all that they took from environments, their time."""


def bands_picture(section: Section, over: str = "training") -> Picture:
    """HV, EU and extra indicators over steps or time: mean ± standard deviation over seeds, a style per method."""
    label, cost = COST_AXES[over]
    extra = [name for name in indicator_labels(section.runs) if name not in INDICATOR_LABELS]
    titles = {name: CURVE_TITLES[name] for name in COMPARED} | {name: name for name in extra}
    figure, panels = new_panels(10.4, 3.9, len(titles), columns=2)
    for axes, (name, title) in zip(panels, titles.items(), strict=True):
        for group, style in style_groups(section):
            _draw_band(axes, group, style, [(cost(run), run.series(name)) for run in group.runs])
        axes.set_title(title)
        steps_axis(axes, label)
    legend_beside(figure, handles=panels[0].get_lines())
    caption = f"Over {label}. Lines are means over seeds, bands one standard deviation; a single seed has no band."
    suffix = "" if over == "training" else f"-{over}"
    title = f"Quality over {label}, {section.title}"
    return finish_picture(figure, f"bands{suffix}-{slug(section.title)}", title, caption, section.runs)


def kept_picture(section: Section) -> Picture | None:
    """Policies kept over training steps, a line per method; None where no run has counted them."""
    counts = {group.label: [(run.steps, run.series(KEPT)) for run in group.runs] for group in section.groups}
    if not any(np.isfinite(kept).any() for curves in counts.values() for _, kept in curves):
        return None
    figure = new_figure(8.4, 3.9)
    axes = figure.subplots()
    for group, style in style_groups(section):
        _draw_band(axes, group, style, counts[group.label])
    axes.set(ylabel="policies kept", ylim=(0, None))
    steps_axis(axes)
    legend_beside(figure, handles=axes.get_lines())
    caption = (
        "What a method has to keep for its front at each evaluation: fewer are cheaper to store and to deploy."
    )
    title = f"Policies kept, {section.title}"
    return finish_picture(figure, f"kept-{slug(section.title)}", title, caption, section.runs)


def _draw_band(axes: Axes, group: Group, style: GroupStyle, curves: list[tuple[NDArray, NDArray]]) -> None:
    """The mean and spread of those runs of a group that have the indicator at all."""
    known = [curve for curve in curves if np.isfinite(curve[1]).any()]
    band = make_band(known or curves)
    label = f"{group.label} ({len(curves)} seed{'s' * (len(curves) > 1)})"
    axes.plot(band.steps, band.mean, color=style.colour, linestyle=style.line, label=label)
    low, high = band.mean - band.std, band.mean + band.std
    axes.fill_between(band.steps, low, high, color=style.colour, alpha=0.18, lw=0)


# --- interpolation study -----------------------------------------------------------------------------------


def interpolation_picture(runs: Sequence[tuple[RunData, Mapping[str, NDArray]]]) -> Picture:
    """HV and sparsity against the number of weights per policy, without any training."""
    figure = new_figure(10.4, 3.9)
    panels = figure.subplots(1, 2)
    for index, (run, study) in enumerate(runs):
        for axes, name in zip(panels, ("hypervolume", "sparsity"), strict=True):
            colour = PALETTE[index % len(PALETTE)]
            axes.plot(study["weights_per_policy"], study[name], "o-", markersize=4, color=colour, label=run.name)
            axes.set(title=CURVE_TITLES[name], xlabel="weights per policy", xlim=(0, None))
    if len(runs) > 1:
        legend_beside(figure, handles=panels[0].get_lines())
    title = f"Interpolating between weights, {runs[0][0].problem}"
    held_out = all((study["held_out"] > 0).all() for _, study in runs)
    caption = "Each policy evaluated on more and more evenly spaced weights of its sub-space, without training. "
    caption += "Measured on held-out episodes." if held_out else "Measured by the episodes that chose the front."
    shown = [run for run, _ in runs]
    name = f"interpolation-{slug(runs[0][0].problem if len(runs) > 1 else runs[0][0].name)}"
    return finish_picture(figure, name, title, caption, shown)


def bulk_limits(values: NDArray) -> tuple[float, float]:
    """Limits that show the bulk of ``values``: their 1st and 99th percentile, with a margin."""
    low, high = np.percentile(values, [1, 99])
    margin = 0.08 * (high - low) or 1.0
    return float(low - margin), float(high + margin)
