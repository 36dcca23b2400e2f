"""Tables: made once as text cells, written as CSV, Markdown, LaTeX and HTML."""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ucb_moppo.objectives.indicators import HYPERVOLUME_ERROR
from ucb_moppo.report.paper import PROTOCOLS, Published, published, published_class_a, published_class_c
from ucb_moppo.report.protocols import describe_discount
from ucb_moppo.report.runs import ComparedRun, RunData, indicator_labels
from ucb_moppo.report.sections import Group, Section
from ucb_moppo.report.statistics import CONFIDENCE, Estimate, aggregate, estimate
from ucb_moppo.report.words import trained_steps
from ucb_moppo.store.guarded import write_below

NONE = "–"
PROTOCOL_CLASSES = {
    ("gymnasium", 1000, 0.0, 1.0): "B",
    ("pgmorl", 500, 0.0, 1.0): "A",
    ("cmorl", 500, -100.0, 0.99): "C",
}
"""The literature's name for a protocol with its horizon, reference in every objective and discount."""
FORMULA_SIGNS = ("=", "+", "-", "@", "\t")
"""What spreadsheets take for the beginning of a formula."""
COMPARED = ("hypervolume", "expected_utility")
"""What methods are compared by; of the others a table for the eye shows the mean alone, and CSV everything."""


Plain = tuple[tuple[str, ...], tuple[tuple[object, ...], ...]]


