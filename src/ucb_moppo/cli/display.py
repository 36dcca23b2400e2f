"""A run for the eye: text and tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ucb_moppo.errors import RunFormatError
from ucb_moppo.objectives.spread import spread_over
from ucb_moppo.policy.policy import Policy
from ucb_moppo.registry import INDICATORS
from ucb_moppo.spec import EnvSpec
from ucb_moppo.store.layout import FRONT, PICTURE, SUMMARY
from ucb_moppo.store.records import check_summary, describe_hypervolume, describe_utility
from ucb_moppo.store.run import Run
from ucb_moppo.training.reporter import count_of, format_seconds


class StandardOutput(Console):
    """Prints tables to stdout; that nobody reads them is for the command to know, not a reason to exit with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def print_lines(self, lines: Iterable[object]) -> None:
        """Print lines as they are: a path that was broken in two could not be copied."""
        for line in lines:
            self.print(plain(line), soft_wrap=True)


def plain(words: object) -> Text:
    """Words of a file as they are: nothing in them is markup or moves the cursor."""
    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(words)))


def summary_lines(run: Run) -> list[str]:
    """What was run and found, in a few lines."""
    found = run.summary
    check_summary(found, run.path / SUMMARY)
    early = f"ended by {found['stopped']}" if found.get("stopped") else "not finished"
    state = "finished" if found["finished"] else early
    return [
        f"{found['method']} on {found['problem']}, seed {found['seed']}, {state}",
        f"{describe_indicators(found)} from {count_of(found['policies'], 'policy', 'policies')}",
        *describe_held_out(found),
        *([f"utility: {describe_utility(found)}"] if describe_utility(found) else []),
        *describe_discount(found),
        f"{describe_steps(found)} in {format_seconds(found.get('seconds', 0.0))}",
        *(
            f"policy {event['policy']} diverged in iteration {event['iteration']} and was {event['action']}"
            for event in found.get("diverged", [])
        ),
        f"run: {run.path}",
        f"picture: {run.path / PICTURE}",
    ]


def policy_lines(policy: Policy) -> list[str]:
    """Which policy it is, what it is conditioned on and what it is known to earn."""
    weight = ", ".join(f"{x:.4g}" for x in policy.weight)
    returns = zip(policy.spec.objectives, policy.expected_returns, strict=True)
    return [
        f"policy {policy.index} for {policy.spec.name}, conditioned on {weight}",
        f"expected returns: {', '.join(f'{name} {value:,.1f}' for name, value in returns)}",
    ]


def describe_returns(run: Run, returns: Sequence[float]) -> str:
    """What an episode came to, objective by objective."""
    return ", ".join(f"{name} {x:,.0f}" for name, x in zip(run.summary["objectives"], returns, strict=True))


def describe_indicators(found: Mapping[str, Any]) -> str:
    """Every indicator with its label: what is measured behind it, what is counted before it."""
    labels = {name: entry.help for name, entry in INDICATORS.entries.items()}
    return describe_hypervolume(found) + "".join(
        f"   {_counted(found[name], label)}"
        if isinstance(found[name], int)
        else f"   {label} {_in_short(found[name])}"
        for name, label in labels.items()
        if name != "hypervolume"
    )


def describe_held_out(found: Mapping[str, Any]) -> list[str]:
    """Say what the indicators of a run that has ended were measured by, with their intervals."""
    measured = found.get("held_out")
    if not measured:
        return []
    bounds = [
        f"{INDICATORS.entries[name].help} {_in_short(low)} to {_in_short(high)}"
        for name, (low, high) in measured["intervals"].items()
        if name in INDICATORS.entries
    ]
    intervals = f"; 95% intervals: {', '.join(bounds)}" if bounds else ""
    return [f"measured on {measured['episodes']} held-out episodes a point{intervals}"]


def describe_discount(found: Mapping[str, Any]) -> list[str]:
    """Say that returns are discounted, if they are."""
    discount = found.get("evaluation_discount", 1.0)
    return [] if discount == 1 else [f"returns are discounted by {discount:g} a step"]


def _in_short(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"


def _counted(number: int, label: str) -> str:
    """1 point on the front, 16 points on the front."""
    return f"{number} {label.replace('points', 'point', 1) if number == 1 else label}"


def describe_evaluation(found: Mapping[str, Any]) -> list[str]:
    """What a run that was evaluated again came to, and by what."""
    again = f", then on {count_of(found['held_out'], 'held-out one', 'held-out ones')} a point of the front"
    return [
        describe_indicators(found),
        f"{count_of(found['weights_per_policy'], 'weight', 'weights')} per policy, each on "
        f"{count_of(found['episodes'], 'episode', 'episodes')}{again if found['held_out'] else ''}: "
        f"{found['evaluation_steps']:,} steps",
        *describe_discount(found),
    ]


def describe_steps(summary: Mapping[str, Any]) -> str:
    """All steps taken in environments, by what they were for."""
    before = f"{summary['pretraining_steps']:,} pre-training, " if summary.get("pretraining_steps") else ""
    evaluating = summary.get("evaluation_steps", 0)
    return f"{before}{summary['training_steps']:,} training and {evaluating:,} evaluation steps"


def front_on_terminal(run: Run, rows: int) -> Table:
    """The front as it was measured, or ``rows`` of it that are farthest apart, by the first objective."""
    front, names = run.front(), run.summary["objectives"]
    if front.returns.shape[1] != len(names):
        raise RunFormatError(f"{run.path}: {FRONT} has {front.returns.shape[1]} objectives, {SUMMARY} {len(names)}")
    members = np.flatnonzero(run.confirmed())
    chosen = members[sorted(spread_over(front.returns[members], rows))]
    chosen = chosen[np.argsort(front.returns[chosen, 0], kind="stable")]
    title = f"{len(chosen)} of {len(members)} points of the front"
    table = Table("policy", "weight", *(Column(plain(name)) for name in names), title=title, title_justify="left")
    for i in chosen:
        weight = ", ".join(f"{x:.3f}" for x in front.weights[i])
        table.add_row(str(front.policy[i]), weight, *(f"{x:,.1f}" for x in front.returns[i]))
    return table


def problems_table(specs: Iterable[EnvSpec]) -> Table:
    """What there is to train on, in no more than 80 columns."""
    table = Table(
        Column("problem", no_wrap=True),
        Column("objectives", no_wrap=True),
        *(Column(name, justify="right", no_wrap=True) for name in ("observed", "action", "horizon")),
        Column("reference\npoint"),
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for spec in specs:
        kind = "choices" if spec.action.chosen else "numbers"
        table.add_row(
            spec.name,
            "\n".join(spec.objectives),
            str(spec.observation_size),
            f"{spec.action.num_outputs} {kind}",
            f"{spec.horizon:,}",
            describe_reference(spec.reference_point),
        )
    return table


def describe_reference(point: Sequence[float]) -> str:
    """A reference point, shorter where it is the same in every objective."""
    return f"{point[0]:g} each" if len(set(point)) == 1 else ", ".join(f"{x:g}" for x in point)
