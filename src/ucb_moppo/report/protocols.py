"""Under which protocol a run was measured: numbers of two protocols are not comparable."""

from __future__ import annotations

from ucb_moppo.report.runs import ComparedRun

USUAL_PROTOCOL = "gymnasium"


def protocol_of(run: ComparedRun) -> str:
    """The protocol of a run, and by what its returns are discounted: pgmorl, or gymnasium discounted by 0.99."""
    name = str(run.config.get("protocol", USUAL_PROTOCOL))
    return name if run.discount == 1 else f"{name} {describe_discount(run.discount)}"


def describe_discount(discount: float) -> str:
    """Say that returns are discounted; nothing of those that are not."""
    return "" if discount == 1 else f"discounted by {discount:g}"