@dataclass(frozen=True)
class Table:
    """Cells are text to read; ``plain`` holds the same as bare numbers, for CSV."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    plain: Plain | None = None
    """Columns and rows of the CSV where they differ: a number per cell, in full precision."""
    bold: frozenset[tuple[int, int]] = frozenset()
    """(row, column) of the cells that stand out."""


# --- what the tables say -----------------------------------------------------------------------------------


STEP_LABELS = {
    "training_steps": "training steps",
    "pretraining_steps": "pre-training steps",
    "evaluation_steps": "evaluation steps",
    "peer_evaluation_steps": "of which the method's own",
}


def summary_table(run: RunData) -> Table:
    """One run: what it found and what it cost."""
    found, indicators = run.summary, indicator_labels([run])
    rows = [
        ("problem", run.problem),
        ("method", run.method),
        ("seed", str(run.seed)),
        ("state", describe_state(found)),
        ("objectives", ", ".join(run.objectives)),
        ("reference point", ", ".join(f"{x:g}" for x in run.reference_point)),
        ("returns", describe_discount(run.discount) or "undiscounted"),
        *([("utility", run.utility)] if run.utility else []),
        *((label, _found_cell(run, name)) for name, label in indicators.items()),
        ("policies kept", str(found.get("policies", NONE))),
        ("parameters kept", number(found.get("parameters"), digits=0)),
        *((label, number(found[name], digits=0)) for name, label in STEP_LABELS.items() if name in found),
    ]
    bare = {label: run.final(name) for name, label in indicators.items()}
    bare |= {f"{name} kept": found.get(name) for name in ("policies", "parameters")}
    bare |= {f"{name} steps": found.get(f"{name}_steps") for name in ("training", "evaluation")}
    plain = tuple((label, bare.get(label, cell)) for label, cell in rows)
    title = f"What {run.name} found"
    return Table(f"summary-{run.name}", title, ("", "value"), tuple(rows), plain=(("name", "value"), plain))


def _found_cell(run: RunData, name: str) -> str:
    error = run.summary.get(HYPERVOLUME_ERROR) if name == "hypervolume" else None
    return number_with_error(run.final(name), error)


def describe_state(summary: Mapping[str, Any]) -> str:
    """Whether a run has come to its end."""
    if summary.get("stopped"):
        return f"ended early by {summary['stopped']}"
    return "finished" if summary.get("finished") else "still training, or stopped early"


def points_table(run: RunData) -> Table:
    """Every point of the front with its policy and weight."""
    order = [i for i in run.evaluated.returns[:, 0].argsort() if run.on_front[i]]
    columns = ("policy", *(f"weight of {name}" for name in run.objectives), *run.objectives)
    cells = [
        (
            int(run.evaluated.policy[i]),
            *map(float, run.evaluated.weights[i]),
            *map(float, run.evaluated.returns[i]),
        )
        for i in order
    ]
    m = len(run.objectives)
    rows = tuple(
        (str(row[0]), *(f"{x:.3f}" for x in row[1 : 1 + m]), *(number(x) for x in row[1 + m :])) for row in cells
    )
    title = f"The front of {run.name}: {len(rows)} points"
    return Table(f"front-{run.name}", title, columns, rows, plain=(columns, tuple(cells)))


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


def estimated_volumes(runs: Sequence[ComparedRun]) -> str:
    """Say which hypervolumes are estimates, and how far they may be off."""
    errors = [run.summary.get(HYPERVOLUME_ERROR) or 0.0 for run in runs]
    shares = [e / v for e, v in zip(errors, (run.final("hypervolume") for run in runs), strict=True) if e and v]
    if not shares:
        return ""
    return (
        f"HV of {len(shares)} of {len(runs)} runs is an estimate with a standard error of up to {max(shares):.1%}."
    )


def _best_methods(found: Sequence[Mapping[str, Estimate]]) -> frozenset[tuple[int, int]]:
    """Where the best mean and the best IQM of what methods are compared by stand, after method and seeds."""
    columns = [[getattr(its[name], part) for its in found] for name in COMPARED for part in ("mean", "iqm")]
    return frozenset((row, 2 + place) for place, values in enumerate(columns) for row in best_cells(values))


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


PRINTED = {"hypervolume": "HV", "expected_utility": "EU", "sparsity": "SP"}
"""What publications print, and how tables call it."""


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


def _printed_cells(one: Published) -> dict[str, str]:
    return {
        "hypervolume": plus_minus(one.hypervolume, one.hypervolume_std),
        "expected_utility": plus_minus(one.expected_utility, one.expected_utility_std),
        "sparsity": number(one.sparsity),
    }


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
            "These runs have another horizon, reference point or discount, so their numbers have no column here."
        )
    return " ".join(parts)


def _own_source(one: Estimate) -> str:
    return f"this report, {one.num} seed{'s' * (one.num != 1)}"


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


def protocol_class(run: ComparedRun) -> str | None:
    """The class a run's numbers belong to: A is PGMORL's, B that of the paper's MOPPO columns, C C-MORL's."""
    config, references = run.config, set(run.reference_point)
    if len(references) != 1:
        return None
    protocol, horizon = str(config.get("protocol", "gymnasium")), int(config.get("horizon") or 0)
    return PROTOCOL_CLASSES.get((protocol, horizon, references.pop(), run.discount))


def _cells_under(protocol: str | None, cells: Mapping[str, str], shown: Sequence[tuple[str, str]]) -> list[str]:
    return [cells[name] if own == protocol else NONE for own, name in shown]


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


# --- cells -------------------------------------------------------------------------------------------------


def number(value: float | None, digits: int = 4) -> str:
    """Four significant digits with thousands apart; very large and very small ones with an exponent."""
    if value is None or math.isnan(value):
        return NONE
    if digits == 0 or isinstance(value, int):
        return f"{value:,.0f}"
    return format_alike(value, digits=digits)[0]


def number_with_error(value: float | None, error: float | None) -> str:
    """A number, or an estimate with its standard error: ≈ 5.600e6 ± 0.012e6."""
    return number(value) if value is None or not error else "≈ " + " ± ".join(format_alike(value, error))


def format_alike(*values: float, digits: int = 4) -> list[str]:
    """Numbers of one cell, all with the exponent and the decimals of the largest: 8.400e6 and 0.500e6."""
    largest = max(map(abs, values))
    if math.isinf(largest):
        return [f"{value:.{digits}g}" for value in values]
    if largest and not 1e-3 <= largest < 1e6:
        exponent = max(-300, int(f"{largest:.{digits - 1}e}".split("e")[1]))  # ten to a lower power is nought
        return [f"{value / 10.0**exponent:.{digits - 1}f}e{exponent}" for value in values]
    decimals = max(0, digits - len(str(int(largest))))
    return [f"{value:,.{decimals}f}" for value in values]


def mean_and_std(one: Estimate) -> str:
    return plus_minus(one.mean, one.std)


def plus_minus(mean: float | None, std: float | None) -> str:
    """What is unknown, None or NaN, is left out."""
    return number(mean) if mean is None or std is None or math.isnan(std) else " ± ".join(format_alike(mean, std))


def best_cells(means: Sequence[float]) -> list[int]:
    """Where the highest of several numbers stands; nowhere if there is nothing to compare it with."""
    finite = [mean for mean in means if not math.isnan(mean)]
    return [i for i, mean in enumerate(means) if mean == max(finite)] if len(finite) > 1 else []


def iqm_and_interval(one: Estimate) -> str:
    if math.isnan(one.low):
        return number(one.iqm)
    middle, low, high = format_alike(one.iqm, one.low, one.high)
    return f"{middle} [{low}, {high}]"


def slug(text: str) -> str:
    """A file name of a title."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


