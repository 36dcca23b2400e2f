"""A table of every method against every other, whatever it is that two methods are compared by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

from ucb_moppo.report.cells import NONE
from ucb_moppo.report.runs import COMPARED
from ucb_moppo.report.runs import INDICATOR_LABELS as LABELS
from ucb_moppo.report.sections import Section, all_labels
from ucb_moppo.report.slug import slug
from ucb_moppo.report.table import Table


class Versus(NamedTuple):
    """What one method has over another, as a cell and as the bare numbers of its row in the CSV."""

    cell: str
    plain: tuple[object, ...]


Compare = Callable[[str, str, str], Versus | None]
"""Called with an indicator, the method of the row and that of the column; None where these cannot be compared."""


def versus_table(
    sections: Sequence[Section], compare: Compare, *, name: str, title: str, note: str, fields: tuple[str, ...]
) -> Table:
    """Compare every method with every other in each indicator; ``fields`` are what `Versus.plain` holds."""
    labels, rows, plain = all_labels(sections), [], []
    for indicator, label in product(COMPARED, labels):
        found = [None if label == other else compare(indicator, label, other) for other in labels]
        rows.append((LABELS[indicator], label, *(NONE if one is None else one.cell for one in found)))
        plain += [
            (LABELS[indicator], label, other, *one.plain)
            for other, one in zip(labels, found, strict=True)
            if one is not None
        ]
    where = sections[0].title if len(sections) == 1 else "all problems"
    return Table(
        f"{name}-{slug(where)}",
        f"{title} on {where}",
        ("", "method", *(f"over {label}" for label in labels)),
        tuple(rows),
        note,
        (("indicator", "method", "over", *fields), tuple(plain)),
    )
