"""Runs beside published numbers, a column per protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ucb_moppo.report.cells import NONE, mean_and_std, number, plus_minus
from ucb_moppo.report.paper import PROTOCOLS, Published, published, published_class_a, published_class_c
from ucb_moppo.report.protocols import protocol_class
from ucb_moppo.report.runs import COMPARED
from ucb_moppo.report.sections import Section
from ucb_moppo.report.slug import slug
from ucb_moppo.report.statistics import Estimate, estimate
from ucb_moppo.report.table import Plain, Table

PRINTED = {"hypervolume": "HV", "expected_utility": "EU", "sparsity": "SP"}
"""What publications print, and how tables call it."""


def paper_table(section: Section) -> Table | None:
    """Published numbers for this problem, columns per protocol, and ours where the protocol is the same."""
    theirs, own = printed_for(section), protocol_class(section.first)
    if not theirs:
        return None
    shown = _shown_columns(theirs)
    rows = []
    for group in section.groups if own else ():
        found = {name: estimate(group.values(name)) for name in PRINTED}
        cells = {name: mean_and_std(one) for name, one in found.items()}
        rows.append((group.label, _own_source(found["hypervolume"]), *_cells_under(own, cells, shown)))
    rows += [(one.method, one.source, *_cells_under(one.protocol, _printed_cells(one), shown)) for one in theirs]
    columns = ("method", "source", *(f"{PRINTED[name]} (protocol {p})" for p, name in shown))
    plain = _plain_paper(section, theirs)
    whose = "The paper's" if published(section.problem) else "Published"
    title, note = f"{whose} numbers for {section.problem}", _paper_note(theirs, own)
    return Table(f"paper-{slug(section.title)}", title, columns, tuple(rows), note, plain)


def printed_for(section: Section) -> list[Published]:
    """The paper's numbers for a section's problem, and others of classes A and C where the section is of those."""
    theirs, own = published(section.problem), protocol_class(section.first)
    if own == "A":
        theirs += published_class_a(section.problem)
    return theirs + published_class_c(section.problem)


def _shown_columns(theirs: Sequence[Published]) -> list[tuple[str, str]]:
    """(protocol, indicator) of the columns: HV and EU of every protocol in print, others where they are printed."""
    protocols = {one.protocol for one in theirs}
    known = {(one.protocol, name) for one in theirs for name in PRINTED if getattr(one, name) is not None}
    known |= {(protocol, name) for protocol in protocols for name in COMPARED}
    return [(protocol, name) for protocol in PROTOCOLS for name in PRINTED if (protocol, name) in known]


def _cells_under(protocol: str | None, cells: Mapping[str, str], shown: Sequence[tuple[str, str]]) -> list[str]:
    return [cells[name] if own == protocol else NONE for own, name in shown]


def _printed_cells(one: Published) -> dict[str, str]:
    return {
        "hypervolume": plus_minus(one.hypervolume, one.hypervolume_std),
        "expected_utility": plus_minus(one.expected_utility, one.expected_utility_std),
        "sparsity": number(one.sparsity),
    }


def _own_source(one: Estimate) -> str:
    return f"this report, {one.num} seed{'s' * (one.num != 1)}"


def _paper_note(theirs: Sequence[Published], own: str | None) -> str:
    protocols = [name for name in PROTOCOLS if name in {one.protocol for one in theirs}]
    parts = ["Numbers of different protocols are not comparable;"]
    if "B" in protocols:
        parts.append("the paper evaluated sampled actions.")
    if "C" in protocols:
        parts.append(
            "the archives of C-MORL and the fronts of D3PO were chosen by the episodes that they are reported by, "
            "ours were not."
        )
    parts += [f"Protocol {name}: {PROTOCOLS[name]}." for name in protocols]
    if own not in protocols:
        parts.append(
            "These runs have another horizon, reference point, discount or weights of EU, so their numbers have no "
            "column here."
        )
    return " ".join(parts)


def _plain_paper(section: Section, theirs: Sequence[Published]) -> Plain:
    """A row per method and source; the protocol is a column of its own."""
    rows: list[tuple[object, ...]] = []
    own = protocol_class(section.first)
    for group in section.groups if own else ():
        hv, eu, sparsity = (estimate(group.values(name)) for name in PRINTED)
        rows.append((group.label, _own_source(hv), own, hv.mean, hv.std, eu.mean, eu.std, sparsity.mean))
    for one in theirs:
        hv_eu = (one.hypervolume, one.hypervolume_std, one.expected_utility, one.expected_utility_std)
        rows.append((one.method, one.source, one.protocol, *hv_eu, one.sparsity))
    return ("method", "source", "protocol", "HV mean", "HV std", "EU mean", "EU std", "SP mean"), tuple(rows)