# --- formats -----------------------------------------------------------------------------------------------


def to_csv(table: Table) -> str:
    columns, rows = table.plain or (table.columns, table.rows)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([map(plain_cell, row) for row in (columns, *rows)])
    return text.getvalue()


def plain_cell(cell: object) -> object:
    """A cell on one line that no spreadsheet takes for a formula: words like one get an apostrophe before them."""
    if not isinstance(cell, str):
        return cell
    words = " ".join(cell.splitlines())
    return f"'{words}" if words.startswith(FORMULA_SIGNS) and not is_number(words) else words


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def marked_rows(table: Table, escape: Callable[[str], str], mark: str) -> list[list[str]]:
    """Rows with every cell escaped, and those that stand out marked."""
    return [
        [mark.format(escape(cell)) if (i, j) in table.bold else escape(cell) for j, cell in enumerate(row)]
        for i, row in enumerate(table.rows)
    ]


def to_markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    heads = [line([markdown_escape(cell) for cell in table.columns]), line(["---"] * len(table.columns))]
    lines = [*heads, *map(line, marked_rows(table, markdown_escape, "**{}**"))]
    note = f"\n{markdown_escape(table.note)}\n" if table.note else ""
    return f"**{markdown_escape(table.title)}**\n\n" + "\n".join(lines) + "\n" + note


def markdown_escape(text: str) -> str:
    """Words that stay in their cell, and neither make HTML nor a link or picture."""
    text = html.escape(" ".join(text.splitlines()), quote=False)
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("](", "]\\(").replace("`", "\\`")


_LATEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    NONE: "--",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
_LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}


def to_latex(table: Table) -> str:
    """A booktabs table; every character that means something to LaTeX is escaped."""

    def line(cells: Sequence[str]) -> str:
        return " & ".join(cells) + r" \\"

    note = f"\n\n\\footnotesize {latex_escape(table.note)}" if table.note else ""
    head = line([latex_escape(cell) for cell in table.columns])
    body = "\n".join(map(line, marked_rows(table, latex_escape, r"\textbf{{{}}}")))
    return (
        "% needs \\usepackage{booktabs}\n\\begin{table}\n\\centering\n"
        f"\\caption{{{latex_escape(table.title)}}}\n"
        f"\\begin{{tabular}}{{{'l' * len(table.columns)}}}\n\\toprule\n{head}\n\\midrule\n"
        f"{body}\n\\bottomrule\n\\end{{tabular}}{note}\n\\end{{table}}\n"
    )


def latex_escape(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)


def to_html(table: Table) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"

    names = [html.escape(cell) for cell in table.columns]
    head = f"<thead>{line(names, 'th')}</thead>" if any(names) else ""
    body = "".join(line(row, "td") for row in marked_rows(table, html.escape, "<strong>{}</strong>"))
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    caption = f"<caption>{html.escape(table.title)}</caption>"
    return f'<div class="table"><table>{caption}{head}<tbody>{body}</tbody></table></div>{note}'


def write_table(table: Table, out: Path) -> None:
    """The table in all three file formats, in the report's folder of tables."""
    for suffix, make in (("csv", to_csv), ("md", to_markdown), ("tex", to_latex)):
        write_below(out, f"tables/{slug(table.name)}.{suffix}", make(table).encode())
