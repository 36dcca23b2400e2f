"""What a preference means: the settings of a utility and of how it is taken."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from ucb_moppo.errors import nearest_names, require
from ucb_moppo.registry import UTILITIES

Criterion = Literal["ser", "esr"]
Actions = Literal["deterministic", "sampled"]
LINEAR, CHEBYSHEV, FLOORS = "linear", "chebyshev", "floors"


@dataclass(frozen=True)
class GoalSettings:
    """What policies are to be good for. A text beside a type says how None is decided."""

    utility: str = LINEAR
    """What a preference makes of returns."""
    criterion: Criterion = "ser"
    """ser: the utility of the mean return; esr: the mean utility of each episode's return, for which policies see
    what has accrued and the time."""
    actions: Actions = "deterministic"
    """How policies act where they are evaluated: as they would be deployed, or sampled as in training. The utility
    of a mean return may be best served by chance."""
    ideal: Annotated[tuple[float, ...] | None, "none"] = None
    """For chebyshev: the return that counts as 1, a number per objective."""
    nadir: Annotated[tuple[float, ...] | None, "the reference point"] = None
    """For chebyshev: the return that counts as 0, a number per objective; for floors, what they rise above."""
    rho: float = 0.05
    """For chebyshev: what the mean of the objectives counts beside the one that is worst off."""
    floors: Annotated[tuple[str, ...], "none"] = ()
    """For floors: the least return of an objective, as NAME=VALUE; a part of its name is enough."""
    floor_penalty: float = 4.0
    """For floors: what a return below its floor costs, in units of the weighted sum."""

    @property
    def is_linear(self) -> bool:
        return self.utility == LINEAR


def check_goal(goal: GoalSettings) -> None:
    """Refuse values that cannot be, whatever the problem is."""
    UTILITIES.check(goal.utility)
    for name, kind in (("criterion", Criterion), ("actions", Actions)):
        known, value = get_args(kind), getattr(goal, name)
        require(value in known, f"unknown {name} {value!r}; {nearest_names(str(value), known)}")
    require(
        not (goal.is_linear and goal.criterion == "esr"),
        "criterion is esr, which makes no difference to a linear utility: leave it out, or name another --utility",
    )
    for name, looks, given in (("ideal", CHEBYSHEV, goal.ideal), ("floors", FLOORS, goal.floors)):
        require(
            not given or goal.utility == looks or goal.utility not in UTILITIES,
            f"{name} is {given}, which utility {goal.utility} does not look at; did you mean --utility {looks}?",
        )
    for name in ("ideal", "nadir"):
        numbers = getattr(goal, name) or ()
        require(all(map(math.isfinite, numbers)), f"{name} is {numbers}; give a finite number per objective")
    require(0 <= goal.rho < math.inf, f"rho is {goal.rho}; it must be a number from 0")
    penalty = goal.floor_penalty
    require(0 < penalty < math.inf, f"floor_penalty is {penalty}; it must be a positive number")
    require(
        goal.utility != CHEBYSHEV or goal.ideal is not None,
        "utility is chebyshev, which measures objectives from --nadir (by default the reference point) to --ideal: "
        "give what would be ideal, a number per objective",
    )
    require(
        goal.utility != FLOORS or bool(goal.floors),
        "utility is floors, and there are none: give at least one, e.g. --floors speed=2000",
    )
