"""The tables of a benchmark: methods over problems, how likely one beats another, and what it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ucb_moppo.report.cells import NONE, best_cells, mean_and_std, number, plus_minus
from ucb_moppo.report.paper import PROTOCOLS, Published, published, published_class_c
from ucb_moppo.report.protocols import protocol_class
from ucb_moppo.report.runs import COMPARED, STEP_KINDS, ComparedRun
from ucb_moppo.report.runs import INDICATOR_LABELS as LABELS
from ucb_moppo.report.sections import Group, Section, all_labels
from ucb_moppo.report.slug import slug
from ucb_moppo.report.statistics import (
    CONFIDENCE,
    Estimate,
    Probability,
    estimate,
    first_reached,
    probability_of_improvement,
)
from ucb_moppo.report.table import Table
from ucb_moppo.report.versus import Versus, versus_table
from ucb_moppo.report.words import BY_STAGES, trained_steps

SHARES = (0.5, 0.75, 0.9, 0.95)
"""Of the best hypervolume, to which the way is measured."""


# --- the paper's table -------------------------------------------------------------------------------------


def overview_table(sections: Sequence[Section]) -> Table:
    """HV and EU of every method on every problem; beside them what is printed, under its protocol."""
    labels, theirs = all_labels(sections), _printed_columns(sections)
    columns = ["problem", "", *labels, *theirs]
    steps = trained_steps([group for section in sections for group in section.groups])
    rows: list[tuple[str, ...]] = []
    bold: set[tuple[int, int]] = set()
    for section, name in product(sections, COMPARED):
        found = _estimates(section, name)
        ours = [mean_and_std(found[label]) if label in found else NONE for label in labels]
        means = [found[label].mean if label in found else math.nan for label in labels]
        bold |= {(len(rows), 2 + column) for column in best_cells(means)}
        printed = _printed_row(section)
        rows.append(
            (section.title, LABELS[name], *ours, *(_printed_cell(printed.get(one), name) for one in theirs))
        )
    return Table(
        "overview",
        "Methods on all problems: mean ± standard deviation over seeds",
        tuple(columns),
        tuple(rows),
        " ".join(filter(None, (_count_seeds(sections, labels), steps, _overview_note(sections)))),
        (
            ("problem", "indicator", "method", "source", "protocol", "seeds", "mean", "std"),
            _plain_overview(sections),
        ),
        frozenset(bold),
    )


def _count_seeds(sections: Sequence[Section], labels: Sequence[str]) -> str:
    """How many seeds are behind a cell of each method: Seeds: ucb 3, pgmorl 1 to 2."""
    parts = []
    for label in labels:
        counts = sorted({len(g.runs) for section in sections for g in section.groups if g.label == label})
        parts.append(f"{label} {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))}")
    return f"Seeds: {', '.join(parts)}."


def _overview_note(sections: Sequence[Section]) -> str:
    note = "Bold: the best mean of this report."
    printed = [one for section in sections for one in _printed_row(section).values()]
    protocols = [name for name in PROTOCOLS if name in {one.protocol for one in printed}]
    if "B" in protocols:
        note += " Columns of the paper are its printed numbers (3 seeds, its own budget, sampled actions);"
    elif "C" in protocols:
        note += (
            " Printed columns are others' numbers (5 runs, their own budgets, fronts chosen by the episodes that "
            "they are reported by);"
        )
    if protocols:
        meanings = " ".join(f"Protocol {name}: {PROTOCOLS[name]}." for name in protocols)
        note += f" numbers of different protocols are not comparable. {meanings}"
    return note


def _plain_overview(sections: Sequence[Section]) -> tuple[tuple[object, ...], ...]:
    """A row per number: ours with the protocol they were measured under, then what is printed with its own."""
    rows: list[tuple[object, ...]] = []
    for section, name in product(sections, COMPARED):
        mine = protocol_class(section.first)
        for label, one in _estimates(section, name).items():
            rows.append((section.title, LABELS[name], label, "this report", mine, one.num, one.mean, one.std))
        for other in _printed_row(section).values():
            mean, std = getattr(other, name), getattr(other, f"{name}_std")
            source, seeds = (other.source, None) if other.protocol == "C" else ("paper", 3)
            rows.append((section.title, LABELS[name], other.method, source, other.protocol, seeds, mean, std))
    return tuple(rows)


def _printed_row(section: Section) -> dict[str, Published]:
    """What is printed beside a section by column: the paper's row, or others' of C-MORL's protocol."""
    own = protocol_class(section.first)
    printed = {"A": published, "B": published, "C": published_class_c}.get(own or "", lambda problem: [])
    row: dict[str, Published] = {}
    for one in printed(section.problem):  # of two numbers of one method the first
        row.setdefault(f"{one.method} ({'printed' if own == 'C' else 'paper'}, protocol {one.protocol})", one)
    return row


