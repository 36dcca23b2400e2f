"""By how much one method beats another where both have run the same seeds: ratios, seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ucb_moppo.report.benchmark import all_labels
from ucb_moppo.report.cells import NONE
from ucb_moppo.report.runs import COMPARED
from ucb_moppo.report.runs import INDICATOR_LABELS as LABELS
from ucb_moppo.report.sections import Section
from ucb_moppo.report.slug import slug
from ucb_moppo.report.statistics import CONFIDENCE
from ucb_moppo.report.table import Table


class Change(NamedTuple):
    """What one method has more than another, as a share; the interval is NaN where no problem has two pairs."""

    value: float
    low: float
    high: float
    num_pairs: int


def paired_logs(section: Section, name: str, label: str, other: str) -> NDArray:
    """[n] log ratios of an indicator of two methods on a problem, of the seeds that both have."""
    groups = {group.label: group for group in section.groups}
    if label not in groups or other not in groups:
        return np.empty(0)
    ours, theirs = (dict(zip(groups[one].seeds, groups[one].values(name), strict=True)) for one in (label, other))
    pairs = [(ours[seed], theirs[seed]) for seed in sorted(ours.keys() & theirs.keys())]
    return np.array([np.log(a / b) for a, b in pairs if min(a, b) > 0 and np.isfinite([a, b]).all()])


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
    labels, rows, plain = all_labels(sections), [], []
    for name, label in product(COMPARED, labels):
        cells = []
        for other in labels:
            strata = [paired_logs(section, name, label, other) for section in sections]
            found = mean_change(strata) if label != other and any(map(len, strata)) else None
            cells.append(_cell(found))
            if found is not None:
                plain.append((LABELS[name], label, other, found.num_pairs, *found[:3]))
        rows.append((LABELS[name], label, *cells))
    if not plain:
        return None
    where = sections[0].title if len(sections) == 1 else "all problems"
    return Table(
        f"paired-{slug(where)}",
        f"Seed by seed on {where}",
        ("", "method", *(f"over {label}" for label in labels)),
        tuple(rows),
        "How much more the method of the row has than that of the column where both ran the same seed: the mean of "
        f"log ratios{', problems counting alike' if len(sections) > 1 else ''}, as a percentage. Brackets: "
        f"{CONFIDENCE:.0%} Student interval.",
        (("indicator", "method", "over", "pairs", "change", "low", "high"), tuple(plain)),
    )


def _cell(found: Change | None) -> str:
    if found is None:
        return NONE
    interval = "" if np.isnan(found.low) else f" [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"
    return f"{100 * found.value:+.1f}%{interval}"
