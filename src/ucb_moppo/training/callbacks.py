"""What a user's own code is told while a run trains, and how it asks the run to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ucb_moppo.engine.learner import Iteration, StageRecord
from ucb_moppo.errors import require

OnStage = Callable[[StageRecord], object]
OnIteration = Callable[[int], object]


@dataclass(frozen=True)
class Callbacks:
    """Functions that a run calls between two steps of its own. One that returns True asks it to stop."""

    on_stage: OnStage | None = None
    """Told what every evaluation found, once that is on disk."""
    on_iteration: OnIteration | None = None
    """Told how many iterations are done; of another's method, how many steps of the budget."""

    def __post_init__(self) -> None:
        check_callable("on_stage", self.on_stage, "a StageRecord")
        check_callable("on_iteration", self.on_iteration, "the number of iterations done")

    def ask(self, event: Iteration | StageRecord) -> bool:
        """Call the function that an event is for; whether the run is asked to stop."""
        if isinstance(event, StageRecord):
            return self.on_stage is not None and asks_to_stop(self.on_stage(event))
        return self.on_iteration is not None and asks_to_stop(self.on_iteration(event.iteration))


def check_callable(name: str, given: object, told: str) -> None:
    """Refuse what cannot be called, before a run is begun that could only fail."""
    require(
        given is None or callable(given),
        f"{name} is {given!r}, which cannot be called; give a function of one argument, {told}, or leave it out",
    )


NO_CALLBACKS = Callbacks()


def asks_to_stop(answer: object) -> bool:
    """Whether a callback has said True: nothing else that it may happen to return, such as a count of bytes."""
    return isinstance(answer, (bool, np.bool_)) and bool(answer)
