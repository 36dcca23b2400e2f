"""Methods side by side: what they find over seeds, on one problem and on all, and what they keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ucb_moppo.report.cells import NONE, best_cells, iqm_and_interval, mean_and_std
from ucb_moppo.report.paper import published
from ucb_moppo.report.runs import COMPARED, indicator_labels
from ucb_moppo.report.sections import Group, Section
from ucb_moppo.report.slug import slug
from ucb_moppo.report.statistics import CONFIDENCE, Estimate, aggregate, estimate
from ucb_moppo.report.table import Plain, Table
from ucb_moppo.report.words import estimated_volumes, trained_steps


def comparison_table(section: Section) -> Table:
    """Methods side by side: mean ± standard deviation, and IQM with its interval, over seeds."""
    indicators = indicator_labels(section.runs)
    columns = ["method", "seeds"]
    for name, label in indicators.items():
        columns += [f"{label}: mean ± std", f"{label}: IQM [{CONFIDENCE:.0%} interval]"][: 1 + (name in COMPARED)]
    found = [{name: estimate(group.values(name)) for name in indicators} for group in section.groups]
    rows, plain = [], []
    for group, its in zip(section.groups, found, strict=True):
        seeds = ", ".join(map(str, group.seeds))
        cells = []
        for name, one in its.items():
            cells += [mean_and_std(one), iqm_and_interval(one)][: 1 + (name in COMPARED)]
        rows.append((group.label, seeds, *cells))
        plain.append((group.label, seeds, *(x for one in its.values() for x in one[:5])))
    fields = [f"{label} {part}" for label in indicators.values() for part in ("mean", "std", "IQM", "low", "high")]
    return Table(
        f"comparison-{slug(section.title)}",
        f"Methods on {section.title}",
        tuple(columns),
        tuple(rows),
        "IQM: mean of the middle half of the seeds; below four seeds it is the mean. "
        "Intervals: percentile bootstrap over seeds. One seed has neither spread nor interval. "
        f"{trained_steps(section.groups)} {estimated_volumes(section.runs)}".strip(),
        (("method", "seeds", *fields), tuple(plain)),
        _best_methods(found),
    )


def _best_methods(found: Sequence[Mapping[str, Estimate]]) -> frozenset[tuple[int, int]]:
    """Where the best mean and the best IQM of what methods are compared by stand, after method and seeds."""
    columns = [[getattr(its[name], part) for its in found] for name in COMPARED for part in ("mean", "iqm")]
    return frozenset((row, 2 + place) for place, values in enumerate(columns) for row in best_cells(values))


def aggregate_table(sections: Sequence[Section]) -> Table:
    """Methods over all problems: hypervolume as a share of the best run's on the same problem."""
    scores: dict[str, list] = {}
    for section in sections:
        best = max(float(group.values("hypervolume").max()) for group in section.groups) or 1.0
        for group in section.groups:
            scores.setdefault(group.label, []).append(group.values("hypervolume") / best)
    found = {label: aggregate(strata) for label, strata in scores.items()}
    rows = tuple(
        (label, str(len(scores[label])), str(one.num), mean_and_std(one), iqm_and_interval(one))
        for label, one in found.items()
    )
    heading = ("method", "problems", "runs", "score: mean ± std", f"score: IQM [{CONFIDENCE:.0%} interval]")
    plain = tuple((label, len(scores[label]), one.num, *one[:5]) for label, one in found.items())
    return Table(
        "aggregate",
        "Methods over all problems",
        heading,
        rows,
        "Score: hypervolume divided by the best run's on the same problem. Intervals: bootstrap stratified by "
        "problem. Compare methods only where they have the same problems.",
        (("method", "problems", "runs", "mean", "std", "IQM", "low", "high"), plain),
    )


def kept_table(section: Section) -> Table:
    """Policies and parameters kept, beside what the paper says others keep."""
    rows = [
        (group.label, "this report", _range_cell(group, "policies"), _range_cell(group, "parameters"))
        for group in section.groups
    ]
    rows += [
        (one.method, "paper", f"{one.policies:,}", NONE)
        for one in published(section.problem)
        if one.policies is not None
    ]
    return Table(
        f"kept-{slug(section.title)}",
        f"Policies and parameters kept on {section.title}",
        ("method", "source", "policies", "parameters"),
        tuple(rows),
        plain=_plain_kept(section),
    )


def _plain_kept(section: Section) -> Plain:
    """A row per run, because seeds of a method may differ, and one per method of the paper."""
    rows = [
        (group.label, "this report", run.seed, run.summary.get("policies"), run.summary.get("parameters"))
        for group in section.groups
        for run in group.runs
    ]
    kept = [one for one in published(section.problem) if one.policies is not None]
    theirs = [(one.method, "paper", None, one.policies, None) for one in kept]
    return ("method", "source", "seed", "policies", "parameters"), (*rows, *theirs)


def _range_cell(group: Group, name: str) -> str:
    found = sorted({run.summary.get(name) or 0 for run in group.runs})
    return " to ".join(f"{x:,}" for x in (found if len(found) == 1 else [found[0], found[-1]]))