def _printed_columns(sections: Sequence[Section]) -> list[str]:
    """Columns of what is printed, protocol by protocol."""
    known = {column: one for section in sections for column, one in _printed_row(section).items()}
    return sorted(known, key=lambda column: list(PROTOCOLS).index(known[column].protocol))


def _printed_cell(one: Published | None, name: str) -> str:
    return NONE if one is None else plus_minus(getattr(one, name), getattr(one, f"{name}_std"))


def _estimates(section: Section, name: str) -> dict[str, Estimate]:
    return {group.label: estimate(group.values(name)) for group in section.groups}


# --- does one method beat another --------------------------------------------------------------------------


def improvement_table(sections: Sequence[Section]) -> Table:
    """How likely a run of the method in the row is better than one of the method in the column."""

    def compare(indicator: str, label: str, other: str) -> Versus | None:
        strata = _paired_values(sections, indicator, label, other)
        if not strata:
            return None
        found = probability_of_improvement(strata)
        return Versus(_probability_cell(found), (len(strata), *found))

    return versus_table(
        sections,
        compare,
        name="improvement",
        title="Probability of improvement",
        note="The share of pairs of seeds in which the method of the row is better than that of the column, a tie "
        f"counting half{'; the mean over problems' if len(sections) > 1 else ''}. 0.5: no difference. Brackets: "
        f"{CONFIDENCE:.0%} bootstrap interval over seeds, which is too narrow where seeds are few: with three of "
        "each, [1.00, 1.00] says no more than that all nine pairs went one way.",
        fields=("problems", "probability", "low", "high"),
    )


def _paired_values(sections: Sequence[Section], name: str, label: str, other: str) -> list[tuple[NDArray, NDArray]]:
    """The finite values of two methods on every problem that has both."""
    found = []
    for section in sections:
        groups = {group.label: group for group in section.groups}
        if label in groups and other in groups:
            pair = tuple(_finite(groups[one].values(name)) for one in (label, other))
            if len(pair[0]) and len(pair[1]):
                found.append((pair[0], pair[1]))
    return found


def _finite(values: NDArray) -> NDArray:
    return values[np.isfinite(values)]


def _probability_cell(one: Probability) -> str:
    return f"{one.value:.2f}" if math.isnan(one.low) else f"{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]"


# --- what it takes -----------------------------------------------------------------------------------------


def best_hypervolume(section: Section) -> float:
    """The highest on any curve of the section: what curves reach is compared with what curves reach."""
    return float(np.nanmax(np.concatenate([run.series("hypervolume") for g in section.groups for run in g.runs])))


def costs_to_share(run: ComparedRun, section: Section, share: float) -> tuple[float, float]:
    """Environment steps of all kinds, and seconds, until a run has a share of the best HV; infinite if never."""
    target, values = share * best_hypervolume(section), run.series("hypervolume")
    steps, seconds = (first_reached(costs, values, target) for costs in (run.all_steps, run.series("seconds")))
    return steps, seconds


