"""How what is found is measured: as given, or as the protocol has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ucb_moppo.config.settings import RunSettings
from ucb_moppo.envs.mo_mujoco import CMORL_DISCOUNT, CMORL_DIVISIONS
from ucb_moppo.errors import require
from ucb_moppo.objectives.weights import MAX_LATTICE_POINTS, even_divisions, lattice_size

DISCOUNTS = {"cmorl": CMORL_DISCOUNT}
"""Of evaluated returns, where a protocol discounts them."""
DIVISIONS = {"cmorl": CMORL_DIVISIONS}
"""Of the lattice of the expected utility by the number of objectives, where a protocol has one of its own."""


def decide_measuring(settings: RunSettings, num_objectives: int) -> dict[str, Any]:
    """Decide by what returns are discounted, and over which weights the expected utility is the mean."""
    discount, divisions = settings.evaluation_discount, settings.utility_divisions
    if divisions is None:
        usual = even_divisions(num_objectives)
        divisions = DIVISIONS.get(settings.protocol, {}).get(num_objectives, usual)
    count = lattice_size(num_objectives, divisions)
    require(
        count <= MAX_LATTICE_POINTS,
        f"utility_divisions is {divisions}: for {num_objectives} objectives that is {count:,} weights, more than "
        f"{MAX_LATTICE_POINTS:,}; give fewer",
    )
    return {
        "evaluation_discount": DISCOUNTS.get(settings.protocol, 1.0) if discount is None else discount,
        "utility_divisions": divisions,
    }


def measured_before(config: Mapping[str, Any]) -> dict[str, Any]:
    """How a run was measured whose config is older than these settings: what its config does not say."""
    point = config.get("reference_point")
    before: dict[str, Any] = {"evaluation_discount": 1.0}
    if isinstance(point, list | tuple) and len(point) > 1:
        before["utility_divisions"] = even_divisions(len(point))
    return {name: value for name, value in before.items() if config.get(name) is None}
