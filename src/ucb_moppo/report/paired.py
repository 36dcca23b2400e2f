"""By how much one method beats another where both have run the same seeds: ratios, seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ucb_moppo.report.sections import Section
from ucb_moppo.report.statistics import CONFIDENCE
from ucb_moppo.report.table import Table
from ucb_moppo.report.versus import Versus, versus_table


class Change(NamedTuple):
    """What one method has more than another, as a share; NaN where a value is not positive.

    The interval is NaN where a problem has a single pair.
    """

    value: float
    low: float
    high: float
    num_pairs: int


def paired_logs(section: Section, name: str, label: str, other: str) -> NDArray:
    """[n] log ratios of an indicator of two methods on a problem, of the seeds that both have.

    NaN for a pair with a value that is not positive, so that a failure is never left out.
    """
    groups = {group.label: group for group in section.groups}
    if label not in groups or other not in groups:
        return np.empty(0)
    ours, theirs = (dict(zip(groups[one].seeds, groups[one].values(name), strict=True)) for one in (label, other))
    pairs = [(ours[seed], theirs[seed]) for seed in sorted(ours.keys() & theirs.keys())]
    return np.array([np.log(a / b) if min(a, b) > 0 and np.isfinite([a, b]).all() else np.nan for a, b in pairs])


def count_mixed_pairs(sections: Sequence[Section]) -> int:
    """How many pairs of runs with the same seed are of different code: they may not share what they begin with."""
    commits: dict[tuple[str, int], list[str]] = {}
    for section in sections:
        for run in section.runs:
            commits.setdefault((section.title, run.seed), []).append(str(run.summary.get("commit")))
    return sum(one != other for those in commits.values() for one, other in combinations(those, 2))


def mean_change(strata: Sequence[NDArray]) -> Change:
    """The mean over problems of their mean log ratios, as a share more or less, with a Student interval.

    Problems count alike. Its variance is that of each problem's mean; degrees of freedom are Welch's.
    """
    logs = [stratum for stratum in strata if len(stratum)]
    mean = float(np.mean([stratum.mean() for stratum in logs]))
    parts = np.array([stratum.var(ddof=1) / len(stratum) for stratum in logs if len(stratum) > 1])
    margin = float("nan")
    if len(parts) == len(logs):
        freedom = parts.sum() ** 2 / max(
            float(sum(part**2 / (len(stratum) - 1) for part, stratum in zip(parts, logs, strict=True))), 1e-300
        )
        margin = float(stats.t.ppf((1 + CONFIDENCE) / 2, max(freedom, 1.0)) * np.sqrt(parts.sum()) / len(logs))
    low, value, high = np.expm1([mean - margin, mean, mean + margin]).tolist()
    return Change(value, low, high, sum(map(len, logs)))


def paired_table(sections: Sequence[Section]) -> Table | None:
    """How much more the method in the row has than that in the column; None where no seeds can be paired."""

    def compare(indicator: str, label: str, other: str) -> Versus | None:
        strata = [paired_logs(section, indicator, label, other) for section in sections]
        if not any(map(len, strata)):
            return None
        found = mean_change(strata)
        return Versus(_change_cell(found), (found.num_pairs, *found[:3]))

    mixed = count_mixed_pairs(sections)
    warned = f" Of different commits: {mixed}; such pairs may share less than their seed." if mixed else ""
    table = versus_table(
        sections,
        compare,
        name="paired",
        title="Seed by seed",
        note="How much more the method of the row has than that of the column where both ran the same seed: the "
        f"mean of log ratios{', problems counting alike' if len(sections) > 1 else ''}, as a percentage. Brackets: "
        f"{CONFIDENCE:.0%} Student interval. No number: a value is not positive, and has no ratio.{warned}",
        fields=("pairs", "change", "low", "high"),
    )
    return table if table.plain is not None and table.plain[1] else None


def _change_cell(found: Change) -> str:
    if np.isnan(found.value):
        return "–"
    interval = "" if np.isnan(found.low) else f" [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"
    return f"{100 * found.value:+.1f}%{interval}"