def efficiency_table(section: Section) -> Table:
    """Environment steps and seconds to given shares of the best HV."""
    rows, plain = [], []
    for group in section.groups:
        cells = []
        for share in SHARES:
            found = [costs_to_share(run, section, share) for run in group.runs]
            cells += [_reached_cell([one[part] for one in found], unit) for part, unit in enumerate(("", " s"))]
            plain += [
                (group.label, run.seed, share, *(None if math.isinf(cost) else cost for cost in costs))
                for run, costs in zip(group.runs, found, strict=True)
            ]
        rows.append((group.label, *cells))
    heads = [f"{share:.0%}: {what}" for share in SHARES for what in ("steps", "time")]
    best = number(best_hypervolume(section))
    return Table(
        f"efficiency-{slug(section.title)}",
        f"Environment steps and seconds to shares of the best hypervolume on {section.title}",
        ("method", *heads),
        tuple(rows),
        f"Shares of {best}, the best HV of any evaluation here, {BY_STAGES} "
        "(so are curves; final tables are of held-out ones). Counted are all environment steps (training, "
        "pre-training, evaluation) up to the first evaluation that has reached the share; nothing is interpolated. "
        "Median over seeds, with how many of them reached it; a seed that did not counts as later than all that "
        "did. Seconds compare only runs on the same hardware.",
        (("method", "seed", "share", "steps", "seconds"), tuple(plain)),
    )


def _reached_cell(costs: Sequence[float], unit: str) -> str:
    median, count = float(np.median(costs)), sum(map(math.isfinite, costs))
    cost = "not reached" if math.isinf(median) else f"{number(median, digits=0)}{unit}"
    return f"{cost} ({count} of {len(costs)})"


def all_steps_taken(run: ComparedRun) -> int:
    """Environment steps of every kind until the end, the last evaluation's among them."""
    return sum(int(run.summary.get(f"{kind}_steps") or 0) for kind in STEP_KINDS)


def costs_table(section: Section) -> Table:
    """Environment steps by kind, time, and what the runs were made with."""
    rows = tuple(
        (
            group.label,
            str(len(group.runs)),
            *(_mean_cell(group, f"{kind}_steps") for kind in STEP_KINDS),
            number(float(np.mean([all_steps_taken(run) for run in group.runs])), digits=0),
            _mean_cell(group, "seconds"),
            f"{sum(bool(run.summary.get('finished')) for run in group.runs)} of {len(group.runs)}",
        )
        for group in section.groups
    )
    plain = tuple(
        (
            *(group.label, run.seed, *(run.summary.get(f"{kind}_steps", 0) for kind in STEP_KINDS)),
            *(run.summary.get("seconds"), run.summary.get("finished")),
            *(run.summary.get("commit"), (run.summary.get("hardware") or {}).get("cpu")),
        )
        for group in section.groups
        for run in group.runs
    )
    kinds = ("training", "pre-training", "evaluation")
    return Table(
        f"costs-{slug(section.title)}",
        f"What the runs on {section.title} cost",
        ("method", "seeds", *(f"{kind} steps" for kind in kinds), "all steps", "seconds", "finished"),
        rows,
        f"Means over seeds. {_made_with(section)}",
        (("method", "seed", *(f"{k} steps" for k in kinds), "seconds", "finished", "commit", "cpu"), plain),
    )


def _mean_cell(group: Group, name: str) -> str:
    return number(float(np.mean([run.summary.get(name) or 0 for run in group.runs])), digits=0)


def _made_with(section: Section) -> str:
    """The code and processors behind the numbers, where the runs say so."""
    commits = sorted({str(run.summary["commit"]) for run in section.runs if run.summary.get("commit")})
    machines = [run.summary.get("hardware") or {} for run in section.runs]
    cpus = sorted(
        {f"{one.get('cpu')}, {one.get('cores_used')} core(s) a run" for one in machines if one.get("cpu")}
    )
    parts = [f"Commit {', '.join(commits)}."] * bool(commits) + [f"Hardware: {'; '.join(cpus)}."] * bool(cpus)
    return " ".join(parts)
