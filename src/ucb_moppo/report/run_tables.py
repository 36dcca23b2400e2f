"""The tables of one run: what it found and cost, and every point of its front."""

from __future__ import annotations

from ucb_moppo.objectives.indicators import HYPERVOLUME_ERROR
from ucb_moppo.report.cells import NONE, number, number_with_error
from ucb_moppo.report.protocols import describe_discount
from ucb_moppo.report.runs import RunData, indicator_labels
from ucb_moppo.report.table import Table
from ucb_moppo.report.words import describe_state

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
