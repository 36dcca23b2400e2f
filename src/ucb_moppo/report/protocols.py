"""Under which protocol a run was measured: numbers of two protocols are not comparable."""

from __future__ import annotations

from ucb_moppo.config import RunSettings
from ucb_moppo.config.measuring import decide_measuring
from ucb_moppo.report.runs import ComparedRun

USUAL_PROTOCOL = "gymnasium"
PROTOCOL_CLASSES = {
    (USUAL_PROTOCOL, 1000, 0.0, 1.0): "B",
    ("pgmorl", 500, 0.0, 1.0): "A",
    ("cmorl", 500, -100.0, 0.99): "C",
}
"""The literature's name for a protocol with its horizon, reference in every objective and discount."""


def protocol_of(run: ComparedRun) -> str:
    """The protocol of a run, and by what its returns are discounted: pgmorl, or gymnasium discounted by 0.99."""
    name = str(run.config.get("protocol", USUAL_PROTOCOL))
    return name if run.discount == 1 else f"{name} {describe_discount(run.discount)}"


def describe_discount(discount: float) -> str:
    """Say that returns are discounted; nothing of those that are not."""
    return "" if discount == 1 else f"discounted by {discount:g}"


def protocol_class(run: ComparedRun) -> str | None:
    """The class a run's numbers belong to: A is PGMORL's, B that of the paper's MOPPO columns, C C-MORL's.

    One whose expected utility is over other weights than the protocol's belongs to none.
    """
    config, references = run.config, set(run.reference_point)
    if len(references) != 1:
        return None
    protocol, horizon = str(config.get("protocol", USUAL_PROTOCOL)), int(config.get("horizon") or 0)
    found = PROTOCOL_CLASSES.get((protocol, horizon, references.pop(), run.discount))
    return found if found and run.utility_divisions == divisions_under(protocol, run) else None


def divisions_under(protocol: str, run: ComparedRun) -> int:
    """Divisions of the lattice that the protocol has for the expected utility of a run's problem."""
    settings = RunSettings(problem=run.problem, protocol=protocol)
    return int(decide_measuring(settings, len(run.objectives))["utility_divisions"])
