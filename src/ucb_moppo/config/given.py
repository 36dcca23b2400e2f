"""What is given by name must have an effect: refused beside what leaves it none.

What a run has decided holds every value, and is read again without these checks.
"""

from __future__ import annotations

from collections.abc import Collection

from ucb_moppo.config.settings import MoppoSettings, RunSettings
from ucb_moppo.errors import require
from ucb_moppo.objectives.goal_settings import CHEBYSHEV, FLOORS


def check_given(settings: RunSettings, given: Collection[str]) -> None:
    """Refuse settings ``given`` by name that the others of them do not look at."""
    if not isinstance(settings, MoppoSettings):
        return
    search, goal = settings.search, settings.goal
    require(
        "together" not in given or search.layout == "parting" or not search.together,
        f"together is {search.together}, but in layout {search.layout} policies are apart from the start: leave it "
        f"out, or give --layout parting",
    )
    require(
        "rollout" not in given or search.samples is None,
        f"rollout is {search.rollout}, but samples is {search.samples}, which decides how long a rollout is: leave "
        f"--rollout out, or give --samples for it, rollout × active",
    )
    for name, looks, heeded in (
        ("nadir", CHEBYSHEV, not goal.is_linear),
        ("rho", CHEBYSHEV, goal.utility == CHEBYSHEV),
        ("floor_penalty", FLOORS, goal.utility == FLOORS),
    ):
        require(
            name not in given or heeded,
            f"{name} is {getattr(goal, name)}, which utility {goal.utility} does not look at; "
            f"did you mean --utility {looks}?",
        )
