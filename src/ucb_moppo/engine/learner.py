"""What a run needs of whoever trains in it: events to follow, policies to keep, and a state to continue from."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from ucb_moppo.policy.networks import Network


class Iteration(NamedTuple):
    """So many iterations are done and the state is whole: here a run may be saved, or stopped.

    An iteration of another's method is a step of its budget.
    """

    iteration: int


class Diverged(NamedTuple):
    """A policy's loss, parameters or returns have stopped being finite."""

    policy: int
    iteration: int
    cause: str
    action: str
    """What was done about it."""


@dataclass
class StageRecord:
    """What one stage did and what the evaluation after it found."""

    stage: int
    iteration: int
    training_steps: int
    evaluation_steps: int
    seconds: float
    returns: NDArray
    """[K, P, m] of every policy on its weights: those are the same for every method."""
    indicators: dict[str, float]
    outcomes: NDArray | None = None
    """[K, P, E, m] what a utility that is not linear is taken of: their episodes, or their means."""
    episode_steps: float = 0.0
    """Mean length of the episodes of this evaluation."""
    finished: bool = False
    """Whether this is the last stage of the run."""
    selected: NDArray | None = None
    """[K, N, m] the weights the stage trained on (the last draw of a method that draws again)."""
    diagnostics: dict[str, Any] = field(default_factory=dict)
    learning: dict[str, float] = field(default_factory=dict)
    stage_seconds: dict[str, float] = field(default_factory=dict)
    """Where this stage's time went, before an interruption and after: selecting weights, training, evaluating."""
    diverged: list[dict[str, Any]] = field(default_factory=list)
    """Every time a policy has diverged so far: policy, iteration, cause, and whether it was restored."""
    extra_indicators: dict[str, float] = field(default_factory=dict)
    """What the user's own indicators say."""
    method_counts: dict[str, int] = field(default_factory=dict)
    """What another's method counts beside: steps of pre-training and of its own evaluations, policies."""


Event = Iteration | Diverged | StageRecord


@dataclass(frozen=True)
class Snapshot:
    """What has been found at one moment: K policies to deploy."""

    tensors: dict[str, NDArray]
    """float32 with a leading axis K: actor.hidden1.kernel … actor.head.bias (and actor.log_std where the actor has
    one), observation.mean, .variance, .count (a count of 0 leaves observations as they are)."""
    network: Network
    """How the tensors act."""
    weights: NDArray
    """[K, W, m] the weights to evaluate each policy on."""
    num_parameters: int
    """All that the method keeps, critics included."""


class Plan(NamedTuple):
    """What a run will do, before it does it."""

    num_iterations: int
    num_stages: int
    training_steps: int
    num_policies: int | None = None
    """None where that comes out by training."""
    evaluation_steps: int | None = None
    """At most: an episode may end before the horizon. None where another method decides."""
    seconds: float | None = None
    """Measured here: the time of an iteration and of a step, times how many are left. None if it was not."""
    done: int = 0
    """Iterations behind a run that continues."""


class Learner(Protocol):
    """A method at work on one problem, from stage to stage."""

    @property
    def network(self) -> Network:
        """How the policies it finds act."""
        ...

    @property
    def iteration(self) -> int:
        """Iterations done so far."""
        ...

    @property
    def num_evaluations(self) -> int:
        """Evaluations made so far."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the last stage has been evaluated."""
        ...

    @property
    def resumable(self) -> bool:
        """Whether it can be saved and continued."""
        ...

    def plan(self) -> Plan:
        """Count what is to be done, and measure how long it takes where that can be told."""
        ...

    def run(self) -> Generator[Event, None, None]:
        """Train from where it stands to the end. Between two events it can be saved, or left for good."""
        ...

    def evaluate_early(self) -> StageRecord:
        """Evaluate what there is when a run ends inside a stage; the state has then left the schedule."""
        ...

    def snapshot(self) -> Snapshot:
        """Give the policies as they stand."""
        ...

    def get_state(self) -> dict[str, NDArray]:
        """Give everything needed to continue, as named arrays; asked only of one that is resumable."""
        ...

    def set_state(self, state: Mapping[str, NDArray]) -> None:
        """Continue from what ``get_state`` returned; refused if it does not fit the config."""
        ...

    def close(self) -> None:
        """End its processes and environments."""
        ...
