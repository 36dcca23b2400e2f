"""What captions and notes say of runs: which they are, how far they came and how long they trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ucb_moppo.objectives.indicators import HYPERVOLUME_ERROR
from ucb_moppo.report.protocols import describe_discount
from ucb_moppo.report.runs import ComparedRun
from ucb_moppo.report.sections import Group

STATES_OF_ONE = {
    "unfinished": " so far",
    "timed out": ", where its time was up",
    "ended early": ", where it was ended early",
}
STATES_OF_MANY = {
    "unfinished": "still training",
    "timed out": "ended by a limit of time",
    "ended early": "ended early",
}
BY_STAGES = "by the episodes that stages choose by"
"""What the curve of any run is measured by."""
TRAINED = ("training_steps", "pretraining_steps")


def describe_runs(runs: list[ComparedRun]) -> str:
    """Which runs, seeds and steps a figure shows, and whether its returns are discounted."""
    discounts = sorted({run.discount for run in runs} - {1.0})
    discounted = "".join(f" · returns {describe_discount(discount)}" for discount in discounts)
    return _describe_runs(runs) + discounted


def _describe_runs(runs: list[ComparedRun]) -> str:
    steps = sorted({int(run.summary["training_steps"]) for run in runs})
    counted = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    if len(runs) == 1:
        word = STATES_OF_ONE.get(_state(runs[0]), "")
        return f"run {runs[0].name} · seed {runs[0].seed} · {counted} training steps{word}"
    states = Counter(map(_state, runs))
    state = "".join(f" · {states[name]} {word}" for name, word in STATES_OF_MANY.items() if states[name])
    if len(runs) > 4:
        return f"{_list_seeds(runs)} · {counted} training steps{state}"
    names = ", ".join(run.name for run in runs)
    return f"runs {names} · {_seeds([run.seed for run in runs])} · {counted} training steps{state}"


def _state(run: ComparedRun) -> str:
    if run.summary.get("finished"):
        return "finished"
    stopped = run.summary.get("stopped")
    return {None: "unfinished", "max_seconds": "timed out"}.get(stopped, "ended early")


def _list_seeds(runs: list[ComparedRun]) -> str:
    """Many runs in one line: Swimmer-v2 ucb seeds 0, 1, mean seeds 0, 1."""
    found: dict[str, list[int]] = {}
    for run in runs:
        found.setdefault(f"{run.problem} {run.method}", []).append(run.seed)
    listed = [f"{name} {_seeds(seeds)}" for name, seeds in found.items()]
    return f"{len(runs)} runs: " + "; ".join(listed)


def _seeds(seeds: list[int]) -> str:
    """Each seed once: seeds 0, 1."""
    each = sorted(set(seeds))
    return f"seed{'s' * (len(each) > 1)} {', '.join(map(str, each))}"


def describe_state(summary: Mapping[str, Any]) -> str:
    """Whether a run has come to its end."""
    if summary.get("stopped"):
        return f"ended early by {summary['stopped']}"
    return "finished" if summary.get("finished") else "still training, or stopped early"


def describe_curves(run: ComparedRun) -> str:
    """Say why a curve may end elsewhere than what its run reports; nothing where no episodes are held out."""
    if not run.config.get("held_out"):
        return ""
    return (
        f"Curves are measured {BY_STAGES}; the numbers of a finished run, which may differ, by held-out ones and, "
        "where its budget allows, on more weights."
    )


def trained_steps(groups: Sequence[Group]) -> str:
    """Where methods differ in it, how long each trained, pre-training included: ucb 2,000, pgmorl 500 to 900."""
    found: dict[str, set[int]] = {}
    for group in groups:
        steps = {sum(int(run.summary.get(name, 0)) for name in TRAINED) for run in group.runs}
        found.setdefault(group.label, set()).update(steps)
    if len(set().union(*found.values())) < 2:
        return ""
    spans = {label: dict.fromkeys((min(steps), max(steps))) for label, steps in found.items()}
    listed = [f"{label} {' to '.join(f'{count:,}' for count in span)}" for label, span in spans.items()]
    return f"Training steps: {', '.join(listed)}."


def estimated_volumes(runs: Sequence[ComparedRun]) -> str:
    """Say which hypervolumes are estimates, and how far they may be off."""
    errors = [run.summary.get(HYPERVOLUME_ERROR) or 0.0 for run in runs]
    shares = [e / v for e, v in zip(errors, (run.final("hypervolume") for run in runs), strict=True) if e and v]
    if not shares:
        return ""
    return (
        f"HV of {len(shares)} of {len(runs)} runs is an estimate with a standard error of up to {max(shares):.1%}."
    )
